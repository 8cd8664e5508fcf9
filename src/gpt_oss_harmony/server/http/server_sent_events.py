"""Streams of server-sent events: their log, and the response that sends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from pydantic import TypeAdapter
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ...apis.wire_events import Event, encode_events, event_of
from .errors import ApiError, ErrorAnswer, api_error_of
from .requests import cancel_all, until_disconnected

_HEADERS = {
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",  # otherwise nginx and similar proxies buffer a stream
}
_COMMENT = b": keep-alive\n\n"  # SDKs skip it
_PACE = 0.01
"""Seconds between writes to one client; events within this time share one write."""


class EventLog:
    """The events of one stream, written once and read by any number of readers at any pace.

    A reader takes all events since its last read. Writing never waits, and its cost does not depend
    on the readers. With `forgets`, there is one reader, and the events that it has read are
    dropped.
    """

    def __init__(self, events: Iterable[Event] = (), *, forgets: bool = False) -> None:
        self.events = list(events)
        self.is_closed = False
        self._error: Exception | None = None
        self._forgets = forgets
        self._readers: set[asyncio.Future[bool]] = set()
        self._pausing: set[asyncio.Future[bool]] = set()

    def add(self, event: Event) -> None:
        """Write an event, and wake the waiting readers."""
        self.events.append(event)
        if self._readers:
            self._wake()

    def close(self, error: Exception | None = None) -> None:
        """End the log; readers end after its last event or raise the error there."""
        self.is_closed = True
        self._error = error
        # A writer that pauses is woken, too; else the last events would come up to 10 ms late.
        self._readers |= self._pausing
        self._wake()

    async def batches(
        self, after: int = -1, patience: float | None = None
    ) -> AsyncGenerator[list[Event], None]:
        """Yield the events with an index above `after`, also future ones, in batches.

        A batch is empty if no event came for `patience` seconds.
        """
        position = after + 1
        while True:
            if position < len(self.events):
                batch = self.events[position:]
                if self._forgets:
                    self.events.clear()
                else:
                    position += len(batch)
                yield batch
            elif self.is_closed:
                if self._error is not None:
                    raise self._error
                return
            elif not await self._change(self._readers, patience):
                yield []

    async def pause(self, seconds: float) -> None:
        """Wait, so that events gather; the end of the log ends the pause."""
        if not self.is_closed:
            await self._change(self._pausing, seconds)

    async def _change(self, waiting: set[asyncio.Future[bool]], patience: float | None) -> bool:
        """Wait among others for a change; return False if there is none in time."""
        loop = asyncio.get_running_loop()
        change: asyncio.Future[bool] = loop.create_future()
        timer = None if patience is None else loop.call_later(patience, _settle, change, False)
        waiting.add(change)
        try:
            return await change
        finally:
            waiting.discard(change)
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        for reader in self._readers:
            _settle(reader, True)
        self._readers.clear()


def _settle(change: asyncio.Future[bool], has_come: bool) -> None:
    if not change.done():
        change.set_result(has_come)


class EventStream(StreamingResponse):
    """Sends the events of a log, or of an async generator.

    - An event after a pause is sent at once. Events within the next 10 ms share one write.
    - A generator does not wait for a slow client, so its slot at the engine is free when the turn
      ends. It is closed at once if the client disconnects.
    - An error before the first event becomes a response with an HTTP status. A later error is
      written by `error_event`; only `ending` comes after it.
    - `headers` are read at the first event, so that a generator can fill them.
    - `encode` writes events; it and `media_type` are those of server-sent events.
    - After `keep_alive` seconds without an event, a comment is sent, or the event `ping`, because
      proxies close silent streams.
    - For a log, only events with an index above `after` are sent. `on_end` is called when the
      stream has ended or its client has disconnected.
    """

    def __init__(
        self,
        events: EventLog | AsyncGenerator[Event, None],
        *,
        after: int = -1,
        error_event: Callable[[ApiError], Event] = lambda error: event_of(error.body()),
        ending: str | None = None,
        keep_alive: float = 15,
        ping: Event | None = None,
        headers: Mapping[str, str] | None = None,
        on_end: Callable[[], object] = lambda: None,
        encode: Callable[[Iterable[Event]], bytes] = encode_events,
        media_type: str = "text/event-stream",
    ) -> None:
        super().__init__((), headers=_HEADERS, media_type=media_type)
        self._encode = encode
        # Only server-sent events have comments.
        comment = _COMMENT if encode is encode_events else b""
        self._generator = None if isinstance(events, EventLog) else events
        self._log = events if isinstance(events, EventLog) else EventLog(forgets=True)
        self._after = after
        self._error_event = error_event
        self._ending = ending
        self._keep_alive = keep_alive
        self._ping = comment if ping is None else encode([ping])
        self._more_headers = {} if headers is None else headers
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end or the client disconnects."""
        tasks = [
            asyncio.ensure_future(self._write(send)),
            asyncio.ensure_future(until_disconnected(receive)),
        ]
        writing = tasks[0]
        try:
            if self._generator is not None:
                tasks.append(asyncio.ensure_future(self._log_all(self._generator)))
            # Not for the generator, which ends before a slow client has read everything.
            await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                writing.result()
        finally:
            await cancel_all(*tasks)
            self._on_end()

    async def _log_all(self, generator: AsyncGenerator[Event, None]) -> None:
        try:
            async with aclosing(generator) as events:
                async for event in events:
                    self._log.add(event)
        except Exception as error:  # noqa: BLE001 - it is sent to the client
            self._log.close(error)
        else:
            self._log.close()

    async def _write(self, send: Send) -> None:
        has_begun = False

        async def write(body: bytes, *, more: bool = True) -> None:
            nonlocal has_begun
            if not has_begun:
                self.headers.update(self._more_headers)
                start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
                await send(start)
                has_begun = True
            await send({"type": "http.response.body", "body": body, "more_body": more})

        last: list[Event] = []
        try:
            async with aclosing(self._log.batches(self._after, self._keep_alive)) as batches:
                async for batch in batches:
                    if batch:
                        await write(self._encode(batch))
                    elif has_begun and self._ping:
                        # Not before the first event: until then, an error still gets a status of
                        # its own.
                        await write(self._ping)
                    await self._log.pause(_PACE)
        except Exception as error:
            if not has_begun:
                raise
            last.append(self._error_event(api_error_of(error, "a stream")))
        if self._ending is not None:
            last.append(Event(None, self._ending))
        await write(self._encode(last), more=False)


def json_or_stream(body: type[Any], event: type[Any]) -> dict[int | str, dict[str, Any]]:
    """Describe, for the OpenAPI document, a route that responds with JSON or with a stream.

    `event` is the class of the data of an event. If events have no names, ``[DONE]`` is the last.
    """
    either: Any = event | ErrorAnswer
    schema = TypeAdapter(either).json_schema(mode="serialization")
    definitions = schema.pop("$defs", {})

    def inlined(value: Any) -> Any:
        """Replace references by their definitions, because the document does not contain these."""
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
    # A field of OpenAPI 3.2; tools read it in 3.1, too. A schema would describe the whole body.
    stream: dict[str, Any] = {"text/event-stream": {"itemSchema": item}}
    return {200: {"model": body, "content": stream}}
