"""Tokens that llama.cpp leaves out of a stream, found again by their bytes.

It sends a token once the text so far ends with a whole character, and of the tokens that make up a
character only the last. How many there were is told, and their bytes are those of the text.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ..tokens.special_tokens import FIRST_SPECIAL
from ..tokens.vocabulary import load_vocabulary

__all__ = ["find_lost_tokens", "text_of"]


def find_lost_tokens(text: str, last: int, count: int) -> list[int] | None:
    """Return the `count` tokens that make up the text together with `last`, which follows them.

    None where there is not exactly one way to do so.

    >>> find_lost_tokens("歪", last=103, count=1)
    [4093]
    """
    spelled, ending = text.encode(), text_of(last)
    if not spelled.endswith(ending):
        return None
    ways = list(_ways(spelled[: len(spelled) - len(ending)], 0, count))
    return ways[0] if len(ways) == 1 else None


def text_of(token: int) -> bytes:
    """Return what the server writes for a token; nothing for special ones."""
    return load_vocabulary()[token] if token < FIRST_SPECIAL else b""


def _ways(spelled: bytes, start: int, count: int) -> Iterator[list[int]]:
    """Yield all lists of `count` tokens for what is from `start` on."""
    if count == 0:
        if start == len(spelled):
            yield []
        return
    for end in range(start + 1, len(spelled) + 1):
        token = _ranks().get(spelled[start:end])
        if token is not None and _is_cut(spelled[:end]):
            yield from ([token, *rest] for rest in _ways(spelled, end, count - 1))


def _is_cut(spelled: bytes) -> bool:
    """Tell whether the text ends within a character: only then the token was not sent."""
    try:
        spelled.decode()
    except UnicodeDecodeError:
        return True
    return False


@functools.cache
def _ranks() -> dict[bytes, int]:
    return load_vocabulary().ranks()
