"""Rows of training: an opening and several conversations after it, as tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from openai_harmony import HeaderStyle

from .conversations import examples_after, render
from .openings import opening
from .words import Part

__all__ = ["Row", "packed", "rows"]

LENGTH = 512
"""Tokens of a row, about; longer after a long opening."""

_AFTER_LONG_OPENINGS = 300


@dataclass(frozen=True)
class Row:
    """Tokens, the lengths of its parts; where the assistant speaks, and what it says there."""

    tokens: Tensor
    lengths: list[int]
    asked: Tensor
    targets: Tensor
    examples: Tensor
    kinds: list[str]


def rows(seed: int, part: Part) -> Iterator[Row]:
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
    return Row(
        torch.tensor(tokens),
        lengths,
        torch.tensor(asked),
        torch.tensor(targets),
        torch.tensor(examples),
        kinds,
    )
