"""Encode a program's first texts in Python, as long as they are short and ASCII.

A program that renders one small prompt, such as the command, then need not wait 130 ms for
tiktoken's encoder to be built. The tokens are the same.
"""

from __future__ import annotations

import functools
import re
from itertools import pairwise

from .vocabulary import load_vocabulary

__all__ = ["FirstTexts"]

LIMIT = 20_000
"""Characters in all; more of them are worth the encoder that is made for many."""

LONGEST_WORD = 100
"""In characters: merging takes quadratic time here."""

_CONTRACTION = "(?:'(?:[sStTmMdD]|[rRvV][eE]|[lL][lL]))?"
_WORDS = (
    rf"[^\r\nA-Za-z0-9]?[A-Z]*[a-z]+{_CONTRACTION}"
    rf"|[^\r\nA-Za-z0-9]?[A-Z]+[a-z]*{_CONTRACTION}"
    r"|[0-9]{1,3}"
    r"| ?[^\sA-Za-z0-9]+[\r\n/]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)
"""What the encoder's pattern comes to in ASCII; compiled when the first text comes."""


class FirstTexts:
    """Encodes up to a limit.

    >>> FirstTexts().encode("hello world")
    [24912, 2375]
    >>> FirstTexts().encode("héllo") is None
    True
    """

    def __init__(self) -> None:
        self._left = LIMIT

    @functools.cached_property
    def ranks(self) -> dict[bytes, int]:
        """All tokens with their ids."""
        return load_vocabulary().ranks()

    def takes(self, text: str) -> bool:
        """Tell whether `text` is short enough after all those before it."""
        return len(text) <= self._left

    def encode(self, text: str) -> list[int] | None:
        """Encode `text`, or return None where that is the encoder's work."""
        if not self.takes(text) or not text.isascii():
            return None
        self._left -= len(text)
        tokens: list[int] = []
        for word in re.findall(_WORDS, text, re.ASCII):
            piece = word.encode()
            token = self.ranks.get(piece)
            if token is not None:
                tokens.append(token)
            elif len(piece) <= LONGEST_WORD:
                tokens += _merge(piece, self.ranks)
            else:
                return None
        return tokens


def _merge(piece: bytes, ranks: dict[bytes, int]) -> list[int]:
    """Join neighbours, those of the lowest rank first, until no two make a token."""
    parts = [piece[at : at + 1] for at in range(len(piece))]
    while True:
        pairs = [first + second for first, second in pairwise(parts)]
        best = min(pairs, key=lambda pair: ranks.get(pair, len(ranks)), default=b"")
        if best not in ranks:
            return [ranks[part] for part in parts]
        at = pairs.index(best)
        parts[at : at + 2] = [best]
