"""Packing examples of many lengths into sequences of one length, with the start of each."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from .examples import TrainingExample


@dataclass(frozen=True)
class PackedSequence:
    """Several examples one after the other; `seq_lengths` are their lengths.

    A trainer must keep them separate with `position_ids`, `cu_seqlens` or `segment_ids`. No example
    is predicted from the one before: the first token of an example is never trained on.
    """

    input_ids: list[int]
    labels: list[int]
    seq_lengths: list[int]

    @classmethod
    def of(cls, examples: Iterable[TrainingExample]) -> PackedSequence:
        """Put examples one after the other."""
        chosen = list(examples)
        return cls(
            [token for example in chosen for token in example.input_ids],
            [label for example in chosen for label in example.labels],
            [len(example) for example in chosen],
        )

    def position_ids(self) -> list[int]:
        """Return the position of each token in its own example."""
        return [position for length in self.seq_lengths for position in range(length)]

    def segment_ids(self) -> list[int]:
        """Return the number of each token's example, from 1; 0 is for padding."""
        pairs = enumerate(self.seq_lengths, 1)
        return [number for number, length in pairs for _ in range(length)]

    def cu_seqlens(self) -> list[int]:
        """Return the starts of the examples and the end, in the form of attention kernels."""
        return list(accumulate(self.seq_lengths, initial=0))


def pack(examples: Sequence[TrainingExample], context_length: int) -> list[PackedSequence]:
    """Pack examples into sequences of at most `context_length` tokens.

    Raises `ValueError` if an example is longer; `TrainingOptions.context_length` prevents that.
    """
    groups = packed_groups([len(example) for example in examples], context_length)
    return [PackedSequence.of(examples[index] for index in group) for group in groups]


def packed_groups(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Group lengths so that no sum is above `capacity`, by best fit, the longest first.

    Groups are sorted lists of indices of `lengths`, in the order of their first index. Equal input
    gives equal groups.

    >>> packed_groups([5, 9, 4, 1], 10)
    [[0, 2], [1, 3]]
    """
    groups: list[list[int]] = []
    rooms: list[tuple[int, int]] = []  # free room and index of each group; sorted
    for index in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        length = lengths[index]
        if length > capacity:
            raise ValueError(
                f"example {index} has {length} tokens, more than the {capacity} of a sequence; "
                "make the examples with this context_length"
            )
        best = bisect_left(rooms, (length, -1))
        if best < len(rooms):
            room, group = rooms.pop(best)
            groups[group].append(index)
        else:
            room, group = capacity, len(groups)
            groups.append([index])
        if room > length:
            insort(rooms, (room - length, group))
    return sorted(sorted(group) for group in groups)
