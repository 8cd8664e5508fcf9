"""Limits of API keys: requests and tokens of the last minute."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import NamedTuple

from ..fair_turns import FairPool
from ..http.errors import ApiError, too_many
from ..store import KeyLimits, KeyRequest, KeyRequests, StoreError

_MINUTE = 60.0
_RETRY_SECONDS = 3.0  # between tries while the database is away
_SOON = 1.0  # seconds, if the end of the running request cannot be predicted


class Quota:
    """Counts the resources that the requests of each owner hold, up to `limit` per owner.

    `noun` names the resource in errors.
    """

    def __init__(self, limit: int, noun: str) -> None:
        self.limit = limit
        """The most that an owner may hold."""
        self._noun = noun
        self._held: Counter[str] = Counter()

    def held(self, owner: str) -> int:
        """Return the amount that an owner holds."""
        return self._held[owner]

    @contextmanager
    def held_by(self, owner: str) -> Generator[Callable[[int], None], None, None]:
        """Provide a function that takes an amount, or returns it if the amount is negative.

        The function raises `ApiError` beyond the limit. At the end, everything is returned.
        """
        taken = 0

        def take(count: int) -> None:
            nonlocal taken
            if count > 0 and self._held[owner] + count > self.limit:
                raise too_many(
                    f"this API key already has {self.limit:,} {self._noun}, the most at a "
                    "time; wait for the end of a request"
                )
            taken += count
            self._held[owner] += count

        try:
            yield take
        finally:
            self._held[owner] -= taken
            if not self._held[owner]:
                del self._held[owner]


class Refusal(NamedTuple):
    """The reason to refuse a request, and the seconds until the next one may be sent."""

    problem: str
    retry_after: float

    def error(self) -> ApiError:
        """Make the error of the refused request."""
        return too_many(self.problem, self.retry_after, "rate_limit_exceeded")


class RequestUsage:
    """A running request: the `tokens` of prompts and output that it has used so far.

    It ends when no task holds it any more: a background response outlives its request.
    """

    def __init__(self, end: Callable[[int], None] = lambda tokens: None) -> None:
        self.tokens = 0
        self._end = end
        self._holders = 0

    @contextmanager
    def held(self) -> Generator[RequestUsage, None, None]:
        """Keep the request running."""
        self._holders += 1
        try:
            yield self
        finally:
            self._holders -= 1
            if not self._holders:
                self._end(self.tokens)


class KeyLimiter:
    """Counts the requests and tokens of each key in this process.

    `clock` returns seconds of a monotonic clock.

    >>> limiter = KeyLimiter(clock=lambda: 0.0)
    >>> limits = KeyLimits(requests_per_minute=1)
    >>> limiter.begin("key_1", limits) is None
    True
    >>> limiter.begin("key_1", limits)
    Refusal(problem='1 request is allowed to this API key in a minute', retry_after=60.0)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: defaultdict[str, _KeyCounters] = defaultdict(_KeyCounters)

    @asynccontextmanager
    async def request(self, id: str, limits: KeyLimits) -> AsyncGenerator[RequestUsage, None]:
        """Count a request of a key while it is held; raise `ApiError` if it is refused."""
        refusal = self.begin(id, limits)
        if refusal is not None:
            raise refusal.error()
        with RequestUsage(lambda tokens: self.end(id, limits, tokens)).held() as usage:
            yield usage

    def begin(self, id: str, limits: KeyLimits) -> Refusal | None:
        """Begin a request of a key and return None, or return a refusal, which is not counted.

        Call `end` once for each request that began.
        """
        with self._lock:
            counters = self._keys[id]
            now = self._clock()
            refusal = counters.refusal(limits, now)
            if refusal is None:
                counters.running += 1
                if limits.requests_per_minute is not None:
                    counters.requests.add(now, 1)
            return refusal

    def end(self, id: str, limits: KeyLimits, tokens: int = 0) -> None:
        """End a request with this number of `tokens` of prompt and output.

        The number is known only at the end, so the last request of a minute may exceed the limit.
        """
        with self._lock:
            counters = self._keys[id]
            counters.running -= 1
            if limits.tokens_per_minute is not None:
                counters.tokens.add(self._clock(), tokens)


