"""The rows of the demo model's embedding: which are learned and how the others are made.

The demo model has learned some hundred rows. Every other token gets a row made from its word:
the word's hash, as signs, times a learned matrix, plus a learned vector for its kind (with a
space before it, capitalised, ...). So the model tells all tokens apart, knows " Rome" and "Rome"
for one word, and can copy what it never saw.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from ..special_tokens import FIRST_SPECIAL, SPECIAL_TEXTS
from ..vocabulary import load_vocabulary

__all__ = ["CODE_SIGNS", "KINDS", "MODEL_ROWS", "word_codes"]

CODE_SIGNS = 96
"""Signs in the code of a word."""

MODEL_ROWS = 201_088
"""Rows that gpt-oss has: all of the vocabulary but its last reserved token."""

KINDS = 14
"""Six for a word's letters, the same after a space, special tokens, and parts of characters."""

_SPECIAL, _PART_OF_CHARACTER = 12, 13


def word_codes() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.intp]]:
    """The code (a row of 1 and -1) and the kind of every token."""
    pieces = [*load_vocabulary(), *(SPECIAL_TEXTS[t].encode() for t in _special_ids())]
    hashes = bytearray()
    kinds = np.empty(MODEL_ROWS, dtype=np.intp)
    blake2b = hashlib.blake2b
    for token, piece in enumerate(pieces):
        word, kinds[token] = _word_and_kind(piece)
        hashes += blake2b(word, digest_size=CODE_SIGNS // 8).digest()
    kinds[FIRST_SPECIAL:] = _SPECIAL
    bits = np.unpackbits(np.frombuffer(hashes, dtype=np.uint8)).reshape(MODEL_ROWS, CODE_SIGNS)
    return bits.astype(np.float32) * 2 - 1, kinds


def _special_ids() -> range:
    return range(FIRST_SPECIAL, MODEL_ROWS)


def _word_and_kind(piece: bytes) -> tuple[bytes, int]:
    """What tokens of one word share, and what tells them apart."""
    spaced = piece[:1] == b" "
    try:
        text = piece[spaced:].decode()
    except UnicodeDecodeError:
        return piece, _PART_OF_CHARACTER
    return text.lower().encode(), _letters(text) + (6 if spaced else 0)


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
