"""The ways to an MCP server, with bounds between its bytes and the SDK, which parses them.

A reply that is not used becomes an error with the id of its request, so that no call waits for it.
A message comes in as bytes and leaves as bytes that any JSON reader takes quickly, or as a
`ReplyError`. The checks use a few passes over the bytes, none of which parses them. Large messages
are checked in a thread.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import IO

import anyio
import httpx2
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter

from ...errors import HarmonyError

# Bounds of what an MCP server sends, checked before it is parsed


MAX_BYTES = 16 << 20
"""The largest message: a call's files, at most 10 MiB, are larger in Base64."""
MAX_VALUES = 20_000
"""The most commas and brackets of a message, outside of its texts."""
# pydantic reads 201 levels. A reply beyond that would be no message, and its call would wait on.
MAX_DEPTH = 180
"""The most arrays and objects inside one another."""

PARSE_ERROR = -32700

# Escaped backslashes and pairs of surrogates stay; what is left of `\ud…` is half a pair.
_SURROGATES = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_LARGE = 1 << 20
_HALF = 6  # bytes of the escape of half a pair
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")')
_ID_BYTES = 500  # of a message's start and end, in which its id is looked for


class ReplyError(HarmonyError):
    """A message of a server is not used; the text says why, without quoting it."""


def bounded(message: bytes) -> bytes:
    r"""Return a message that is quick to parse, with U+FFFD for halves of surrogate pairs.

    Raises `ReplyError`.

    >>> bounded(b'{"text": "\\ud83d"}')
    b'{"text": "\\ufffd"}'
    """
    if len(message) > MAX_BYTES:
        raise ReplyError(f"it is larger than {MAX_BYTES >> 20} MiB")
    _check_shape(message)
    if b"\\ud" in message or b"\\uD" in message:
        message = _SURROGATES.sub(_whole, message)
    try:
        message.decode("utf-8")
    except UnicodeDecodeError:
        if len(message) > _LARGE:  # replacing takes long, and makes it three times as large
            raise ReplyError("it is not UTF-8") from None
        message = message.decode("utf-8", "replace").encode("utf-8")
    return message


def _check_shape(message: bytes) -> None:
    # So few signs can be neither too many nor too deep; most messages end here.
    if message.count(b",") + message.count(b"[") + message.count(b"{") <= MAX_DEPTH:
        return
    plain = message
    if b"\\" in message:
        # Backslashes first: a quote behind an escaped backslash ends its text.
        plain = message.replace(b"\\\\", b"").replace(b'\\"', b"")
    # A value has at most four quotes: two of its name, and two of its own.
    if plain.count(b'"') > 4 * MAX_VALUES:
        raise ReplyError(f"it has more than {MAX_VALUES:,} values")
    # Every other part is inside of a text.
    outside = b"".join(plain.split(b'"')[::2])
    if outside.count(b",") + outside.count(b"[") + outside.count(b"{") > MAX_VALUES:
        raise ReplyError(f"it has more than {MAX_VALUES:,} values")
    depth = 0
    for bracket in re.findall(rb"[\[\]{}]", outside):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise ReplyError(f"it is nested more than {MAX_DEPTH} levels deep")


