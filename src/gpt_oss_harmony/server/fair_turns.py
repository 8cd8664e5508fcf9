"""Turns between owners, and threads for blocking work: a pool for each purpose, used in turns."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import ParamSpec, TypeVar

from .http.errors import too_many

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class FairSemaphore:
    """Gives `places` to waiting requests; `share` is the most that an owner has at a time.

    The owner with the fewest places comes first; owners with equally many take turns. It belongs to
    one event loop.
    """

    def __init__(self, places: int, share: Callable[[str], int]) -> None:
        self._free = places
        self._share = share
        self._taken: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    def waiting(self, owner: str) -> int:
        """Return how many requests of this owner wait."""
        return len(self._waiting.get(owner, ()))

    def requests(self, owner: str) -> int:
        """Return how many places an owner has or waits for."""
        return self._taken[owner] + self.waiting(owner)

    async def take(self, owner: str) -> None:
        """Wait for a place; return it with `give_back`, unless this is cancelled."""
        # Nobody is overtaken: `give_back` leaves no place free for which somebody may wait.
        if self._free and self._may_take(owner):
            self._give(owner)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(owner, turn)
            else:  # its turn came at the same moment
                self.give_back(owner)
            raise

    def give_back(self, owner: str) -> None:
        """Return a place, and give it to the next request."""
        self._free += 1
        self._taken[owner] -= 1
        # An owner may be any text that a client sends as its key, so none is kept without a place.
        if not self._taken[owner]:
            del self._taken[owner]
        while self._free:
            ready = [other for other in self._waiting if self._may_take(other)]
            if not ready:
                return
            # `min` takes the first of equals, and who gets a place goes to the end of the order.
            following = min(ready, key=lambda other: self._taken[other])
            turn = self._waiting[following][0]
            self._forget(following, turn)
            if following in self._waiting:
                self._waiting.move_to_end(following)
            # A cancelled one leaves the queue by itself, but its task has not run yet.
            if not turn.cancelled():
                self._give(following)
                turn.set_result(None)

    def _may_take(self, owner: str) -> bool:
        return self._taken[owner] < self._share(owner)

    def _give(self, owner: str) -> None:
        self._free -= 1
        self._taken[owner] += 1

    def _forget(self, owner: str, turn: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(owner)
        if waiting is not None and turn in waiting:
            waiting.remove(turn)
            if not waiting:
                del self._waiting[owner]


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
            raise too_many(
                f"{self._max_waiting} requests of this API key wait for a thread ({self._name}); "
                "wait for the end of one"
            )
        await self._turns.take(owner)
        loop = asyncio.get_running_loop()
        result: asyncio.Future[_Result] = loop.create_future()

        # The semaphore and the future belong to the loop. One message to it does both, because each
        # message wakes it.
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