class SharedKeyLimiter:
    """Counts the requests and tokens of keys with limits over all servers of a database.

    The tokens of a request are counted a moment after its end.
    """

    def __init__(self, requests: KeyRequests, pool: FairPool) -> None:
        self._requests = requests
        self._pool = pool
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closing = False

    @asynccontextmanager
    async def request(self, id: str, limits: KeyLimits) -> AsyncGenerator[RequestUsage, None]:
        """Count a request of a key while it is held; raise `ApiError` if it is refused."""
        request_id: str | None = None
        if any(limit is not None for limit in vars(limits).values()):
            judged = await self._pool.run(id, self._requests.begin, id, partial(_judge, limits))
            if isinstance(judged, Refusal):
                raise judged.error()
            request_id = judged

        def end(tokens: int) -> None:
            if request_id is not None:
                ending = asyncio.ensure_future(self._end(id, request_id, tokens))
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)

        with RequestUsage(end).held() as usage:
            yield usage

    async def _end(self, id: str, request_id: str, tokens: int) -> None:
        """Note the end of a request, if need be when the database is back."""
        while True:
            try:
                await self._pool.run(id, self._requests.end, request_id, tokens)
                return
            except StoreError:
                if self._is_closing:
                    raise
            await asyncio.sleep(_RETRY_SECONDS)

    async def close(self) -> None:
        """Wait until all requests that ended are noted."""
        self._is_closing = True
        # Where the database is away, these fail now, and the server ends all the same.
        await asyncio.gather(*self._ending, return_exceptions=True)


def _judge(limits: KeyLimits, requests: Sequence[KeyRequest], now: float) -> Refusal | None:
    """Judge a request by those before it."""
    counters = _KeyCounters()
    counters.running = sum(request.ended_at is None for request in requests)
    # A window drops what has expired at its front, so amounts are added in the order of time.
    for began_at in sorted(request.began_at for request in requests):
        counters.requests.add(began_at, 1)
    ended = ((request.ended_at, request.tokens) for request in requests if request.ended_at)
    for ended_at, tokens in sorted(ended):
        counters.tokens.add(ended_at, tokens)
    return counters.refusal(limits, now)


class _Window:
    """Amounts of the last minute."""

    def __init__(self) -> None:
        self._amounts: deque[tuple[float, int]] = deque()  # each with the time when it expires
        self._sum = 0

    def add(self, now: float, amount: int) -> None:
        self._amounts.append((now + _MINUTE, amount))
        self._sum += amount

    def seconds_full(self, now: float, limit: int) -> float:
        """Return the seconds until there is room for one more; 0 if there is room now."""
        while self._amounts and self._amounts[0][0] <= now:
            self._sum -= self._amounts.popleft()[1]
        remaining = self._sum
        for expiry, amount in self._amounts:
            if remaining < limit:
                break
            remaining -= amount
            if remaining < limit:
                return expiry - now
        return 0.0


class _KeyCounters:
    """The counters of one key."""

    def __init__(self) -> None:
        self.running = 0
        self.requests = _Window()
        self.tokens = _Window()

    def refusal(self, limits: KeyLimits, now: float) -> Refusal | None:
        at_once = limits.concurrent_requests
        if at_once is not None and self.running >= at_once:
            return Refusal(f"{_count(at_once, 'request')} allowed to this API key at a time", _SOON)
        for window, limit, noun in (
            (self.requests, limits.requests_per_minute, "request"),
            (self.tokens, limits.tokens_per_minute, "token"),
        ):
            wait = 0.0 if limit is None else window.seconds_full(now, limit)
            if limit is not None and wait > 0:
                return Refusal(f"{_count(limit, noun)} allowed to this API key in a minute", wait)
        return None


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun} is" if number == 1 else f"{number:,} {noun}s are"
