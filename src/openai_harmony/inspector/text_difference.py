"""A text beside another: which parts of it the other does not have.

Long texts are compared line by line, and the lines that changed word by word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher

from typing_extensions import TypedDict  # of Python 3.12, which tells pydantic more

__all__ = ["ComparedPart", "compared_parts"]

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_WORD = re.compile(r"<\|\w+\|>|\w+|\s+|.", re.DOTALL)

_LIMIT = 250_000
"""Pairs of pieces that may be compared, which takes a tenth of a second; more just differ."""


class ComparedPart(TypedDict):
    """A part of a text; an empty one that differs stands where the other text has more."""

    text: str
    differs: bool


def compared_parts(first: str, text: str) -> list[ComparedPart]:
    """Cut `text` into what `first` has as well, and what it has not.

    >>> compared_parts("to=f<|channel|>final", "to=g<|channel|>final")
    [{'text': 'to=', 'differs': False}, {'text': 'g', 'differs': True},
     {'text': '<|channel|>final', 'differs': False}]
    """
    parts: list[ComparedPart] = []
    for piece, differs in _of_lines(first, text):
        if parts and parts[-1]["differs"] == differs:
            parts[-1]["text"] += piece
        else:
            parts.append({"text": piece, "differs": differs})
    return parts


_Marked = tuple[str, bool]


def _of_lines(first: str, text: str) -> Iterator[_Marked]:
    return _compared(_LINE.findall(first), _LINE.findall(text), _of_words)


def _of_words(first: str, text: str) -> Iterator[_Marked]:
    return _compared(_WORD.findall(first), _WORD.findall(text), _different)


def _different(first: str, text: str) -> Iterator[_Marked]:
    yield text, True


def _compared(
    first: Sequence[str],
    pieces: Sequence[str],
    compare_block: Callable[[str, str], Iterator[_Marked]],
) -> Iterator[_Marked]:
    """Compare pieces; a block that changed is compared by `compare_block`."""
    start, end = _equal_ends(first, pieces)
    yield from _same(pieces[:start])
    middle, others = pieces[start : len(pieces) - end], first[start : len(first) - end]
    if len(middle) * len(others) > _LIMIT:
        yield "".join(middle), True
    else:
        matcher = SequenceMatcher(None, others, middle, autojunk=False)
        for kind, from_, to, own_from, own_to in matcher.get_opcodes():
            if kind == "equal":
                yield from _same(middle[own_from:own_to])
            else:
                yield from compare_block(
                    "".join(others[from_:to]), "".join(middle[own_from:own_to])
                )
    yield from _same(pieces[len(pieces) - end :])


def _same(pieces: Sequence[str]) -> Iterator[_Marked]:
    if pieces:
        yield "".join(pieces), False


def _equal_ends(first: Sequence[str], pieces: Sequence[str]) -> tuple[int, int]:
    """Count the pieces that both begin with, and those that both end with behind them."""
    most = min(len(first), len(pieces))
    start = next((at for at in range(most) if first[at] != pieces[at]), most)
    rest = range(1, most - start + 1)
    end = next((at - 1 for at in rest if first[-at] != pieces[-at]), most - start)
    return start, end
