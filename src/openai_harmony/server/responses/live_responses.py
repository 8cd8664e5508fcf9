"""Responses under way at this server, and the log of the events of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Protocol, TypeAlias

from ..http.errors import ApiError

__all__ = ["EventLog", "LiveResponse", "LiveResponses", "WireEvent"]

WireEvent: TypeAlias = "dict[str, Any]"
"""An event as clients read it; its ``sequence_number`` is its index in the log."""

_CLOSING_SECONDS = 5.0  # for connections to send the last events


class EventLog:
    """The events of one response: written once, read by anyone at any pace.

    The log grows until it is closed. Readers have no copies, and never block the writer.
    """

    def __init__(self, events: Sequence[WireEvent] = ()) -> None:
        self.events = list(events)
        self.is_closed = False
        self._readers: set[asyncio.Future[None]] = set()

    def add(self, event: WireEvent) -> None:
        """Write an event, and wake the readers that wait for one."""
        self.events.append(event)
        self._wake()

    def close(self) -> None:
        """End the log: readers end after its last event."""
        self.is_closed = True
        self._wake()

    async def read(self, after: int = -1) -> AsyncGenerator[WireEvent, None]:
        """Yield the events with a number above `after`, future ones included."""
        position = after + 1
        while True:
            while position < len(self.events):
                yield self.events[position]
                position += 1
            if self.is_closed:
                return
            change = asyncio.get_running_loop().create_future()
            self._readers.add(change)
            try:
                await change
            finally:
                self._readers.discard(change)

    def _wake(self) -> None:
        for reader in self._readers:
            if not reader.done():
                reader.set_result(None)
        self._readers.clear()


class LiveResponse(Protocol):
    """A response under way."""

    @property
    def id(self) -> str:
        """Return the id of the response."""
        ...

    @property
    def owner(self) -> str:
        """Return the owner of the response."""
        ...

    @property
    def is_stored(self) -> bool:
        """Tell whether the response is stored."""
        ...

    @property
    def response(self) -> dict[str, Any]:
        """Return the response as it is now."""
        ...

    def events(self, after: int = -1) -> AsyncGenerator[WireEvent, None]:
        """Yield the events after a number."""
        ...

    def stop(self, error: ApiError | None = None) -> None:
        """End the response as cancelled, or as failed where there is an error."""
        ...

    async def finished(self) -> None:
        """Wait until the response has ended, and is stored."""
        ...


class LiveResponses:
    """Finds responses by their ids as long as they run."""

    def __init__(self) -> None:
        self._responses: dict[str, LiveResponse] = {}
        self._connections: set[asyncio.Task[None]] = set()

    def add(self, response: LiveResponse) -> None:
        """Add a response that has begun."""
        self._responses[response.id] = response

    def discard(self, response: LiveResponse) -> None:
        """Forget a response that has ended."""
        self._responses.pop(response.id, None)

    def find(self, id: str, owner: str) -> LiveResponse | None:
        """Find a stored response for its owner; nobody else can read one that is not stored."""
        response = self._responses.get(id)
        if response is None or response.owner != owner or not response.is_stored:
            return None
        return response

    def add_connection(self, task: asyncio.Task[None]) -> None:
        """Add a task that sends events to a client, and ends after the responses."""
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def end_all(self, error: ApiError) -> None:
        """Fail the responses under way; wait until they are stored and their last events sent."""
        responses = list(self._responses.values())
        for response in responses:
            response.stop(error)
        await asyncio.gather(*(response.finished() for response in responses))
        if self._connections:
            await asyncio.wait(self._connections, timeout=_CLOSING_SECONDS)