def _whole(escape: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if len(escape[0]) == _HALF else escape[0]


def id_in(start: bytes, end: bytes) -> int | str | None:
    """Return the id of a message of which only the start and the end are known.

    >>> id_in(b'{"jsonrpc":"2.0","id":7,"result":{"content"', b"}}")
    7
    """
    for part in (_ID.search(start[:_ID_BYTES]), *list(_ID.finditer(end[-_ID_BYTES:]))[-1:]):
        if part is not None:
            found: int | str = json.loads(part[1])
            return found
    return None


def error_reply(id: int | str, problem: Exception) -> bytes:
    """Write the error that takes the place of the reply to a request."""
    error = {"code": PARSE_ERROR, "message": str(problem)}
    return json.dumps({"jsonrpc": "2.0", "id": id, "error": error}).encode("ascii")


# What both ways share

_LOG = logging.getLogger(__name__)

_READ = 1 << 18  # bytes at a time
_SMALL = 1 << 16  # bytes of a message that is checked without a thread
_KEPT = 1 << 10  # bytes of the start and the end of a message that is too large
_ENDING_SECONDS = 2.0  # for each step of ending a server
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


async def _bounded(message: bytes) -> bytes:
    if len(message) <= _SMALL:
        return bounded(message)
    return await asyncio.to_thread(bounded, message)


def _refused(problem: object) -> None:
    _LOG.warning("a message of an MCP server is not used: %s", problem)


# Servers that a command starts


class _Line:
    """The line of a server that has not ended yet; only the ends of one that is too large."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._start = self._end = b""

    def add(self, part: bytes) -> None:
        self._size += len(part)
        self._start = (self._start + part[:_KEPT])[:_KEPT]
        self._end = (self._end + part[-_KEPT:])[-_KEPT:]
        if self._size <= MAX_BYTES:
            self._parts.append(part)
        else:
            self._parts.clear()

    async def read(self) -> bytes:
        """Return the whole line, ready to be parsed. Raises `ReplyError`."""
        if self._size > MAX_BYTES:
            raise ReplyError(f"it is larger than {MAX_BYTES >> 20} MiB")
        return await _bounded(b"".join(self._parts))

    def id(self) -> int | str | None:
        return id_in(self._start, self._end)

    @property
    def is_object(self) -> bool:
        """False for anything that a server prints besides its messages."""
        return self._start.lstrip().startswith(b"{")


class _Requests:
    """The requests that wait for a reply."""

    def __init__(self) -> None:
        self._waiting: set[int | str] = set()

    def sent(self, message: SessionMessage) -> bytes:
        """Write a message as a line."""
        if isinstance(message.message, JSONRPCRequest):
            self._waiting.add(message.message.id)
        text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        return text.encode("utf-8", "replace") + b"\n"

    async def received(self, line: _Line) -> list[SessionMessage]:
        """Read a line; errors take the place of a reply that is not used."""
        text = b""
        try:
            text = await line.read()
            message = _parsed(text)
        except ReplyError as error:
            # A reply without a readable id may be that of any request that waits.
            problem, failed = error, {line.id()} & self._waiting or set(self._waiting)
        except ValueError:
            if b'"jsonrpc"' not in text:
                return []  # some servers print their logs as JSON
            problem, failed = ReplyError("it is no message"), {line.id()} & self._waiting
        else:
            # Requests of the server's own have ids, too, which may be equal to ours.
            if isinstance(message.message, (JSONRPCResponse, JSONRPCError)):
                self._waiting.discard(message.message.id)
            return [message]
        _refused(problem)
        self._waiting -= failed
        return [_parsed(error_reply(id, problem)) for id in failed if id is not None]


def _parsed(text: bytes) -> SessionMessage:
    return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))


@asynccontextmanager
async def command_transport(
    command: Sequence[str], errlog: IO[bytes]
) -> AsyncGenerator[tuple[object, object], None]:
    """Start a server, and speak with it by its standard input and output.

    Raises `OSError` if it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        env=get_default_environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=errlog,
        # A group of its own, which `_end` ends as a whole.
        start_new_session=True,
    )
    to_sdk, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_sdk = anyio.create_memory_object_stream[SessionMessage](0)
    requests = _Requests()

    async def read() -> None:
        assert process.stdout is not None
        line = _Line()
        async with to_sdk:
            while chunk := await process.stdout.read(_READ):
                *ends, rest = chunk.split(b"\n")
                for end in ends:
                    line.add(end)
                    for message in await requests.received(line) if line.is_object else ():
                        await to_sdk.send(message)
                    line = _Line()
                line.add(rest)

    async def write() -> None:
        assert process.stdin is not None
        async with from_sdk:
            async for message in from_sdk:
                process.stdin.write(requests.sent(message))
                await process.stdin.drain()

    async def quietly(work: object) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
            await work()  # type: ignore[operator]

    working = [asyncio.create_task(quietly(work)) for work in (read, write)]
    try:
        yield from_server, to_server
    finally:
        for stream in (from_server, to_server, to_sdk, from_sdk):
            stream.close()
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        # Shielded, because a server must end although its user was cancelled.
        await asyncio.shield(_end(process))


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a server as MCP prescribes: close its input, then SIGTERM, then SIGKILL.

    The server's own processes end with it, as they are of its group. Windows has no groups of that
    kind and no signals, so there only the server ends.
    """
    assert process.stdin is not None
    process.stdin.close()
    ways: tuple[Callable[[], None], ...] = (process.terminate, process.kill)
    if os.name == "posix":
        ways = tuple(partial(os.killpg, process.pid, n) for n in (signal.SIGTERM, signal.SIGKILL))
    # The last way is followed by another wait.
    for end in (*ways, None):
        with anyio.move_on_after(_ENDING_SECONDS):
            await process.wait()
            return
        with suppress(ProcessLookupError, PermissionError):
            if end is not None:
                end()
    _LOG.warning("the MCP server with process id %s does not end", process.pid)


# Servers behind a URL


class _CheckedBody(httpx2.AsyncByteStream):
    """The body of a response: each event of a stream, or the whole, is checked before it goes on.

    `id` is that of the request, if it waits for a reply. A reply that is not used, or that breaks
    off, is an error of its request alone: the SDK would end the connection of all of them.
    """

    def __init__(
        self,
        body: httpx2.AsyncByteStream,
        id: int | str | None,
        *,
        events: bool,
        is_compressed: bool = False,
    ) -> None:
        self._body = body
        self._id = id
        self._events = events
        self._is_compressed = is_compressed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        waiting = bytearray()
        try:
            if self._is_compressed:  # it would be unpacked before anything bounds it
                raise ReplyError("it is compressed, although it must not be")
            async for chunk in self._body:
                # The end of an event has up to four bytes, which may come in two chunks.
                searched = max(0, len(waiting) - 3)
                waiting += chunk
                while self._events and (end := _EVENT_END.search(waiting, searched)):
                    yield await self._event(bytes(waiting[: end.end()]))
                    del waiting[: end.end()]
                    searched = 0
                if len(waiting) > MAX_BYTES:
                    raise ReplyError(f"it is larger than {MAX_BYTES >> 20} MiB")
            if not self._events:
                yield await _bounded(bytes(waiting))
        except (ReplyError, httpx2.TransportError) as error:
            is_ours = isinstance(error, ReplyError)
            if self._id is None and not is_ours:
                raise
            problem = error if is_ours else ReplyError("it broke off; what the call did is unknown")
            _refused(problem)
            if self._id is not None:
                reply = error_reply(self._id, problem)
                yield b"event: message\ndata: " + reply + b"\n\n" if self._events else reply

    async def _event(self, event: bytes) -> bytes:
        """Check the data of an event, and join its lines."""
        lines = re.split(rb"\r\n|\n|\r", event)
        data = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
        others = [line for line in lines if line and not line.startswith(b"data:")]
        if data:
            checked = await _bounded(b"\n".join(data))
            others.append(b"data: " + checked.replace(b"\n", b"\ndata: "))
        return b"\n".join(others) + b"\n\n"

    async def aclose(self) -> None:
        await self._body.aclose()


async def _check_body(response: httpx2.Response) -> None:
    body = response.stream
    if not isinstance(body, httpx2.AsyncByteStream):
        return
    try:
        id = json.loads(response.request.content).get("id")
    except (ValueError, AttributeError, httpx2.RequestNotRead):
        id = None
    events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    is_compressed = response.headers.pop("content-encoding", "identity") != "identity"
    response.stream = _CheckedBody(body, id, events=events, is_compressed=is_compressed)


@asynccontextmanager
async def url_transport(url: str) -> AsyncGenerator[tuple[object, object], None]:
    """Speak with a server at a URL."""
    async with create_mcp_http_client({"Accept-Encoding": "identity"}) as client:
        client.event_hooks = {"request": [], "response": [_check_body]}
        transport = streamable_http_client(
            url, http_client=client, max_sse_event_size=2 * MAX_BYTES
        )
        async with transport as streams:
            yield streams
