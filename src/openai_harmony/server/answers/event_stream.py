"""Events of the server, as a stream of server-sent events."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeAlias

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ...errors import HarmonyError
from ..api_error import ApiError
from .disconnect import cancel_all, until_gone

__all__ = ["Event", "EventStream", "encode_event", "whole_or_stream"]

_LOG = logging.getLogger(__name__)

Event: TypeAlias = "tuple[str | None, Any]"
"""The name of an event, if it has one, and its data: JSON, or a text that is sent as it is."""

_HEADERS = {
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",  # nginx and its like keep a stream back otherwise
}
_COMMENT = b": keep-alive\n\n"


def whole_or_stream(whole: type[Any]) -> dict[int | str, dict[str, Any]]:
    """Describe, for the OpenAPI document, a route that answers with JSON or with a stream."""
    stream = {"text/event-stream": {"schema": {"type": "string"}}}
    return {200: {"model": whole, "content": stream}}


def encode_event(name: str | None, data: Any) -> bytes:
    r"""Write one event.

    >>> encode_event("done", {"text": "é"})
    b'event: done\ndata: {"text":"\xc3\xa9"}\n\n'
    """
    text = data if isinstance(data, str) else _JSON.encode(data)
    head = "" if name is None else f"event: {name}\n"
    try:
        return f"{head}data: {text}\n\n".encode()
    except UnicodeEncodeError:  # half of a character, which JSON can escape
        return f"{head}data: {json.dumps(data)}\n\n".encode()


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class EventStream(StreamingResponse):
    """Sends what an async generator yields, each event in one write.

    - The generator runs ahead of a client who reads slowly, so that its place at the engine is
      free when the turn is over. It is closed at once when the client goes away.
    - What it raises before its first event is answered with an HTTP status. Later, `error_event`
      says how the error is told; it is the last event but for `ending`.
    - After `keep_alive` seconds without an event a comment is sent: proxies cut what is silent.
    """

    def __init__(
        self,
        events: AsyncGenerator[Event, None],
        *,
        error_event: Callable[[ApiError], Event] = lambda error: (None, error.body()),
        ending: str | None = None,
        keep_alive: float = 15,
    ) -> None:
        super().__init__((), headers=_HEADERS, media_type="text/event-stream")
        self._events = events
        self._error_event = error_event
        self._ending = ending
        self._keep_alive = keep_alive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end, or the client has gone."""
        queue: asyncio.Queue[_Item] = asyncio.Queue()
        reading = asyncio.ensure_future(self._read_into(queue))
        writing = asyncio.ensure_future(self._write_from(queue, send))
        gone = asyncio.ensure_future(until_gone(receive))
        try:
            await asyncio.wait({writing, gone}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                writing.result()
        finally:
            await cancel_all(reading, writing, gone)

    async def _read_into(self, queue: asyncio.Queue[_Item]) -> None:
        try:
            async with aclosing(self._events) as events:
                async for event in events:
                    queue.put_nowait(event)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            queue.put_nowait(error)
        else:
            queue.put_nowait(None)

    async def _write_from(self, queue: asyncio.Queue[_Item], send: Send) -> None:
        item = await queue.get()
        if isinstance(item, Exception):
            raise item
        await send(
            {"type": "http.response.start", "status": 200, "headers": self.raw_headers},
        )
        while isinstance(item, tuple):
            await _send(send, encode_event(*item) if item else _COMMENT)
            item = await self._next(queue)
        if item is not None:
            await _send(send, encode_event(*self._error_event(_known(item))))
        if self._ending is not None:
            await _send(send, encode_event(None, self._ending))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next(self, queue: asyncio.Queue[_Item]) -> _Item:
        """Wait for an item; an empty one comes when it takes long."""
        if not queue.empty():
            return queue.get_nowait()
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._keep_alive, queue.put_nowait, ())
        try:
            return await queue.get()
        finally:
            timer.cancel()


_Item: TypeAlias = "Event | tuple[()] | Exception | None"


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


def _known(error: Exception) -> ApiError:
    if isinstance(error, HarmonyError):
        return ApiError.of(error)
    _LOG.error("a stream failed", exc_info=error)
    problem = "the server failed; its log says where"
    return ApiError(500, problem, kind="server_error", code="server_error")
