"""Streams of server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, TypeAlias

from pydantic import TypeAdapter
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from .errors import ApiError, ErrorAnswer, api_error_of
from .json import READABLE
from .requests import cancel_all, until_disconnected

__all__ = ["Event", "EventStream", "encode_event", "json_or_stream"]

Event: TypeAlias = "tuple[str | None, Any]"
"""The name of an event, if it has one, and its data: JSON, or a text that is sent as it is."""

_Queued: TypeAlias = "Event | tuple[()] | Exception | None"
"""An event, an empty tuple for a comment, the error that ends the stream, or None for its end."""

_HEADERS = {
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",  # nginx and its like keep a stream back otherwise
}
_COMMENT = b": keep-alive\n\n"


def json_or_stream(body: type[Any], event: type[Any]) -> dict[int | str, dict[str, Any]]:
    """Describe, for the OpenAPI document, a route that responds with JSON or with a stream.

    `event` is the class of the data of an event. Without names, ``[DONE]`` is the last.
    """
    either: Any = event | ErrorAnswer
    schema = TypeAdapter(either).json_schema(mode="serialization")
    definitions = schema.pop("$defs", {})

    def inlined(value: Any) -> Any:
        """Put definitions in the places of references, which would not be found in the document."""
        if isinstance(value, dict):
            name = str(value.get("$ref", "")).rpartition("/")[2]
            return inlined(definitions[name]) if name else {k: inlined(v) for k, v in value.items()}
        return [inlined(item) for item in value] if isinstance(value, list) else value

    json_data = {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": inlined(schema),
    }
    item = {
        "type": "object",
        "required": ["data"],
        "properties": {
            "event": {"type": "string"},
            "data": {"anyOf": [json_data, {"const": "[DONE]"}]},
        },
    }
    # As of OpenAPI 3.2, whose tools read it in 3.1, too; a schema would be that of the whole body.
    stream: dict[str, Any] = {"text/event-stream": {"itemSchema": item}}
    return {200: {"model": body, "content": stream}}


def encode_event(name: str | None, data: Any) -> bytes:
    r"""Write one event.

    >>> encode_event("done", {"text": "é"})
    b'event: done\ndata: {"text":"\xc3\xa9"}\n\n'
    """
    body = data if isinstance(data, str) else READABLE.encode(data)
    head = "" if name is None else f"event: {name}\n"
    try:
        return f"{head}data: {body}\n\n".encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON can escape
        return f"{head}data: {json.dumps(data)}\n\n".encode()


class EventStream(StreamingResponse):
    """Sends the events of an async generator, each in one write.

    - The generator runs ahead of a client that reads slowly, so that its slot at the engine is
      free when the turn is over. It is closed at once when the client disconnects.
    - An error before the first event becomes a response with an HTTP status. Later, `error_event`
      writes it; it is the last event but for `ending`.
    - `headers` are read when the first event comes, so that the generator can fill them.
    - After `keep_alive` seconds without an event a comment is sent: proxies cut silent streams.
    """

    def __init__(
        self,
        events: AsyncGenerator[Event, None],
        *,
        error_event: Callable[[ApiError], Event] = lambda error: (None, error.body()),
        ending: str | None = None,
        keep_alive: float = 15,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__((), headers=_HEADERS, media_type="text/event-stream")
        self._events = events
        self._error_event = error_event
        self._ending = ending
        self._keep_alive = keep_alive
        self._more_headers = {} if headers is None else headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end, or the client disconnects."""
        queue: asyncio.Queue[_Queued] = asyncio.Queue()
        reading = asyncio.ensure_future(self._read_into(queue))
        writing = asyncio.ensure_future(self._write_from(queue, send))
        disconnected = asyncio.ensure_future(until_disconnected(receive))
        try:
            await asyncio.wait({writing, disconnected}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                writing.result()
        finally:
            await cancel_all(reading, writing, disconnected)

    async def _read_into(self, queue: asyncio.Queue[_Queued]) -> None:
        try:
            async with aclosing(self._events) as events:
                async for event in events:
                    queue.put_nowait(event)
        except Exception as error:  # noqa: BLE001 - it is sent to the client
            queue.put_nowait(error)
        else:
            queue.put_nowait(None)

    async def _write_from(self, queue: asyncio.Queue[_Queued], send: Send) -> None:
        async def write(body: bytes) -> None:
            await send({"type": "http.response.body", "body": body, "more_body": True})

        item = await queue.get()
        if isinstance(item, Exception):
            raise item
        self.headers.update(self._more_headers)
        await send(
            {"type": "http.response.start", "status": 200, "headers": self.raw_headers},
        )
        while isinstance(item, tuple):
            await write(encode_event(*item) if item else _COMMENT)
            item = await self._next(queue)
        if item is not None:
            error = api_error_of(item, "a stream")
            await write(encode_event(*self._error_event(error)))
        if self._ending is not None:
            await write(encode_event(None, self._ending))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next(self, queue: asyncio.Queue[_Queued]) -> _Queued:
        """Wait for an item; return an empty one after `keep_alive` seconds."""
        if not queue.empty():
            return queue.get_nowait()
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._keep_alive, queue.put_nowait, ())
        try:
            return await queue.get()
        finally:
            timer.cancel()
