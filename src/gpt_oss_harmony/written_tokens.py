"""Tokens as people write them: a list of ids, or text with special tokens."""

from __future__ import annotations

import re

from .encoding import load_harmony_encoding
from .errors import VocabularyError

__all__ = ["looks_like_ids", "token_ids_in", "written_tokens"]

_IDS = re.compile(r"\[[\d\s,]*\]|[\d\s,]+", re.ASCII)
_MAX_DIGITS = 18  # far beyond any id; Python refuses to read very long integers


def written_tokens(text: str) -> list[int]:
    """Read a text of numbers as token ids; encode any other text, with its special tokens.

    Raises `VocabularyError` for a number that cannot be an id.

    >>> written_tokens("200006 1428"), written_tokens("<|start|>user")
    ([200006, 1428], [200006, 1428])
    """
    if looks_like_ids(text):
        return token_ids_in(text)
    return load_harmony_encoding("HarmonyGptOss").encode(text, allowed_special="all")


def looks_like_ids(text: str) -> bool:
    """Return whether a text is only a list of numbers.

    >>> looks_like_ids("[200006, 1428]"), looks_like_ids("1 2\\n3"), looks_like_ids("1st")
    (True, True, False)
    """
    return _IDS.fullmatch(text.strip()) is not None


def token_ids_in(text: str) -> list[int]:
    """Read token ids that are separated by white space or commas, or a JSON list of them.

    >>> token_ids_in("[200006, 1428]"), token_ids_in("")
    ([200006, 1428], [])
    """
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    words = text.replace(",", " ").split()
    for word in words:
        if len(word) > _MAX_DIGITS or not (word.isascii() and word.isdigit()):
            raise VocabularyError(
                f"expected token ids (integers between spaces or commas, or a JSON list of them), "
                f"found {word!r:.40}"
            )
    return [int(word) for word in words]
