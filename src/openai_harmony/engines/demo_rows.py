"""The rows of the demo model's embedding: which are learned and how the others are made.

The demo model has learned some hundred rows. Every other token gets a vector for its kind (with a
space before it, capitalised, ...), and common words get a code of their own: the word's hash, as
signs, times a learned matrix. So the model tells words apart that it never saw, knows " Rome" and
"Rome" for one word, and can copy it.
"""

from __future__ import annotations

import re
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from ..special_tokens import FIRST_SPECIAL
from ..vocabulary import load_vocabulary

__all__ = ["CODE_SIGNS", "KINDS", "MODEL_ROWS", "word_codes"]

CODE_SIGNS = 96
"""Signs in the code of a word."""

MODEL_ROWS = 201_088
"""Rows that gpt-oss has: all of the vocabulary but its last reserved token."""

KINDS = 14
"""Six for a word's letters, the same after a space, special tokens, and parts of characters."""

_SPECIAL, _PART_OF_CHARACTER = 12, 13

_COMMON = 100_000
"""Only words among so many of the most common tokens get a code: fewer are told apart better."""

_WORD = re.compile(rb" ?[A-Za-z][a-z]{2,10}")
_NUMBER = re.compile(rb"[0-9]{1,3}")


def word_codes() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.intp]]:
    """The code (a row of 1 and -1, or of 0 for none) and the kind of every token."""
    pieces = list(load_vocabulary())
    kinds = np.full(MODEL_ROWS, _SPECIAL, dtype=np.intp)
    kinds[:FIRST_SPECIAL] = [_kind(piece) for piece in pieces]
    coded = _coded(pieces)
    words = (pieces[token].strip().lower() for token in coded)
    hashes = b"".join(blake2b(word, digest_size=CODE_SIGNS // 8).digest() for word in words)
    bits = np.unpackbits(np.frombuffer(hashes, dtype=np.uint8)).reshape(-1, CODE_SIGNS)
    codes = np.zeros((MODEL_ROWS, CODE_SIGNS), dtype=np.float32)
    codes[coded] = bits.astype(np.float32) * 2 - 1
    return codes, kinds


def _coded(pieces: list[bytes]) -> list[int]:
    """Numbers, and common words that are tokens with a space before them and without."""
    common = pieces[:_COMMON]
    words = set(filter(_WORD.fullmatch, common))
    both = {w for word in words if b" " + word in words for w in (word, b" " + word)}
    return [token for token, p in enumerate(common) if p in both or _NUMBER.fullmatch(p)]


def _kind(piece: bytes) -> int:
    spaced = piece[:1] == b" "
    try:
        return _letters(piece[spaced:].decode()) + (6 if spaced else 0)
    except UnicodeDecodeError:
        return _PART_OF_CHARACTER


def _letters(text: str) -> int:
    if text.islower():
        return 0
    if text.istitle():
        return 1
    if text.isupper():
        return 2
    if text.isdecimal():
        return 3
    return 4 if text.isalpha() else 5
