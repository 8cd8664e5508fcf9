"""Admission to the engine: which requests run, wait, or are refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import anyio

from .fair_turns import FairSemaphore
from .http.errors import shutting_down, too_many

_FIRST_GUESS = 2.0  # the assumed seconds of a request before any has ended
_NEW_SHARE = 0.2  # of the newest request in the average


class Admission:
    """Lets `max_running` requests use the engine; owners take turns, each in the order of arrival.

    One API key cannot use the last slot, so that others get one. Up to `max_waiting` requests of an
    owner wait. A further request is refused with 429 and the seconds after which a slot should be
    free. During shutdown, every new request is refused with 503.
    """

    def __init__(self, max_running: int, max_waiting: int) -> None:
        self._max_running = max_running
        self._max_waiting = max_waiting
        of_key = max(1, max_running - 1)
        # Without keys, all requests have the same owner.
        self._slots = FairSemaphore(max_running, lambda owner: of_key if owner else max_running)
        self._average_seconds = _FIRST_GUESS
        self._idle = asyncio.Event()
        self._idle.set()
        self.running = 0
        self.waiting = 0
        self.is_closed = False
        self._whole_requests = 0

    def check(self, owner: str = "") -> None:
        """Raise `ApiError` if the queue is full or the server is shutting down."""
        if self.is_closed:
            raise shutting_down()
        if self._slots.requests(owner) >= self._max_running + self._max_waiting:
            until_empty = self._average_seconds * (self.waiting + 1) / self._max_running
            raise too_many(
                f"the server is busy: {self.running} requests run and {self.waiting} wait; "
                "try again later",
                retry_after=max(1.0, until_empty),
            )

    @asynccontextmanager
    async def slot(self, owner: str = "", *, is_first: bool = True) -> AsyncGenerator[None, None]:
        """Wait for a slot at the engine; free it at the end.

        If a request needs several slots, only the first can be refused; all others wait.
        """
        if is_first:
            self.check(owner)
        self.waiting += 1
        self._idle.clear()
        try:
            await self._slots.take(owner)
        except BaseException:
            self.waiting -= 1
            self._note_idle()
            raise
        self.waiting -= 1
        self.running += 1
        begun = time.monotonic()
        try:
            yield
        finally:
            self._slots.give_back(owner)
            self._average_seconds += _NEW_SHARE * (time.monotonic() - begun - self._average_seconds)
            self.running -= 1
            self._note_idle()

    @contextmanager
    def whole_request(self) -> Generator[None, None, None]:
        """Make `close` wait for a whole request, which has no slot between its turns."""
        self._whole_requests += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._whole_requests -= 1
            self._note_idle()

    async def close(self, seconds: float) -> bool:
        """Refuse new requests; return whether all others end within `seconds`."""
        self.is_closed = True
        with anyio.move_on_after(seconds):
            await self._idle.wait()
        return self._idle.is_set()

    def _note_idle(self) -> None:
        if not self.running and not self.waiting and not self._whole_requests:
            self._idle.set()
