"""The limits of a key over several servers of one database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, suppress

import pytest

from gpt_oss_harmony.server.auth.limits import SharedKeyLimiter
from gpt_oss_harmony.server.fair_turns import FairPool
from gpt_oss_harmony.server.http.errors import ApiError
from gpt_oss_harmony.server.store import KeyLimits, KeyRequest, Store
from support.databases import Clock

pytest_plugins = ("support.postgres_server", "support.databases")

KEY = "key_1"


@pytest.fixture
def other_store(store: Store, database_url: str, clock: Clock) -> Iterator[Store]:
    with Store(database_url, clock=clock) as other:
        yield other


@pytest.fixture
def limiters(store: Store, other_store: Store) -> Iterator[list[SharedKeyLimiter]]:
    """The limiters of two servers."""
    pools = [FairPool("keys", 2) for _ in range(2)]
    stores = (store, other_store)
    yield [
        SharedKeyLimiter(each.key_requests, pool) for each, pool in zip(stores, pools, strict=True)
    ]
    for pool in pools:
        pool.close()


def test_requests_at_a_time(limiters: list[SharedKeyLimiter]) -> None:
    limits = KeyLimits(concurrent_requests=2)

    async def go() -> None:
        async with AsyncExitStack() as running:
            for limiter in limiters:
                await running.enter_async_context(limiter.request(KEY, limits))
            for limiter in limiters:
                with pytest.raises(ApiError, match=r"2 requests are allowed .* at a time"):
                    await running.enter_async_context(limiter.request(KEY, limits))
                await running.enter_async_context(limiter.request("key_2", limits))
        for limiter in limiters:
            await limiter.close()
        async with limiters[1].request(KEY, limits):
            pass

    asyncio.run(go())


def test_requests_in_a_minute_however_many_come_together(
    limiters: list[SharedKeyLimiter], clock: Clock
) -> None:
    limits = KeyLimits(requests_per_minute=5)

    async def passed(limiter: SharedKeyLimiter) -> bool:
        with suppress(ApiError):
            async with limiter.request(KEY, limits):
                return True
        return False

    async def go() -> None:
        assert sum(await asyncio.gather(*map(passed, limiters * 10))) == 5
        clock.time += 59
        assert not await passed(limiters[0])
        clock.time += 1
        assert await passed(limiters[1])

    asyncio.run(go())


def test_tokens_in_a_minute(limiters: list[SharedKeyLimiter], clock: Clock) -> None:
    limits = KeyLimits(tokens_per_minute=100)

    async def go() -> None:
        for limiter, tokens in zip(limiters, (60, 40), strict=True):
            async with limiter.request(KEY, limits) as usage:
                usage.tokens = tokens
            await limiter.close()
            clock.time += 1
        for limiter in limiters:
            with pytest.raises(ApiError, match="100 tokens are allowed") as refused:
                async with limiter.request(KEY, limits):
                    pass
            assert refused.value.retry_after == 58.0
        clock.time += 58
        async with limiters[0].request(KEY, limits):
            pass

    asyncio.run(go())


def test_requests_of_a_dead_server_do_not_count(
    store: Store, other_store: Store, database_url: str
) -> None:
    if not database_url.startswith("postgresql"):
        pytest.skip("a file of SQLite belongs to one server")
    store.start_serving()
    other_store.start_serving()

    def begin(at: Store) -> int:
        running: list[int] = []

        def judge(requests: Sequence[KeyRequest], _: float) -> None:
            running.append(sum(request.ended_at is None for request in requests))

        at.key_requests.begin(KEY, judge)
        return running[0]

    assert begin(store) == 0
    other_store.start_serving()
    assert begin(other_store) == 1
    store.close()
    for own in range(1, 200):  # PostgreSQL ends a session, and frees its locks, when it comes to it
        other_store.start_serving()
        if begin(other_store) == own:
            return
        time.sleep(0.1)
    pytest.fail("the request of a dead server counts")
