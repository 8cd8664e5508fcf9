"""Rows of training: an opening and several conversations after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

import torch

from gpt_oss_harmony import HeaderStyle

from .conversations import examples_after, render
from .openings import opening
from .words import Part

__all__ = ["Batch", "Row", "packed", "rows"]

LENGTH = 896
"""Tokens of a row, about; longer after a long opening."""

_AFTER_LONG_OPENINGS = 600


@dataclass(frozen=True)
class Row:
    """Tokens, the lengths of its parts; where the assistant speaks, and what it says there."""

    tokens: list[int]
    lengths: list[int]
    asked: list[int]
    targets: list[int]
    examples: list[int]
    kinds: list[str]


class Batch:
    """Rows one after the other, as tensors."""

    def __init__(self, rows: Sequence[Row]) -> None:
        starts = [0, *accumulate(len(row.tokens) for row in rows)]
        self.tokens = torch.tensor([token for row in rows for token in row.tokens])
        self.lengths = [row.lengths for row in rows]
        asked = [start + at for start, row in zip(starts, rows, strict=False) for at in row.asked]
        self.asked = torch.tensor(asked)
        self.targets = torch.tensor([token for row in rows for token in row.targets])


def rows(seed: str, part: Part) -> Iterator[Row]:
    """Rows without end."""
    rng = Random(f"{seed} {part}")
    while True:
        yield packed(rng, part)


def packed(rng: Random, part: Part) -> Row:
    """Draw an opening, and conversations until the row is full."""
    start = opening(rng, part)
    style: HeaderStyle = "guide" if rng.random() < 0.7 else "reference"
    tokens: list[int] = []
    lengths: list[int] = []
    asked: list[int] = []
    targets: list[int] = []
    examples: list[int] = []
    kinds: list[str] = []
    limit = LENGTH
    while not kinds or len(tokens) < limit:
        (example,) = examples_after(rng, part, start, 1)
        rendered = render(example, style)
        if not kinds:
            tokens += rendered.opening
            lengths.append(len(tokens))
            limit = max(LENGTH, len(tokens) + _AFTER_LONG_OPENINGS)
        # The last token is never read.
        added = [*rendered.turns, *rendered.completion[:-1]]
        first = len(tokens) + len(rendered.turns) - 1
        asked += range(first, first + len(rendered.completion))
        targets += rendered.completion
        examples += [len(kinds)] * len(rendered.completion)
        kinds.append(example.kind)
        lengths.append(len(added))
        tokens += added
    return Row(tokens, lengths, asked, targets, examples, kinds)
