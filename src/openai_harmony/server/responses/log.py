"""The events of one response: written once, read by anyone at any pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeAlias

__all__ = ["EventLog", "WireEvent"]

WireEvent: TypeAlias = "dict[str, Any]"
"""An event as clients read it; its ``sequence_number`` is its place in the log."""


class EventLog:
    """Grows at its end until it is closed. Readers hold no copy, and never hold the writer up."""

    def __init__(self, events: Sequence[WireEvent] = ()) -> None:
        self.events = list(events)
        self.is_closed = False
        self._readers: set[asyncio.Future[None]] = set()

    def add(self, event: WireEvent) -> None:
        """Write an event, and let those who wait for one read it."""
        self.events.append(event)
        self._wake()

    def close(self) -> None:
        """End the log: readers end after its last event."""
        self.is_closed = True
        self._wake()

    async def read(self, after: int = -1) -> AsyncGenerator[WireEvent, None]:
        """Yield the events with a number above `after`, those to come included."""
        at = after + 1
        while True:
            while at < len(self.events):
                yield self.events[at]
                at += 1
            if self.is_closed:
                return
            await self._change()

    async def _change(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._readers.add(waiting)
        try:
            await waiting
        finally:
            self._readers.discard(waiting)

    def _wake(self) -> None:
        for reader in self._readers:
            if not reader.done():
                reader.set_result(None)
        self._readers.clear()
