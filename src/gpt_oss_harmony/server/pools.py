"""Threads for blocking work: a pool for each purpose, in which the owners of work take turns."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import ParamSpec, TypeVar

from .fair_semaphore import FairSemaphore
from .http.errors import ApiError

__all__ = ["FairPool", "Pools"]

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class FairPool:
    """Runs calls in threads; belongs to one event loop.

    - At most `share` calls of one owner run at a time. One more thread is left for others.
    - Owners take turns, by the rules of `FairSemaphore`.
    - At most `max_waiting` calls of one owner wait. A further call raises `ApiError`.
    - A call that is cancelled while it waits never runs. A running call cannot be stopped: it
      continues and keeps its place until it ends.
    """

    def __init__(self, name: str, share: int, *, max_waiting: int = 256) -> None:
        self._name = name
        self._max_waiting = max_waiting
        self._threads = ThreadPoolExecutor(share + 1, thread_name_prefix=f"harmony-{name}")
        self._turns = FairSemaphore(share + 1, lambda owner: share)

    async def run(
        self,
        owner: str,
        function: Callable[_Arguments, _Result],
        *arguments: _Arguments.args,
        **keywords: _Arguments.kwargs,
    ) -> _Result:
        """Run a call in a thread when it is this owner's turn; return its result."""
        if self._turns.waiting(owner) >= self._max_waiting:
            raise ApiError(
                429,
                f"{self._max_waiting} requests of this API key wait for a thread ({self._name}); "
                "wait for the end of one",
                kind="rate_limit_error",
                code="server_busy",
                retry_after=1,
            )
        await self._turns.take(owner)
        loop = asyncio.get_running_loop()
        result: asyncio.Future[_Result] = loop.create_future()

        def ended(settle: Callable[[], object]) -> None:
            self._turns.give_back(owner)
            if not result.done():  # it is cancelled if nobody waits any more
                settle()

        def work() -> None:
            try:
                settle = partial(result.set_result, function(*arguments, **keywords))
            except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
                settle = partial(result.set_exception, error)
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(ended, settle)

        try:
            self._threads.submit(work)
        except BaseException:
            self._turns.give_back(owner)
            raise
        return await result

    def close(self) -> None:
        """Wait for the running calls; this blocks."""
        self._threads.shutdown()


def _cores() -> int:
    return os.cpu_count() or 1


@dataclass
class Pools:
    """The pools of a server, so that no kind of work waits for another.

    - `keys`: checks of API keys; the owner is the key itself, because its record is not known yet.
    - `store`: reads and writes of the database.
    - `encoding`: reading and rendering requests, parsing tokens.
    - `grammar`: writing and compiling grammars.
    """

    keys: FairPool = field(default_factory=lambda: FairPool("keys", 2, max_waiting=10_000))
    store: FairPool = field(default_factory=lambda: FairPool("store", 6))
    encoding: FairPool = field(default_factory=lambda: FairPool("encoding", max(2, _cores())))
    grammar: FairPool = field(default_factory=lambda: FairPool("grammar", max(1, _cores() // 2)))

    def close(self) -> None:
        """Wait for the running calls; this blocks."""
        for pool in (self.keys, self.store, self.encoding, self.grammar):
            pool.close()
