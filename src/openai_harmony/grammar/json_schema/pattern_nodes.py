"""The parts of a regular expression, and sets of characters as ranges of code points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Code points, first and last of each range, sorted, no two touching."""

LAST = 0x10FFFF


@dataclass(frozen=True)
class Characters:
    """One character: of these ranges, or of these general categories, or (negated) of neither."""

    ranges: Ranges
    categories: tuple[str, ...] = ()
    negated: bool = False


@dataclass(frozen=True)
class Edge:
    """The start of the text, or its end."""

    start: bool


@dataclass(frozen=True)
class Sequence:
    """One node after the other; none is the empty text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Alternatives:
    """Any of the nodes; none matches nothing."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """A node that many times."""

    part: Node
    least: int
    most: int | None


Node: TypeAlias = Characters | Edge | Sequence | Alternatives | Repeat


def merged(ranges: list[tuple[int, int]]) -> Ranges:
    """Return the same code points as sorted ranges that do not touch."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)


def complement(ranges: Ranges) -> Ranges:
    """Return all other code points."""
    others: list[tuple[int, int]] = []
    first = 0
    for start, end in ranges:
        if first < start:
            others.append((first, start - 1))
        first = end + 1
    if first <= LAST:
        others.append((first, LAST))
    return tuple(others)
