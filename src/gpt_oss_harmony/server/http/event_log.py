"""The events of a stream, between the task that writes them and the tasks that send them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import NamedTuple

__all__ = ["Event", "EventLog"]


class Event(NamedTuple):
    """The name of an event, if any, and its data: JSON, or a text that is sent unchanged."""

    name: str | None
    data: str


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
