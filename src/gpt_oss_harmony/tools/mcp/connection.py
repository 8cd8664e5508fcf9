"""Connections to MCP servers: an address, and a client that is renewed when it is lost."""

from __future__ import annotations

import asyncio
import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import PurePath
from typing import IO, Any, TypeVar
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
from ...errors import HarmonyError
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

_Result = TypeVar("_Result")


class McpConnection:
    """A client of the server at `address`; connecting takes `patience` seconds at most.

    The SDK requires that the task which opened a connection also closes it, so each connection has
    a task of its own.
    """

    def __init__(self, address: McpAddress, patience: float) -> None:
        self.address = address
        self._patience = patience
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._closing = asyncio.Event()

    async def client(self) -> Client:
        """Return the client; connect first if there is no connection, or it was lost.

        Raises `McpServerError`.
        """
        async with self._lock:
            if self._client is None or self._task is None or self._task.done():
                self._client = await self._connected()
            return self._client

    async def call(self, name: str, arguments: dict[str, Any], seconds: float) -> CallToolResult:
        """Call a tool; raises `McpServerError` if there is no result in time.

        The call is cancelled at the server if it is late, or if the caller is cancelled.
        """
        client = await self.client()
        call = asyncio.ensure_future(client.call_tool(name, arguments))
        try:
            if not await self._first({call}, seconds):
                raise McpServerError(f"the tool did not answer in {seconds:g} seconds")
            return await self._result(call, client)
        finally:
            await _cancel(call)

    async def close(self) -> None:
        """End the connection, and a server that was started."""
        self._client, task = None, self._task
        if task is not None:
            self._closing.set()
            await asyncio.wait({task}, timeout=_CLOSING_SECONDS)
            await _cancel(task)  # not `self._task`: another call may have connected meanwhile

    async def _first(
        self, waiting: set[asyncio.Future[_Result]], seconds: float
    ) -> set[asyncio.Future[Any]]:
        """Wait for the first of them, or for the end of the connection."""
        futures: set[asyncio.Future[Any]] = {*waiting}
        if self._task is not None:
            futures.add(self._task)
        done: set[asyncio.Future[Any]]
        done, _ = await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return done

    async def _result(self, call: asyncio.Future[CallToolResult], client: Client) -> CallToolResult:
        problem = call.exception() if call.done() else None
        if call.done() and problem is None:
            return call.result()
        if isinstance(problem, MCPError) and problem.code == PARSE_ERROR:
            raise McpServerError(f"the server's answer cannot be used: {_reason(problem)}")
        if isinstance(problem, MCPError) and problem.code not in _ENDS:
            raise McpServerError(f"the server refused the call: {_reason(problem)}")
        if self._client is client:  # else another call has closed it
            await self.close()  # the next call opens a new connection
        if isinstance(problem, MCPError) and problem.code == INVALID_REQUEST:
            raise McpServerError(
                f"the server refused the call: {_reason(problem)}. The next call begins a new "
                "session with it"
            )
        if problem is None or isinstance(problem, MCPError):
            raise McpServerError(
                "the server ended during the call; what the call did is unknown. The next call "
                "starts it anew, or a new session with it"
            )
        raise McpServerError(f"the server's answer cannot be used: {_reason(problem)}")

    async def _connected(self) -> Client:
        opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        # Not the one before, which is set if that connection was closed.
        self._closing = asyncio.Event()
        self._task = asyncio.create_task(self._keep(opened, self._closing))
        self._task.add_done_callback(_retrieve)
        try:
            await self._first({opened}, self._patience)
            if opened.done():
                return opened.result()
        finally:
            if not opened.done():
                await _cancel(self._task)
        problem = None if self._task.cancelled() else self._task.exception()
        why = _reason(problem) if problem else f"it did not answer in {self._patience:g} seconds"
        raise McpServerError(f"cannot use the MCP server {self.address}: {why}")

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
