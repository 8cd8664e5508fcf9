"""Examples of many lengths into sequences of one: several examples in each, with their bounds."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from .example import TrainingExample

__all__ = ["PackedSequence", "pack", "packed_places"]


@dataclass(frozen=True)
class PackedSequence:
    """Several examples one after the other; `seq_lengths` are their lengths.

    A trainer has to keep them apart, by `position_ids`, `cu_seqlens` or `segment_ids`. No label
    reaches over a bound: the first token of an example is never learned.
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
        """Each token's place in its own example."""
        return [at for length in self.seq_lengths for at in range(length)]

    def segment_ids(self) -> list[int]:
        """Which example each token belongs to, from 1 on; 0 is left for padding."""
        pairs = enumerate(self.seq_lengths, 1)
        return [number for number, length in pairs for _ in range(length)]

    def cu_seqlens(self) -> list[int]:
        """Where the examples begin, and the end, as attention kernels take it."""
        return list(accumulate(self.seq_lengths, initial=0))


def pack(examples: Sequence[TrainingExample], context_length: int) -> list[PackedSequence]:
    """Pack examples into sequences of at most `context_length` tokens; raises `ValueError` where
    one is longer (`TrainingOptions.context_length` prevents that).
    """
    places = packed_places([len(example) for example in examples], context_length)
    return [PackedSequence.of(examples[at] for at in group) for group in places]


def packed_places(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Group lengths so that no sum is above `capacity`: best fit, the longest first.

    Equal input gives equal groups; each is in the order of the input, and so are the groups, by
    their first.

    >>> packed_places([5, 9, 4, 1], 10)
    [[0, 2], [1, 3]]
    """
    groups: list[list[int]] = []
    rooms: list[tuple[int, int]] = []  # what is left in a group, and its place; sorted
    for at in sorted(range(len(lengths)), key=lambda at: (-lengths[at], at)):
        length = lengths[at]
        if length > capacity:
            raise ValueError(
                f"example {at} has {length} tokens, more than the {capacity} of a sequence; "
                "make examples with that context_length"
            )
        found = bisect_left(rooms, (length, -1))
        if found < len(rooms):
            room, group = rooms.pop(found)
            groups[group].append(at)
        else:
            room, group = capacity, len(groups)
            groups.append([at])
        if room > length:
            insort(rooms, (room - length, group))
    return sorted(sorted(group) for group in groups)
