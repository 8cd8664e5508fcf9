"""The responses that run at this server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from typing import Any, Protocol

from .http.errors import ApiError
from .http.server_sent_events import EventLog
from .peers import ANSWER_SECONDS
from .store import Responses

_CLOSING_SECONDS = 5.0  # in which connections can send the last events
_MOST_UNSTORED = 256  # ends of responses in memory
_MIRROR_PACE = 0.05  # seconds between messages to another server with the events of a response


class LiveResponse(Protocol):
    """A running response; the ``sequence_number`` of each event in its `log` is the index there."""

    id: str
    owner: str
    is_stored: bool
    log: EventLog

    @property
    def response(self) -> dict[str, Any]:
        """Return the current state of the response."""

    def stop(self, error: ApiError | None = None) -> None:
        """End the response as cancelled, or with an error as failed."""

    async def finished(self) -> None:
        """Wait until the response has ended and is stored."""


class LiveResponses:
    """Finds running responses by their ids."""

    def __init__(self) -> None:
        self._responses: dict[str, LiveResponse] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._beginning: set[str] = set()
        self._in_containers: dict[str, list[asyncio.Event]] = {}
        self._unstored: dict[str, Mapping[str, Any]] = {}

    @contextmanager
    def beginning(self, id: str) -> Generator[None, None, None]:
        """Count a response as running while its beginning is stored."""
        self._beginning.add(id)
        try:
            yield
        finally:
            self._beginning.discard(id)

    @contextmanager
    def in_container(self, name: str) -> Generator[Sequence[asyncio.Event], None, None]:
        """Count a response that names a container; yield the ends of those that came before it."""
        ends = self._in_containers.setdefault(name, [])
        ends.append(asyncio.Event())
        *earlier, ended = ends
        try:
            yield earlier
        finally:
            ended.set()
            ends.remove(ended)
            if not ends:
                del self._in_containers[name]

    def keep_unstored(self, id: str, end: Mapping[str, Any]) -> None:
        """Keep the arguments of `Responses.finish` until the database is back, if there is room."""
        if len(self._unstored) < _MOST_UNSTORED:
            self._unstored[id] = end

    def reconcile(self, stored: Responses) -> None:
        """End in the database what has ended here, while the database was away; this blocks.

        Call it periodically. A response whose end was not kept fails. Raises `StoreError`.
        """
        # A copy, because the event loop may keep another end while this thread is in the database.
        unstored = dict(self._unstored)
        for id in stored.running_here():
            if id in self._responses or id in self._beginning:
                continue
            if id in unstored:
                stored.finish(id, **unstored[id])
            else:
                stored.fail(id)
        for id in unstored:
            del self._unstored[id]

    def add(self, response: LiveResponse) -> None:
        """Add a response that has begun."""
        self._responses[response.id] = response

    def discard(self, response: LiveResponse) -> None:
        """Remove a response that has ended."""
        self._responses.pop(response.id, None)

    def find(self, id: str, owner: str) -> LiveResponse | None:
        """Find a running response that is stored; only its owner finds it."""
        response = self._responses.get(id)
        if response is None or response.owner != owner or not response.is_stored:
            return None
        return response

    def add_connection(self, task: asyncio.Task[None]) -> None:
        """Add a task that sends events to a client, and ends after the responses."""
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def end_all(self, error: ApiError) -> None:
        """Fail the running responses; wait until they are stored and their last events are sent."""
        responses = list(self._responses.values())
        for response in responses:
            response.stop(error)
        await asyncio.gather(*(response.finished() for response in responses))
        if self._connections:
            await asyncio.wait(self._connections, timeout=_CLOSING_SECONDS)


async def answer_peer(
    responses: LiveResponses, request: Mapping[str, Any]
) -> AsyncGenerator[Any, None]:
    """Answer another server about a response; if it does not run here, the answer is empty."""
    live = responses.find(request["id"], request["owner"])
    if live is None:
        return
    if request["action"] == "read":
        yield live.response
    elif request["action"] == "stop":
        live.stop()
        finished = asyncio.ensure_future(live.finished())
        while not (await asyncio.wait({finished}, timeout=ANSWER_SECONDS))[0]:
            # An empty part, so that the asking server does not take this one for dead.
            yield None
    else:
        with suppress(ApiError):  # the response never began
            async with aclosing(live.log.batches(request["after"], ANSWER_SECONDS)) as batches:
                async for batch in batches:
                    yield batch
                    await live.log.pause(_MIRROR_PACE)
