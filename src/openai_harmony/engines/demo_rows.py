"""The rows of the demo model's embedding: which are learned and how the others are made.

The demo model has learned some hundred rows. Every other token gets a vector for its kind (with a
space before it, capitalised, ...), and common words get a code of their own: the word's hash, as
signs, times a learned matrix. So the model tells words apart that it never saw, knows " Rome" and
"Rome" for one word, and can copy it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..tokens.special_tokens import FIRST_SPECIAL
from ..tokens.vocabulary import load_vocabulary

__all__ = ["CODE_SIGNS", "KINDS", "MODEL_ROWS", "word_codes"]

_Signs: TypeAlias = npt.NDArray[np.float32]

CODE_SIGNS = 64
"""Signs in the code of a word."""

MODEL_ROWS = 201_088
"""Rows that gpt-oss has: all of the vocabulary but its last reserved token."""

KINDS = 14
"""Six for a word's letters, the same after a space, special tokens, and parts of characters."""

_SPECIAL, _PART_OF_CHARACTER = 12, 13

_COMMON = 30_000
"""Only words that stand after a space among so many of the most common tokens get a code."""

_NEAREST = 30
"""The most that the codes of two words have in common: the sum over their signs' products."""

_PLACES = 24, 24, 16
"""Signs for the ones, the tens and the hundreds of a number."""

_WORD = re.compile(rb" [A-Za-z][a-z]{2,10}")
_NUMBER = re.compile(rb"[0-9]{1,3}")


def word_codes() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.intp]]:
    """The code (a row of 1 and -1, or of 0 for none) and the kind of every token."""
    pieces = list(load_vocabulary())
    kinds = np.full(MODEL_ROWS, _SPECIAL, dtype=np.intp)
    kinds[:FIRST_SPECIAL] = [_kind(piece) for piece in pieces]
    coded = _coded(pieces)
    words = [pieces[token].strip().lower() for token in coded]
    signs = _signs({word for word in words if not word.isdigit()}, CODE_SIGNS, _NEAREST)
    digits = _digits()
    codes = np.zeros((MODEL_ROWS, CODE_SIGNS), dtype=np.float32)
    codes[coded] = [digits(word) if word.isdigit() else signs[word] for word in words]
    return codes, kinds


def _digits() -> Callable[[bytes], _Signs]:
    """A function from a number to its code: signs for its ones, its tens and its hundreds."""
    names = [b" ", *(b"%d" % digit for digit in range(10))]
    places = [
        _signs([b"%d %s" % (place, name) for name in names], size, size // 4)
        for place, size in enumerate(_PLACES)
    ]

    def code(number: bytes) -> _Signs:
        digits = number.rjust(len(places))[::-1]
        return np.concatenate(
            [signs[b"%d %c" % (place, digits[place])] for place, signs in enumerate(places)]
        )

    return code


def _signs(words: Iterable[bytes], size: int, nearest: int) -> dict[bytes, _Signs]:
    """A hash of each word, as signs; again for those that come too near to another's."""
    words = sorted(words)
    codes = np.stack([_hash(word, size) for word in words])
    again = np.arange(len(words))
    attempt = 0
    while True:
        shared = np.abs(codes[again] @ codes.T)
        shared[np.arange(len(again)), again] = 0
        again = again[(shared > nearest).any(axis=1)]
        if not len(again):
            return dict(zip(words, codes, strict=True))
        attempt += 1
        codes[again] = [_hash(b"%s %d" % (words[at], attempt), size) for at in again]


def _hash(word: bytes, size: int) -> _Signs:
    digest = blake2b(word, digest_size=size // 8).digest()
    return np.unpackbits(np.frombuffer(digest, dtype=np.uint8)).astype(np.float32) * 2 - 1


def _coded(pieces: list[bytes]) -> list[int]:
    """Numbers, and common words that are tokens with a space before them and without."""
    tokens = {piece: token for token, piece in enumerate(pieces)}
    words = [p for p in pieces[:_COMMON] if _WORD.fullmatch(p) and p[1:] in tokens]
    numbers = filter(_NUMBER.fullmatch, pieces)
    return sorted(tokens[p] for p in (*words, *(word[1:] for word in words), *numbers))


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
