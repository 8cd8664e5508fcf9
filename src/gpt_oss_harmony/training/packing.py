"""Several examples in one sequence: one after the other, or with what they share written once."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from .examples import IGNORED, TrainingExample


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
        # -1 is below the index of every group, so that a group with exactly this room counts.
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


# Branches


class Branch(NamedTuple):
    """The tokens of an example from `start` on; those before are in earlier branches."""

    example: TrainingExample
    start: int


@dataclass(frozen=True)
class BranchedSequence:
    """Examples of one conversation, in which a beginning that several have in common stands once.

    The reasoning of a turn is only in the turn's own example. So its tokens form a branch, which
    the later turns do not see: a token sees itself, and each token before it whose `visible_until`
    is greater than its own index. Among those, its `position_ids` count from 0 without gaps. With
    this mask and these positions, a model computes for each label what it computes for the example
    alone. A branch repeats the last token that it shares, so that no label crosses a boundary.
    """

    branches: Sequence[Branch]

    @property
    def input_ids(self) -> list[int]:
        """The tokens of all branches."""
        return [token for example, start in self.branches for token in example.input_ids[start:]]

    @property
    def labels(self) -> list[int]:
        """The labels; each of an example is there once."""
        return [label for example, start in self.branches for label in example.labels[start:]]

    def __len__(self) -> int:
        """Count the tokens."""
        return sum(len(example) - start for example, start in self.branches)

    def position_ids(self) -> list[int]:
        """Return the position of each token in its example."""
        return [at for example, start in self.branches for at in range(start, len(example))]

    def visible_until(self) -> list[int]:
        """Return for each token the index of the first later token that does not see it."""
        until: list[int] = []
        path: list[int] = []  # the indices of the tokens that the branch sees
        for example, start in self.branches:
            for index in path[start:]:
                until[index] = len(until)
            added = range(len(until), len(until) + len(example) - start)
            path[start:] = added
            until += [0] * len(added)
        for index in path:
            until[index] = len(until)
        return until

    def loss_weights(self) -> list[float]:
        """Return the weight of each label."""
        return [
            weight for example, start in self.branches for weight in example.loss_weights()[start:]
        ]


def branch(
    examples: Sequence[TrainingExample], context_length: int | None = None
) -> list[BranchedSequence]:
    """Put the examples of a conversation into one sequence, or several of `context_length` tokens.

    An example of more tokens than that has a sequence of its own.
    """
    sequences: list[list[Branch]] = []
    length = 0
    for example in examples:
        start = _shared_tokens(sequences[-1][-1].example, example) if sequences else 0
        length += len(example) - start
        if not sequences or (context_length is not None and length > context_length):
            start, length = 0, len(example)
            sequences.append([])
        sequences[-1].append(Branch(example, start))
    return [BranchedSequence(branches) for branches in sequences]


def _shared_tokens(earlier: TrainingExample, later: TrainingExample) -> int:
    """Count the first tokens that both have, up to the one before the later example's own."""
    labelled = (index for index, label in enumerate(later.labels) if label != IGNORED)
    first = next(labelled, len(later))
    same, end = 0, min(len(earlier), first)
    while same < end:  # by halves, because lists are compared faster than their items
        middle = (same + end + 1) // 2
        if earlier.input_ids[same:middle] == later.input_ids[same:middle]:
            same = middle
        else:
            end = middle - 1
    return max(0, same - 1)
