"""Requests to a server over HTTP. An answer is JSON or server-sent events; an error is one line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any
from urllib.parse import unquote

import httpx2

from .engine import EngineError

OUTGOING_HEADERS: ContextVar[Mapping[str, str] | None] = ContextVar(
    "harmony_outgoing_headers", default=None
)
"""Headers of every request in a context, such as those of a trace."""

_EXCERPT = 300  # characters of an answer in an error
_BUSY = (429, 502, 503, 504)  # temporary statuses of a server or its proxy
_PAUSES = (0.2, 1.0)  # seconds before a retry
_GET_TIMEOUT = 10  # seconds


class RefusalError(EngineError):
    """The server answered with an error; `details` is its JSON object, if it sent one."""

    def __init__(self, url: str, status: int, answer: str) -> None:
        try:
            details = json.loads(answer).get("error", {})
        except (ValueError, AttributeError):
            details = {}
        self.status = status
        self.details: dict[str, Any] = details if isinstance(details, dict) else {}
        self.reason = str(self.details.get("message") or details or answer)[:_EXCERPT].strip()
        super().__init__(
            f"{url} refused the request ({status}): {self.reason or 'it gave no reason'}",
            retryable=status >= 500 or status == 429,
        )


class _UnansweredError(EngineError):
    """The request may be repeated: no part of an answer has arrived."""


class HttpClient:
    """Talks to one server.

    `timeout` is the longest time without data from the server, in seconds; a GET request has at
    most ten. A request that fails before any answer arrives is repeated up to twice. The only
    exception is `EngineError`. A user and a password in the URL are sent, but are not part of `url`
    or of errors.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout: float = 300,
        pauses: Sequence[float] = _PAUSES,
    ) -> None:
        # The URLs that SDKs take end in /v1, with which our paths begin.
        scheme, separator, rest = url.rstrip("/").removesuffix("/v1").partition("://")
        authority, slash, path = rest.partition("/")
        credentials, _, host = authority.rpartition("@")
        user, _, password = map(unquote, credentials.partition(":"))
        self.url = f"{scheme}{separator}{host}{slash}{path}"
        self._pauses = pauses
        self._timeouts = {"POST": timeout, "GET": min(_GET_TIMEOUT, timeout)}
        self._closed = False
        try:
            self._client = httpx2.AsyncClient(
                headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
                auth=(user, password) if credentials else None,
                # By default 100 connections, which as many streams would keep from all others.
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
            )
        except ValueError as error:
            raise EngineError(f"cannot talk to {self.url}: {error}") from error

    async def get(self, path: str) -> Any:
        """Return the JSON at `path`, or None for an empty answer."""
        async with aclosing(self.ask("GET", path)) as answers:
            return await anext(answers, None)

    async def ask(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> AsyncGenerator[Any, None]:
        """Make a request and yield its answer: the JSON, or the JSON of each event.

        Closing the generator closes the connection, so the server stops.
        """
        for pause in (*self._pauses, None):
            try:
                async with aclosing(self._ask_once(method, path, body)) as answers:
                    async for answer in answers:
                        yield answer
                return
            except _UnansweredError as error:
                if pause is None or self._closed:
                    raise EngineError(str(error), retryable=True) from error.__cause__
            await asyncio.sleep(pause)

    async def _ask_once(
        self, method: str, path: str, body: dict[str, Any] | None
    ) -> AsyncGenerator[Any, None]:
        url, answered, patience = self.url + path, False, self._timeouts[method]
        timeout = httpx2.Timeout(patience, connect=min(_GET_TIMEOUT, patience), pool=None)
        if self._closed:
            raise EngineError("the engine was closed")
        try:
            async with (
                self._client.stream(
                    method, url, json=body, timeout=timeout, headers=OUTGOING_HEADERS.get()
                ) as response,
                aclosing(_read(url, response)) as answers,
            ):
                async for answer in answers:
                    answered = True
                    yield answer
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            if self._closed:
                raise EngineError("the engine was closed") from error
            if isinstance(error, httpx2.ReadTimeout):
                raise EngineError(
                    f"{url} sent nothing for {patience:g} seconds", retryable=True
                ) from error
            raise _broken(url, error, answered=answered) from error

    async def close(self) -> None:
        """Close all connections; running requests end with an error."""
        self._closed = True
        await self._client.aclose()


async def _read(url: str, response: httpx2.Response) -> AsyncGenerator[Any, None]:
    """Yield the JSON of an answer, or of each of its events."""
    if response.status_code != 200:
        answer = await response.aread()
        refusal = RefusalError(url, response.status_code, answer.decode(errors="replace"))
        if response.status_code in _BUSY:
            raise _UnansweredError(str(refusal), retryable=True)
        raise refusal
    if response.headers.get("content-type", "").partition(";")[0] != "text/event-stream":
        answer = await response.aread()
        if answer or response.request.method == "POST":
            yield _parse(url, answer)
        return
    reader = EventReader()
    async for piece in response.aiter_bytes():
        for data in reader.feed(piece):
            if data == b"[DONE]":
                return
            event = _parse(url, data)
            if isinstance(event, dict) and event.get("error"):  # in the middle of a stream
                details = event["error"]
                code = details.get("code") if isinstance(details, dict) else None
                status = code if isinstance(code, int) else 500
                raise RefusalError(url, status, data.decode(errors="replace"))
            yield event


def _broken(url: str, error: Exception, *, answered: bool) -> EngineError:
    cause = str(error) or type(error).__name__
    if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
        return _UnansweredError(
            f"cannot connect to {url}: {cause}; start the server there, or correct the URL",
            retryable=True,
        )
    if not isinstance(error, httpx2.TransportError) or isinstance(
        error, httpx2.UnsupportedProtocol
    ):
        return EngineError(f"cannot talk to {url}: {cause}")
    if answered:
        problem = f"{url} closed the connection during its answer: {cause}"
        return EngineError(problem, retryable=True)
    return _UnansweredError(f"{url} closed the connection: {cause}", retryable=True)


def _parse(url: str, answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except ValueError as error:
        excerpt = answer[:_EXCERPT].decode(errors="replace")
        raise EngineError(f"{url} sent an answer that is not JSON: {excerpt!r}") from error


class EventReader:
    """Reads server-sent events from chunks of any size, as the HTML standard defines them."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the data of each event that the chunk completes."""
        # JSON may contain characters such as U+2028, at which str.splitlines would split it.
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            name, _, value = line.removesuffix(b"\r").partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                self._data.append(value)
            elif name == b"error":  # a field of older llama.cpp servers
                self._data.append(b'{"error":%s}' % value)
            elif line in (b"", b"\r"):
                if self._data:
                    yield b"\n".join(self._data)
                self._data = []
