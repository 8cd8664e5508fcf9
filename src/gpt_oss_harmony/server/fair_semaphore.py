"""A fair semaphore: permits that owners take in turn, so that no owner can block the others."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable

__all__ = ["FairSemaphore"]


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
        if not self._taken[owner]:
            del self._taken[owner]
        while self._free:
            ready = [other for other in self._waiting if self._may_take(other)]
            if not ready:
                return
            following = min(ready, key=lambda other: self._taken[other])
            turn = self._waiting[following][0]
            self._forget(following, turn)
            if following in self._waiting:
                self._waiting.move_to_end(following)
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
