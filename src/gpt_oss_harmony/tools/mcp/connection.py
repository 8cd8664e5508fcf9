"""Connections to MCP servers: an address, and a client that is renewed when it is lost."""

from __future__ import annotations

import asyncio
import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import PurePath
from typing import IO, Any
from urllib.parse import urlsplit

from mcp import Client, MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolResult,
    Implementation,
)

from ... import __version__
from ...errors import HarmonyError, without_secrets
from .transports import command_transport, url_transport


class McpServerError(HarmonyError):
    """A server cannot be started or reached, or violates the protocol."""


_NAMED = re.compile(r"([A-Za-z_]\w*)=(.+)", re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class McpAddress:
    """A server, by its `url` or by the `command` that starts it; `name` is for its namespace.

    Without a `name`, the namespace takes the name that the server gives.
    """

    url: str | None = None
    command: tuple[str, ...] = ()
    name: str | None = None

    @classmethod
    def parse(cls, text: str) -> McpAddress:
        """Read a URL, or a command in the syntax of a shell; ``NAME=`` may stand before either.

        Raises `ValueError` for anything else.

        >>> McpAddress.parse("weather=uvx mcp-weather --units 'SI base'")
        McpAddress(url=None, command=('uvx', 'mcp-weather', '--units', 'SI base'), name='weather')
        >>> McpAddress.parse("https://example.com/mcp").url
        'https://example.com/mcp'
        """
        named = _NAMED.fullmatch(text.strip())
        name, address = (named[1], named[2]) if named else (None, text.strip())
        if address.startswith(("http://", "https://")):
            if not urlsplit(address).hostname:
                raise ValueError(f"the URL {address!r} has no host")
            return cls(url=address, name=name)
        try:
            command = tuple(shlex.split(address))
        except ValueError as error:
            raise ValueError(f"the command {address!r} cannot be split: {error}") from error
        if not command:
            raise ValueError("name a command that starts an MCP server, or its URL")
        return cls(command=command, name=name)

    def __str__(self) -> str:
        return self.url or shlex.join(self.command)

    @property
    def short_name(self) -> str:
        """The host or the program: the name of a server that gives none."""
        if self.url is not None:
            return urlsplit(self.url).hostname or ""
        return PurePath(self.command[0]).stem


_CLOSING_SECONDS = 15  # the SDK gives a server some seconds to end, and then kills it
_LAST_WORDS = 300  # characters of what a server wrote to standard error
# A restarted server behind a URL does not recognise the session: an invalid request.
_ENDS = (CONNECTION_CLOSED, INVALID_REQUEST)


@dataclass(eq=False)
class _Session:
    """A client while it is open, with the number of calls that use it.

    The SDK requires that the task which opened a client also closes it, so each has a `task` of its
    own.
    """

    task: asyncio.Task[None]
    closing: asyncio.Event
    client: Client
    calls: int = 0

    async def close(self) -> None:
        """End it, and a server that was started."""
        self.closing.set()
        await asyncio.wait({self.task}, timeout=_CLOSING_SECONDS)
        await _cancel(self.task)


class McpConnection:
    """A client of the server at `address`; connecting takes `patience` seconds at most."""

    def __init__(self, address: McpAddress, patience: float) -> None:
        self.address = address
        self._patience = patience
        self._lock = asyncio.Lock()
        self._session: _Session | None = None
        self._sessions = set[_Session]()  # also those that are lost, until their calls have ended

    async def client(self) -> Client:
        """Return the client; connect first if there is no connection, or it was lost.

        Raises `McpServerError`.
        """
        return (await self._opened()).client

    async def call(self, name: str, arguments: dict[str, Any], seconds: float) -> CallToolResult:
        """Call a tool; raises `McpServerError` if there is no result in time.

        The call is cancelled at the server if it is late, or if the caller is cancelled. Other
        calls go on, whatever this one meets.
        """
        session = await self._opened()
        session.calls += 1
        call = asyncio.ensure_future(session.client.call_tool(name, arguments))
        try:
            if not await _first(call, session.task, seconds):
                raise McpServerError(f"the tool did not answer in {seconds:g} seconds")
            return self._result(call, session)
        finally:
            await _cancel(call)
            session.calls -= 1
            if session is not self._session and session.calls == 0:
                await session.close()

    async def close(self) -> None:
        """End the connection, and a server that was started."""
        self._session = None
        await asyncio.gather(*(session.close() for session in self._sessions))

    def _result(self, call: asyncio.Future[CallToolResult], session: _Session) -> CallToolResult:
        problem = call.exception() if call.done() else None
        if call.done() and problem is None:
            return call.result()
        code = problem.code if isinstance(problem, MCPError) else None
        if problem is not None and code in (None, PARSE_ERROR):
            raise McpServerError(f"the server's answer cannot be used: {_reason(problem)}")
        if problem is not None and code not in _ENDS:
            raise McpServerError(f"the server refused the call: {_reason(problem)}")
        if self._session is session:  # else another call has met the end before
            self._session = None  # the next call opens a new one
        if problem is not None and code == INVALID_REQUEST:
            raise McpServerError(
                f"the server refused the call: {_reason(problem)}. The next call begins a new "
                "session with it"
            )
        raise McpServerError(
            "the server ended during the call; what the call did is unknown. The next call "
            "starts it anew, or a new session with it"
        )

    async def _opened(self) -> _Session:
        async with self._lock:
            if self._session is None or self._session.task.done():
                self._session = await self._connected()
            return self._session

    async def _connected(self) -> _Session:
        opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        closing = asyncio.Event()
        task = asyncio.create_task(self._keep(opened, closing))
        task.add_done_callback(_retrieve)
        try:
            await _first(opened, task, self._patience)
            if opened.done():
                session = _Session(task, closing, opened.result())
                self._sessions.add(session)
                task.add_done_callback(lambda _: self._sessions.discard(session))
                return session
        finally:
            if not opened.done():
                await _cancel(task)
        problem = None if task.cancelled() else task.exception()
        why = _reason(problem) if problem else f"it did not answer in {self._patience:g} seconds"
        address = without_secrets(str(self.address))
        raise McpServerError(f"cannot use the MCP server {address}: {why}")

    async def _keep(self, opened: asyncio.Future[Client], closing: asyncio.Event) -> None:
        url = self.address.url
        with tempfile.TemporaryFile() as stderr:  # a pipe that nobody reads would fill up
            server: Any = (
                url_transport(url) if url else command_transport(self.address.command, stderr)
            )
            info = Implementation(name="harmony", version=__version__)
            try:
                async with Client(server, client_info=info) as client:
                    opened.set_result(client)
                    await closing.wait()
            except Exception as error:
                raise McpServerError(f"{_reason(error)}{_last_words(stderr)}") from error


async def _first(
    waiting: asyncio.Future[Any], connection: asyncio.Task[None], seconds: float
) -> bool:
    """Wait for it, or for the end of the connection; return False if neither comes in time."""
    done, _ = await asyncio.wait(
        {waiting, connection}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
    )
    return bool(done)


def _reason(error: BaseException) -> str:
    """Return the message of an error as one line; of a group of errors, that of the first."""
    while getattr(error, "exceptions", None):
        error = error.exceptions[0]  # type: ignore[attr-defined]
    text = " ".join(str(error).split())[:500]
    return text or type(error).__name__


def _last_words(stderr: IO[bytes]) -> str:
    size = stderr.seek(0, 2)
    stderr.seek(max(0, size - 4 * _LAST_WORDS))
    text = " ".join(stderr.read().decode("utf-8", "replace").split())
    return f"; it said: {text[-_LAST_WORDS:]}" if text else ""


async def _cancel(task: asyncio.Future[Any]) -> None:
    """Cancel a task, wait until it has ended, and ignore its result."""
    task.cancel()
    await asyncio.wait({task}, timeout=_CLOSING_SECONDS)
    if task.done():
        _retrieve(task)


def _retrieve(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not log it
