"""The connection to a server: kept in a task of its own, renewed when it was lost."""

from __future__ import annotations

import asyncio
import tempfile
from typing import IO, Any, TypeVar

from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.types import CONNECTION_CLOSED, INVALID_REQUEST, CallToolResult, Implementation

from ... import __version__
from .address import McpAddress
from .server_error import McpServerError

__all__ = ["McpLink"]

_CLOSING_SECONDS = 15  # the SDK gives a server some seconds to end, and then kills it
_LAST_WORDS = 300  # characters of what a server wrote to standard error
# A server behind a URL that was started anew does not know the session: an invalid request.
_ENDS = (CONNECTION_CLOSED, INVALID_REQUEST)

_Result = TypeVar("_Result")


class McpLink:
    """A client of a server at `address`; connecting takes `patience` seconds at most.

    The SDK asks that a connection be closed by the task that opened it, and so it has its own.
    """

    def __init__(self, address: McpAddress, patience: float) -> None:
        self.address = address
        self._patience = patience
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._over = asyncio.Event()

    async def client(self) -> Client:
        """Return the client; connect where that was not done yet, or the server is gone.

        Raises `McpServerError`.
        """
        async with self._lock:
            if self._client is None or self._task is None or self._task.done():
                self._client = await self._connected()
            return self._client

    async def call(self, name: str, arguments: dict[str, Any], seconds: float) -> CallToolResult:
        """Call a tool; raises `McpServerError` where there is no result in time.

        The server is told to stop where it is late, or the caller goes away.
        """
        client = await self.client()
        calling = asyncio.ensure_future(client.call_tool(name, arguments))
        try:
            done = await self._first({calling}, seconds)
            if not done:
                raise McpServerError(f"the tool did not answer in {seconds:g} seconds")
            return await self._result(calling)
        finally:
            await _cancelled(calling)

    async def close(self) -> None:
        """End the connection, and a server that was started."""
        self._client = None
        if self._task is not None:
            self._over.set()
            await asyncio.wait({self._task}, timeout=_CLOSING_SECONDS)
            await _cancelled(self._task)

    async def _first(
        self, waiting: set[asyncio.Future[_Result]], seconds: float
    ) -> set[asyncio.Future[Any]]:
        """Wait for the first of them, or for the end of the connection."""
        everything: set[asyncio.Future[Any]] = {*waiting}
        if self._task is not None:
            everything.add(self._task)
        done: set[asyncio.Future[Any]]
        done, _ = await asyncio.wait(
            everything, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        return done

    async def _result(self, calling: asyncio.Future[CallToolResult]) -> CallToolResult:
        problem = calling.exception() if calling.done() else None
        if calling.done() and problem is None:
            return calling.result()
        if isinstance(problem, MCPError) and problem.code not in _ENDS:
            raise McpServerError(f"the server refused the call: {_reason(problem)}")
        await self.close()  # the next call connects anew
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
        self._over = asyncio.Event()
        self._task = asyncio.create_task(self._keep(opened, self._over))
        self._task.add_done_callback(_seen)
        try:
            await self._first({opened}, self._patience)
            if opened.done():
                return opened.result()
        finally:
            if not opened.done():
                await _cancelled(self._task)
        problem = None if self._task.cancelled() else self._task.exception()
        why = _reason(problem) if problem else f"it did not answer in {self._patience:g} seconds"
        raise McpServerError(f"cannot use the MCP server {self.address}: {why}")

    async def _keep(self, opened: asyncio.Future[Client], over: asyncio.Event) -> None:
        with tempfile.TemporaryFile() as said:
            try:
                async with self._new_client(said) as client:
                    opened.set_result(client)
                    await over.wait()
            except Exception as error:
                raise McpServerError(f"{_reason(error)}{_last_words(said)}") from error

    def _new_client(self, said: IO[bytes]) -> Client:
        server: Any = self.address.url
        if self.address.url is None:
            program, *rest = self.address.command
            server = stdio_client(
                StdioServerParameters(command=program, args=rest, encoding_error_handler="replace"),
                errlog=said,  # type: ignore[arg-type] # only its file descriptor is used
            )
        return Client(server, client_info=Implementation(name="harmony", version=__version__))


def _reason(error: BaseException) -> str:
    """Return what is wrong in a line; groups of errors tell the first."""
    while getattr(error, "exceptions", None):
        error = error.exceptions[0]  # type: ignore[attr-defined]
    text = " ".join(str(error).split())[:500]
    return text or type(error).__name__


def _last_words(said: IO[bytes]) -> str:
    size = said.seek(0, 2)
    said.seek(max(0, size - 4 * _LAST_WORDS))
    text = " ".join(said.read().decode("utf-8", "replace").split())
    return f"; it said: {text[-_LAST_WORDS:]}" if text else ""


async def _cancelled(task: asyncio.Future[Any]) -> None:
    """Cancel a task, and wait until it has ended; nothing comes out."""
    task.cancel()
    await asyncio.wait({task}, timeout=_CLOSING_SECONDS)
    if task.done():
        _seen(task)


def _seen(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()  # told where the connection is used next
