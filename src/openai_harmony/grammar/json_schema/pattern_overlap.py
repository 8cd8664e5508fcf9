"""Whether two patterns can match one text; what cannot be proved counts as overlap."""

from __future__ import annotations

from functools import lru_cache

from .pattern_nodes import Characters, Edge, Repeat, Sequence
from .pattern_reader import read_pattern

__all__ = ["never_both"]


def never_both(one: str, other: str) -> bool:
    """Whether it is certain that no text matches both patterns.

    >>> never_both("^a", "^b"), never_both("^a", "b$")
    (True, False)
    """
    first, first_ends = _opening(one)
    second, second_ends = _opening(other)
    if first is None or second is None:
        return False
    if any(map(_disjoint, first, second)):
        return True
    if first_ends and len(first) < len(second):
        return True
    return second_ends and len(second) < len(first)


@lru_cache(maxsize=256)
def _opening(pattern: str) -> tuple[list[Characters] | None, bool]:
    """Return the characters that a text must start with, and whether it must end after them."""
    node = read_pattern(pattern, "")
    parts = list(node.parts) if isinstance(node, Sequence) else [node]
    if not parts or parts[0] != Edge(start=True):
        return None, False
    opening: list[Characters] = []
    for part in parts[1:]:
        if isinstance(part, Characters):
            opening.append(part)
        elif isinstance(part, Repeat) and isinstance(part.part, Characters):
            opening += [part.part] * min(part.least, 100)
            if part.least != part.most or part.least > 100:
                return opening, False
        elif part == Edge(start=False):
            return opening, True
        elif part != Edge(start=True):
            return opening, False
    return opening, False


def _disjoint(one: Characters, other: Characters) -> bool:
    if one.categories or other.categories:
        return False
    return not any(
        first <= last and start <= end for first, end in one.ranges for start, last in other.ranges
    )
