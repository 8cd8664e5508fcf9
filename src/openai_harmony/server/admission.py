"""Who may run now, who waits, and who is sent away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress

from .api_error import ApiError

__all__ = ["Admission", "shutting_down"]

_FIRST_GUESS = 2.0  # seconds a request takes, before any has ended
_NEW_SHARE = 0.2  # of the newest request in the average


class Admission:
    """Lets `most_running` requests at the engine, and `most_waiting` wait in the order they came.

    A request beyond these is refused with 429 and the seconds after which a place should be free;
    once the server shuts down, every new one is, with 503.
    """

    def __init__(self, most_running: int, most_waiting: int) -> None:
        self._most_running = most_running
        self._most_waiting = most_waiting
        self._places = asyncio.Semaphore(most_running)
        self._seconds = _FIRST_GUESS
        self._idle = asyncio.Event()
        self._idle.set()
        self.running = 0
        self.waiting = 0
        self.is_closed = False
        self._held = 0

    def check(self) -> None:
        """Raise `ApiError` where a new request would find the queue full, or the server closing."""
        if self.is_closed:
            raise shutting_down()
        if self._is_full():
            raise ApiError(
                429,
                f"the server is busy: {self.running} requests run and {self.waiting} wait; "
                "try again later",
                kind="rate_limit_error",
                code="server_busy",
                retry_after=self._retry_after(),
            )

    @asynccontextmanager
    async def place(self, *, is_first: bool = True) -> AsyncGenerator[None, None]:
        """Wait for a place at the engine; give it back at the end.

        Of several places for one request only the first is refused: the others wait, however many.
        """
        if is_first:
            self.check()
        self.waiting += 1
        self._idle.clear()
        try:
            await self._places.acquire()
        except asyncio.CancelledError:
            self.waiting -= 1
            self._note_idle()
            raise
        self.waiting -= 1
        self.running += 1
        begun = time.monotonic()
        try:
            yield
        finally:
            self.running -= 1
            self._places.release()
            self._note_idle()
            self._seconds += _NEW_SHARE * (time.monotonic() - begun - self._seconds)

    @contextmanager
    def held(self) -> Generator[None, None, None]:
        """Keep `close` waiting for a request that has no place at the engine at times."""
        self._held += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._held -= 1
            self._note_idle()

    async def close(self, seconds: float) -> bool:
        """Let nobody in any more; tell whether all have gone after `seconds` at most."""
        self.is_closed = True
        with suppress(asyncio.TimeoutError):  # a class of its own before Python 3.11
            await asyncio.wait_for(self._idle.wait(), seconds)
        return self._idle.is_set()

    def _note_idle(self) -> None:
        if not self.running and not self.waiting and not self._held:
            self._idle.set()

    def _is_full(self) -> bool:
        # Together: whose turn has come, but who has not run since, still counts as waiting.
        return self.running + self.waiting >= self._most_running + self._most_waiting

    def _retry_after(self) -> float:
        """Seconds until those who wait have gone, as far as can be told."""
        return max(1.0, self._seconds * (self.waiting + 1) / self._most_running)


def shutting_down() -> ApiError:
    """What a request is told that cannot run, or go on, because the server ends."""
    return ApiError(
        503,
        "the server is shutting down; try again later",
        kind="server_error",
        code="server_shutting_down",
        retry_after=10,
    )
