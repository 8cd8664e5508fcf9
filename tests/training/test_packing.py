"""Packing: whole examples in sequences of a length, with their bounds."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt_oss_harmony.training import IGNORED, PackedSequence, pack, packed_groups, training_examples
from support.training_conversations import conversation

# Lengths, capacity, groups.
VECTORS: list[tuple[list[int], int, list[list[int]]]] = [
    ([], 10, []),
    ([10], 10, [[0]]),
    ([5, 9, 4, 1], 10, [[0, 2], [1, 3]]),
    ([3, 3, 3, 3], 10, [[0, 1, 2], [3]]),
    ([6, 5, 4, 5], 10, [[0, 2], [1, 3]]),  # the fullest that has room, not the first
]


@pytest.mark.parametrize(("lengths", "capacity", "groups"), VECTORS)
def test_groups(lengths: list[int], capacity: int, groups: list[list[int]]) -> None:
    assert packed_groups(lengths, capacity) == groups


def test_what_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="example 1 has 11 tokens, more than the 10"):
        packed_groups([1, 11], 10)


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(50, 80))
def test_everything_is_packed_once_and_fits(lengths: list[int], capacity: int) -> None:
    groups = packed_groups(lengths, capacity)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    sums = [sum(lengths[index] for index in group) for group in groups]
    assert all(total <= capacity for total in sums)
    # Any two groups together are too long, or they would be one.
    assert not any(first + second <= capacity for first, second in pairwise(sorted(sums)[:2]))


def test_a_packed_sequence() -> None:
    examples = [training_examples(conversation(letters))[0] for letters in ("uf", "uaf", "uf")]
    (packed,) = pack(examples, 200)
    lengths = [len(example) for example in examples]
    assert packed.seq_lengths == lengths
    assert packed.cu_seqlens() == [0, lengths[0], sum(lengths[:2]), sum(lengths)]
    assert packed.input_ids == [token for example in examples for token in example.input_ids]
    assert packed.position_ids()[lengths[0] - 1 : lengths[0] + 2] == [lengths[0] - 1, 0, 1]
    assert packed.segment_ids() == [1] * lengths[0] + [2] * lengths[1] + [3] * lengths[2]
    for start in packed.cu_seqlens()[:-1]:
        assert packed.labels[start] == IGNORED  # nothing is predicted over a bound


def test_nothing_packed() -> None:
    assert PackedSequence.of([]) == PackedSequence([], [], [])
    assert PackedSequence.of([]).cu_seqlens() == [0]
