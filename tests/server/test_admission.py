"""Who may run, who waits, and who is sent away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt_oss_harmony.server import Settings
from gpt_oss_harmony.server.admission import Admission
from gpt_oss_harmony.server.http.errors import ApiError


class Guest:
    """A request that asks for a place and stays until it is told to leave."""

    def __init__(self, admission: Admission, *, is_first: bool = True) -> None:
        self._leaves = asyncio.Event()
        self.is_in = False
        self.task = asyncio.ensure_future(self._stay(admission, is_first))

    async def _stay(self, admission: Admission, is_first: bool) -> None:
        async with admission.slot(is_first=is_first):
            self.is_in = True
            await self._leaves.wait()
        self.is_in = False

    def leave(self) -> None:
        """Go, in order from inside, and by a cancellation from the queue."""
        if self.is_in:
            self._leaves.set()
        else:
            self.task.cancel()

    @property
    def refusal(self) -> ApiError | None:
        if not self.task.done() or self.task.cancelled():
            return None
        error = self.task.exception()
        assert error is None or isinstance(error, ApiError)
        return error


async def settle() -> None:
    """Let all tasks come to a rest."""
    for _ in range(10):
        await asyncio.sleep(0)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def go() -> None:
        await test()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    asyncio.run(go())


def test_some_run_some_wait_and_the_rest_is_refused() -> None:
    async def test() -> None:
        admission = Admission(2, 1)
        guests = [Guest(admission) for _ in range(5)]
        await settle()
        assert [guest.is_in for guest in guests] == [True, True, False, False, False]
        assert (admission.running, admission.waiting) == (2, 1)
        refusals = [guest.refusal for guest in guests]
        assert refusals[:3] == [None] * 3
        for refusal in refusals[3:]:
            assert refusal is not None
            assert (refusal.status, refusal.code) == (429, "server_busy")
            assert refusal.retry_after is not None
            assert refusal.retry_after >= 1

    run(test)


def test_places_are_given_in_the_order_of_the_queue() -> None:
    async def test() -> None:
        admission = Admission(1, 3)
        guests = [Guest(admission) for _ in range(4)]
        await settle()
        for at, guest in enumerate(guests):
            assert [one.is_in for one in guests[at:]] == [True] + [False] * (3 - at)
            guest.leave()
            await settle()
        assert (admission.running, admission.waiting) == (0, 0)

    run(test)


def test_who_leaves_the_queue_makes_room_in_it() -> None:
    async def test() -> None:
        admission = Admission(1, 1)
        inside, waiting = Guest(admission), Guest(admission)
        await settle()
        waiting.leave()
        await settle()
        assert admission.waiting == 0
        last = Guest(admission)
        await settle()
        inside.leave()
        await settle()
        assert last.is_in

    run(test)


def test_who_has_been_called_but_has_not_run_yet_still_counts() -> None:
    async def test() -> None:
        admission = Admission(1, 1)
        inside, waiting = Guest(admission), Guest(admission)
        await settle()
        inside.leave()
        while inside.is_in:
            await asyncio.sleep(0)
        asked = [Guest(admission), Guest(admission)]
        await settle()
        assert waiting.is_in
        assert [guest.refusal is None for guest in asked] == [True, False]

    run(test)


def test_further_places_of_a_request_are_not_refused() -> None:
    async def test() -> None:
        admission = Admission(1, 0)
        first, second = Guest(admission), Guest(admission, is_first=False)
        await settle()
        assert (first.is_in, second.is_in, admission.waiting) == (True, False, 1)
        with pytest.raises(ApiError):
            admission.check()
        first.leave()
        await settle()
        assert second.is_in

    run(test)


def test_an_error_inside_gives_the_place_back() -> None:
    async def test() -> None:
        admission = Admission(1, 0)
        with pytest.raises(ZeroDivisionError):
            async with admission.slot():
                _ = 1 // (admission.running - 1)
        async with admission.slot():
            assert admission.running == 1

    run(test)


def test_a_closed_server_lets_in_nobody_but_those_who_wait() -> None:
    async def test() -> None:
        admission = Admission(1, 1)
        inside, waiting = Guest(admission), Guest(admission)
        await settle()
        closing = asyncio.ensure_future(admission.close(60))
        await settle()
        with pytest.raises(ApiError, match="shutting down") as refused:
            admission.check()
        assert refused.value.status == 503
        inside.leave()
        await settle()
        assert waiting.is_in
        assert not closing.done()
        waiting.leave()
        assert await closing

    run(test)


def test_closing_waits_no_longer_than_it_may() -> None:
    async def test() -> None:
        admission = Admission(1, 0)
        Guest(admission)
        await settle()
        assert not await admission.close(0.001)
        assert await Admission(1, 0).close(0)

    run(test)


@given(
    st.integers(1, 3),
    st.integers(0, 3),
    st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=20),
)
def test_no_slot_is_lost(max_running: int, max_waiting: int, steps: list[int | None]) -> None:
    """Guests come (None) and go (the number is which of them), at any time."""

    async def test() -> None:
        admission = Admission(max_running, max_waiting)
        guests: list[Guest] = []
        for step in steps:
            there = [guest for guest in guests if not guest.task.done()]
            if step is None:
                guests.append(Guest(admission))
            elif there:
                there[step % len(there)].leave()
            await settle()
            there = [guest for guest in guests if not guest.task.done()]
            assert admission.running == sum(guest.is_in for guest in there)
            assert admission.running + admission.waiting == len(there)
            assert admission.running <= max_running
            assert admission.waiting <= max_waiting
            assert admission.waiting == 0 or admission.running == max_running

    run(test)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("max_running", 0), ("max_waiting", -1), ("context_length", 0), ("max_tool_calls", 1.5)],
)
def test_settings_without_room_are_refused(setting: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{setting} must be an integer from [01], not {value}"):
        Settings(**{setting: value})
