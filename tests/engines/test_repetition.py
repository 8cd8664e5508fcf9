"""A model that runs in circles: what counts as one, beside a slow oracle."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony.engines import RepetitionDetector
from support.examples import examples


def periods(tokens: Sequence[int], threshold: int) -> list[int]:
    detector = RepetitionDetector(threshold)
    return [detector.take(token) for token in tokens]


def slow_periods(tokens: Sequence[int], threshold: int) -> list[int]:
    """Compare the last tokens with those of every shorter period."""
    found = []
    for end in range(1, len(tokens) + 1):
        fitting = (
            period
            for period in range(1, threshold // 2 + 1)
            if end - threshold - period >= 0
            and tokens[end - threshold : end] == tokens[end - threshold - period : end - period]
        )
        found.append(next(fitting, 0))
    return found


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.integers(0, 2), max_size=60)
    | st.builds(
        lambda start, block, times: start + block * times,
        st.lists(st.integers(0, 4), max_size=9),
        st.lists(st.integers(0, 4), min_size=1, max_size=9),
        st.integers(1, 12),
    ),
    st.integers(2, 20),
)
def test_it_agrees_with_a_slow_oracle(tokens: list[int], threshold: int) -> None:
    assert periods(tokens, threshold) == slow_periods(tokens, threshold)


CASES: dict[str, tuple[list[int], int]] = {
    "one token": ([7] * 17, 1),
    "a sentence": ([1, 2, 3, 4, 5] * 4 + [1], 5),
    "after other text": ([*range(100), *[8, 9] * 9], 2),
    "a block that is copied once": ([*range(100), *range(100)], 0),
    "a counter": ([n for count in range(50) for n in (1, count, 2)], 0),
    "too few": ([7] * 16, 0),
}


@pytest.mark.parametrize(("tokens", "period"), CASES.values(), ids=CASES)
def test_cases(tokens: list[int], period: int) -> None:
    assert max(periods(tokens, 16)) == period


def test_the_memory_is_bounded() -> None:
    detector = RepetitionDetector(64)

    def size() -> int:
        return sum(len(held) for held in vars(detector).values() if hasattr(held, "__len__"))

    for token in range(1000):
        detector.take(token)
    before = size()
    for token in range(20_000):
        detector.take(token % 5000)
    assert size() == before


def test_equal_hashes_are_no_repetition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpt_oss_harmony.engines.repetition._MODULUS", 1)
    assert max(periods(range(100), 16)) == 0


def test_a_threshold_below_two_is_refused() -> None:
    with pytest.raises(ValueError, match="from 2, not 1"):
        RepetitionDetector(1)
