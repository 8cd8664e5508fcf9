"""The embedding rows of the demo model that are computed, not trained.

A few hundred rows are trained. Every other token gets a vector for its kind (after a space,
capitalised, ...). Common words also get a code: the word's hash, as signs, times a trained matrix.
So the model can distinguish and copy words that it was not trained on, and it reads " Rome" and
"Rome" as the same word.
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

_Signs: TypeAlias = npt.NDArray[np.float32]

CODE_SIGNS = 64
"""The length of a word's code, in signs."""

MODEL_ROWS = 201_088
"""The rows of gpt-oss: the vocabulary without its last reserved token."""

KINDS = 14
"""The number of kinds: six by letters, six after a space, special tokens, parts of characters."""

_SPECIAL, _PART_OF_CHARACTER = 12, 13

_KINDS = (str.islower, str.istitle, str.isupper, str.isdecimal, str.isalpha)

_COMMON = 30_000
"""Words get a code if they occur, after a space, among this many most common tokens."""

_NEAREST = 30
"""The largest scalar product of two words' codes."""

_DIGIT_SIGNS = 24, 24, 16
"""The signs for the ones, the tens and the hundreds of a number."""

_WORD = re.compile(rb" [A-Za-z][a-z]{2,10}")
_NUMBER = re.compile(rb"[0-9]{1,3}")


def word_codes() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.intp]]:
    """Return the code of every token (1 and -1, or 0 for none) and its kind."""
    pieces = list(load_vocabulary())
    kinds = np.full(MODEL_ROWS, _SPECIAL, dtype=np.intp)
    kinds[:FIRST_SPECIAL] = [_kind(piece) for piece in pieces]
    # Numbers have a code, and common words that are tokens both with and without a space.
    tokens = {piece: token for token, piece in enumerate(pieces)}
    spaced = [p for p in pieces[:_COMMON] if _WORD.fullmatch(p) and p[1:] in tokens]
    numbers = filter(_NUMBER.fullmatch, pieces)
    coded = sorted(tokens[p] for p in (*spaced, *(word[1:] for word in spaced), *numbers))
    words = [pieces[token].strip().lower() for token in coded]
    signs = _signs({word for word in words if not word.isdigit()}, CODE_SIGNS, _NEAREST)
    digits = _digits()
    codes = np.zeros((MODEL_ROWS, CODE_SIGNS), dtype=np.float32)
    codes[coded] = [digits(word) if word.isdigit() else signs[word] for word in words]
    return codes, kinds


def _digits() -> Callable[[bytes], _Signs]:
    """Return a function from a number to its code: signs for its ones, tens and hundreds."""
    names = [b" ", *(b"%d" % digit for digit in range(10))]
    places = [
        _signs([b"%d %s" % (place, name) for name in names], size, size // 4)
        for place, size in enumerate(_DIGIT_SIGNS)
    ]

    def code(number: bytes) -> _Signs:
        digits = number.rjust(len(places))[::-1]
        return np.concatenate(
            [signs[b"%d %c" % (place, digits[place])] for place, signs in enumerate(places)]
        )

    return code


def _signs(words: Iterable[bytes], size: int, nearest: int) -> dict[bytes, _Signs]:
    """Hash each word to signs; hash again if the code is too close to another one."""
    words = sorted(words)
    codes = np.stack([_hash(word, size) for word in words])
    close = np.arange(len(words))
    attempt = 0
    while True:
        shared = np.abs(codes[close] @ codes.T)
        shared[np.arange(len(close)), close] = 0
        close = close[(shared > nearest).any(axis=1)]
        if not len(close):
            return dict(zip(words, codes, strict=True))
        attempt += 1
        codes[close] = [_hash(b"%s %d" % (words[index], attempt), size) for index in close]


def _hash(word: bytes, size: int) -> _Signs:
    digest = blake2b(word, digest_size=size // 8).digest()
    return np.unpackbits(np.frombuffer(digest, dtype=np.uint8)).astype(np.float32) * 2 - 1


def _kind(piece: bytes) -> int:
    is_spaced = piece[:1] == b" "
    try:
        text = piece[is_spaced:].decode()
    except UnicodeDecodeError:
        return _PART_OF_CHARACTER
    by_letters = 5
    for kind, is_kind in enumerate(_KINDS):
        if is_kind(text):
            by_letters = kind
            break
    return by_letters + 6 * is_spaced
