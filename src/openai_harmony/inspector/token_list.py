"""Tokens as the page draws them: ids, and the text or the bytes of each."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict  # of Python 3.12, which tells pydantic more

from ..encoding import load_harmony_encoding
from ..tokens.special_tokens import VOCABULARY_SIZE

__all__ = ["TokenList", "token_list"]


class TokenList(TypedDict):
    """`texts` has None for a token that is no UTF-8 by itself; `bytes` has those, by index.

    An id outside the vocabulary has no bytes at all.
    """

    ids: list[int]
    texts: list[str | None]
    bytes: dict[str, str]


def token_list(tokens: Sequence[int]) -> TokenList:
    """List tokens.

    >>> token_list([3686, 162, 200008])["texts"], token_list([162])["bytes"]
    (['hi', None, '<|message|>'], {'0': 'e6'})
    """
    known = {token: _bytes(token) for token in set(tokens)}
    found = {token: _text(piece) for token, piece in known.items()}
    texts = [found[token] for token in tokens]
    without = {str(at): known[tokens[at]].hex(" ") for at, text in enumerate(texts) if text is None}
    return {"ids": list(tokens), "texts": texts, "bytes": without}


def _bytes(token: int) -> bytes:
    if not 0 <= token < VOCABULARY_SIZE:
        return b""
    return load_harmony_encoding("HarmonyGptOss").tokenizer.pieces[token]


def _text(piece: bytes) -> str | None:
    try:
        return piece.decode() or None
    except UnicodeDecodeError:
        return None
