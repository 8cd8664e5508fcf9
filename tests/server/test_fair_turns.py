"""Threads and places that owners take in turn; work that nobody waits for is not begun."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt_oss_harmony.server.fair_turns import FairPool, FairSemaphore
from gpt_oss_harmony.server.http.errors import ApiError

PATIENCE = 60  # seconds


class Gate:
    """Work that waits until it is let go, and notes who began it."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._open = threading.Event()
        self._entered = threading.Semaphore(0)

    def work(self, name: str) -> str:
        self.begun.append(name)
        self._entered.release()
        assert self._open.wait(PATIENCE)
        return name

    async def wait_for(self, count: int) -> None:
        for _ in range(count):
            assert await asyncio.to_thread(self._entered.acquire, timeout=PATIENCE)

    def open(self) -> None:
        self._open.set()


def run(test: Callable[[FairPool, Gate], Awaitable[None]], *, share: int = 1) -> None:
    async def go() -> None:
        pool, gate = FairPool("test", share, max_waiting=4), Gate()
        try:
            await test(pool, gate)
        finally:
            gate.open()
            await asyncio.to_thread(pool.close)

    asyncio.run(go())


def test_one_owner_never_has_all_threads() -> None:
    async def test(pool: FairPool, gate: Gate) -> None:
        large = [asyncio.ensure_future(pool.run("a", gate.work, f"a{at}")) for at in range(3)]
        await gate.wait_for(1)
        assert await pool.run("b", str, 7) == "7"  # while that of the other still runs
        assert gate.begun == ["a0"]
        gate.open()
        assert await asyncio.gather(*large) == ["a0", "a1", "a2"]

    run(test)


def test_what_is_cancelled_while_it_waits_never_runs() -> None:
    async def test(pool: FairPool, gate: Gate) -> None:
        calls = [asyncio.ensure_future(pool.run("a", gate.work, f"a{at}")) for at in range(3)]
        await gate.wait_for(1)
        calls[1].cancel()
        await asyncio.wait({calls[1]})
        gate.open()
        assert await calls[2] == "a2"
        assert gate.begun == ["a0", "a2"]

    run(test)


def test_what_is_cancelled_while_it_runs_keeps_its_place() -> None:
    async def test(pool: FairPool, gate: Gate) -> None:
        first = asyncio.ensure_future(pool.run("a", gate.work, "a0"))
        await gate.wait_for(1)
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        second = asyncio.ensure_future(pool.run("a", gate.work, "a1"))
        await asyncio.sleep(0)
        assert not second.done()
        assert gate.begun == ["a0"]
        gate.open()
        assert await second == "a1"

    run(test)


def test_too_many_that_wait_are_refused_and_others_are_not() -> None:
    async def test(pool: FairPool, gate: Gate) -> None:
        calls = [asyncio.ensure_future(pool.run("a", gate.work, f"a{at}")) for at in range(5)]
        await gate.wait_for(1)
        with pytest.raises(ApiError, match="wait for a thread") as refused:
            await pool.run("a", gate.work, "a5")
        assert (refused.value.status, refused.value.retry_after) == (429, 1)
        assert await pool.run("b", str, 7) == "7"
        gate.open()
        await asyncio.gather(*calls)

    run(test)


def test_errors_come_through_and_free_the_thread() -> None:
    async def test(pool: FairPool, gate: Gate) -> None:
        for _ in range(3):
            with pytest.raises(ValueError, match="invalid literal"):
                await pool.run("a", int, "x")

    run(test)


@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.booleans()), max_size=30),
)
def test_no_place_is_lost_and_none_is_free_while_one_may_be_taken(
    places: int, share: int, steps: list[tuple[str, int, bool]]
) -> None:
    """Each step adds one who waits, or lets one go: in order, or by a cancellation."""

    async def test() -> None:
        turns = FairSemaphore(places, lambda owner: share)
        guests: list[tuple[str, asyncio.Future[None], asyncio.Event]] = []
        inside: list[str] = []

        async def stay(owner: str, leave: asyncio.Event) -> None:
            await turns.take(owner)
            inside.append(owner)
            try:
                await leave.wait()
            finally:
                inside.remove(owner)
                turns.give_back(owner)

        for owner, at, is_new in steps:
            guests = [guest for guest in guests if not guest[1].done()]
            if is_new or not guests:
                leave = asyncio.Event()
                guests.append((owner, asyncio.ensure_future(stay(owner, leave)), leave))
            elif at % 2:
                guests[at % len(guests)][1].cancel()
            else:
                guests[at % len(guests)][2].set()
            for _ in range(8):
                await asyncio.sleep(0)
            here = [name for name, task, _ in guests if not task.done()]
            assert len(inside) <= places
            for name in "abc":
                waiting = here.count(name) - inside.count(name)
                assert turns.waiting(name) == waiting
                assert inside.count(name) <= share
                if waiting:
                    assert len(inside) == places or inside.count(name) == share
        for _, task, _ in guests:
            task.cancel()
        await asyncio.gather(*(task for _, task, _ in guests), return_exceptions=True)

    asyncio.run(test())


def test_the_owner_with_the_fewest_places_is_next() -> None:
    async def test() -> None:
        turns = FairSemaphore(3, lambda owner: 3)
        order: list[str] = []
        for owner in "aaa":
            await turns.take(owner)

        async def wait(owner: str) -> None:
            await turns.take(owner)
            order.append(owner)

        tasks = [asyncio.ensure_future(wait(owner)) for owner in "aaabc"]
        await asyncio.sleep(0)
        for _ in range(3):
            turns.give_back("a")
            await asyncio.sleep(0)
        assert order == ["b", "c", "a"]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(test())
