"""Numbers that readers can hold: integers of 64 bits, and others that are finite as doubles.

llguidance cannot bound a number that may have an exponent, and without exponents a model that means
6.02e23 would write another number. So a grammar only has the line `NUMBERS_LINE`, and the matcher
forbids each token with which a number would become too large. A number can always end before it:
where a schema might need more digits (multiples, large bounds), `bounds` writes both bounds.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Sequence
from itertools import chain

from ..encoding import load_harmony_encoding
from ..tokens.special_tokens import FIRST_SPECIAL, MESSAGE
from ..tokens.vocabulary import load_vocabulary

NUMBERS_LINE = "// numbers: 64-bit\n"
"""A comment in grammars whose JSON has only such numbers."""

_LONGEST = 1_000  # characters of a number before its exponent
_SURE = 15  # a token has at most 3 digits, and each integer of 18 digits has 64 bits
_INTEGER = re.compile(r"-?[0-9]+")
_NUMBER_END = re.compile(rb"[-+.0-9eE]*\Z")
_TEXTS = re.compile(r'"((?:[^"\\]|\\.)*(?:\\\Z)?)("|\Z)', re.DOTALL)


def is_allowed(mask: bytes, token: int) -> bool:
    """Return whether a bitmask has the bit of a token."""
    return token >> 3 < len(mask) and bool(mask[token >> 3] >> (token & 7) & 1)


def forbid(mask: bytearray, token: int) -> None:
    """Clear the bit of a token in a bitmask."""
    mask[token >> 3] &= ~(1 << (token & 7))


def open_text(tokens: Sequence[int]) -> str | None:
    """Return the JSON text that is open at the end of the last body, as written; None outside one.

    Raises `ValueError` if the tokens end inside a character.
    """
    vocabulary = load_vocabulary()
    pieces: list[bytes] = []
    for token in reversed(tokens):
        if token == MESSAGE:
            body = b"".join(reversed(pieces)).decode()
            return next((text[1] for text in _TEXTS.finditer(body) if not text[2]), None)
        if token >= FIRST_SPECIAL:
            return None  # a header
        pieces.append(vocabulary[token])
    return None


def refused_after(tokens: Sequence[int], mask: bytes) -> Sequence[int]:
    """Return the tokens of a mask that would make the number at the end of a turn too large."""
    number = _open_number(reversed(tokens))
    is_short = len(number) < _SURE and "e" not in number.lower()
    # Where a pattern forbids the `a` in a text, only the body shows that this is one.
    if is_short or is_allowed(mask, text_token()) or open_text(tokens) is not None:
        return ()
    return _refused(number)


def may_be_refused(tokens: Sequence[int]) -> bool:
    """Return whether `refused_after` is needed: a number is open, and long or with an exponent."""
    number = _open_number(reversed(tokens))
    return len(number) >= _SURE or "e" in number.lower()


def large_numbers(before: Sequence[int], tokens: Sequence[int]) -> list[int]:
    """Return the places of the tokens that make a number too large, at most one in each body.

    In free text, which only a mask tells apart, there is no such limit.
    """
    places: list[int] = []
    pieces, is_found = _pieces(), False
    for place, token in enumerate(tokens):
        if token >= FIRST_SPECIAL:
            is_found = False
        elif token in pieces and not is_found:
            if place and tokens[place - 1] not in _number_tokens():
                continue  # it begins at most three digits earlier, so it is too short
            earlier = chain((tokens[at] for at in range(place - 1, -1, -1)), reversed(before))
            is_large = not _may_follow(_open_number(earlier), pieces[token])
            if is_large and open_text([*before, *tokens[:place]]) is None:
                places.append(place)
                is_found = True
    return places


@functools.cache
def text_token() -> int:
    """Return a token that JSON has only inside a text."""
    return load_harmony_encoding("HarmonyGptOss").encode("a")[0]


@functools.cache
def _pieces() -> dict[int, str]:
    """Return the tokens that can continue a number and make it too large."""
    found = (re.fullmatch(rb"[0-9]+|[eE]", token) for token in load_vocabulary())
    return {token: match[0].decode() for token, match in enumerate(found) if match}


@functools.cache
def _number_tokens() -> frozenset[int]:
    """Return the tokens that are nothing but characters of numbers."""
    texts = enumerate(load_vocabulary())
    return frozenset(token for token, text in texts if re.fullmatch(rb"[-+.0-9eE]+", text))


def _open_number(backwards: Iterable[int]) -> str:
    """Return the characters of a number at the end of tokens, which come last to first."""
    vocabulary = load_vocabulary()
    pieces: list[bytes] = []
    room = _LONGEST + 8
    for token in backwards:
        if token >= FIRST_SPECIAL or room < 0:
            break
        text = vocabulary[token]
        match = _NUMBER_END.search(text)
        piece = match[0] if match else b""
        pieces.append(piece)
        room -= len(piece)
        if len(piece) < len(text):
            break
    return b"".join(reversed(pieces)).decode()


@functools.lru_cache(maxsize=1024)
def _refused(number: str) -> tuple[int, ...]:
    return tuple(token for token, text in _pieces().items() if not _may_follow(number, text))


def _may_follow(number: str, piece: str) -> bool:
    """Return whether a number that is open may go on with a piece."""
    # After a sign, a point or an `e`, a digit must still come.
    if len(number) >= _LONGEST and number[-1].isdigit():
        return False
    text = number + piece
    if len(text) <= _SURE and text.isdigit():
        return True
    if _INTEGER.fullmatch(text):
        return -(2**63) <= int(text) < 2**63
    try:
        return math.isfinite(float(text))
    except ValueError:  # it ends with an e, or is no number
        return True
