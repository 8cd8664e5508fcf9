"""Lines of 80 columns, as the model counts and cites them."""

from __future__ import annotations

import re

__all__ = ["WIDTH", "line_spans"]

WIDTH = 80
"""Characters of a line at most."""

# Spaces, or a word; a hyphen between letters ends a piece of a word.
_PIECE = re.compile(r" +|(?:[^ -]|-(?![^\W\d_]{2})|(?<![^\W\d_]{2})-)+-?|-")


def line_spans(text: str, width: int = WIDTH) -> list[tuple[int, int]]:
    """Return where each line begins and ends; nothing is left out but ends of lines in the text.

    Lines break before and after spaces, which are kept, and within words that are too long.

    >>> [("one two-three"[a:b]) for a, b in line_spans("one two-three", width=8)]
    ['one two-', 'three']
    """
    spans = list[tuple[int, int]]()
    start = 0
    while True:
        end = text.find("\n", start)
        _wrap(text, start, len(text) if end < 0 else end, width, spans)
        if end < 0:
            return spans
        start = end + 1


def _wrap(text: str, start: int, end: int, width: int, spans: list[tuple[int, int]]) -> None:
    if end - start > width:
        for piece in _PIECE.finditer(text, start, end):
            if piece.end() - start > width >= len(piece[0]):
                spans.append((start, piece.start()))
                start = piece.start()
            while piece.end() - start > width:
                spans.append((start, start + width))
                start += width
    spans.append((start, end))
