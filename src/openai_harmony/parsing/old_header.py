"""Message headers as the model writes them: header tokens in, a `Header` or an error out.

The header is first cut at its special tokens, so that only a real ``<|channel|>`` is a marker;
text that spells one stays a word. Then its words are read in their order::

    [role] [to=recipient] [<|channel|>channel] [to=recipient] [content type]
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import NamedTuple

from ..conversation.header import ROLES, Header
from ..conversation.messages import Role
from ..tokens.special_tokens import CHANNEL, CONSTRAIN, CONSTRAIN_TEXT, FIRST_SPECIAL, SPECIAL_TEXTS
from ..tokens.tokenizer import Tokenizer

__all__ = [
    "HeaderError",
    "Piece",
    "read_header",
    "read_header_tokens",
    "split_header",
    "split_words",
]


class Piece(NamedTuple):
    """A special token of a header (None before the first) and the text that follows it."""

    marker: int | None
    text: str


class HeaderError(ValueError):
    """The header does not follow the format; the parser adds where it stands."""


def split_header(tokens: Sequence[int], tokenizer: Tokenizer, errors: str) -> list[Piece]:
    """Cut header tokens at their special tokens; `errors` is for invalid UTF-8."""
    cuts = [at for at, token in enumerate(tokens) if token >= FIRST_SPECIAL]
    texts = [
        tokenizer.decode_bytes(tokens[start + 1 : end]).decode("utf-8", errors)
        for start, end in pairwise([-1, *cuts, len(tokens)])
    ]
    pieces = [Piece(tokens[at], text) for at, text in zip(cuts, texts[1:], strict=True)]
    return [Piece(None, texts[0]), *pieces] if texts[0] else pieces


LONGEST_KEPT_HEADER = 100
"""Tokens; so that what is kept of headers stays small."""


def read_header_tokens(
    tokens: tuple[int, ...], tokenizer: Tokenizer, role: Role | None, tools: AbstractSet[str]
) -> Header:
    """Read header tokens that follow the format; the few headers there are come again and again.

    Raises `HeaderError`, or `UnicodeDecodeError` where they are not valid UTF-8.
    """
    if len(tokens) > LONGEST_KEPT_HEADER:
        return _read_header_tokens.__wrapped__(tokens, tokenizer, role, tools)
    return _read_header_tokens(tokens, tokenizer, role, tools)


@functools.lru_cache(maxsize=1024)
def _read_header_tokens(
    tokens: tuple[int, ...], tokenizer: Tokenizer, role: Role | None, tools: AbstractSet[str]
) -> Header:
    return read_header(split_header(tokens, tokenizer, "strict"), role, tools)


def read_header(
    pieces: Iterable[Piece], role: Role | None, tools: AbstractSet[str] = frozenset()
) -> Header:
    """Read a header that follows the format, or raise `HeaderError`.

    `role` is known when the header's start was part of the prompt; then the header need not
    repeat it. `tools` are the recipients that the conversation declares.

    >>> read_header([Piece(CHANNEL, "commentary to=functions.f "), Piece(CONSTRAIN, "json")],
    ...             Role.ASSISTANT).content_type
    '<|constrain|>json'
    """
    channel, words = _channel_and_words(pieces)
    name = None
    if role is None:
        role, name = _read_author(words, tools)
    elif words and words[0] == role.value:
        del words[0]
    recipient = _take_recipient(words, tools)
    content_type = words.pop(0) if words and not words[0].startswith("to=") else None
    if words:
        raise HeaderError(f"unexpected words in the message header: {' '.join(words)!r}")
    return Header(role, name, channel, recipient, content_type)


def _channel_and_words(pieces: Iterable[Piece]) -> tuple[str | None, list[str]]:
    channel = None
    words: list[str] = []
    for piece in pieces:
        found = split_words(piece.text)
        if piece.marker is None:
            pass
        elif piece.marker == CHANNEL:
            if channel is not None:
                raise HeaderError("a second <|channel|> in the message header")
            name = _CHANNEL_NAME.match(piece.text)
            if name is None:
                raise HeaderError("<|channel|> without a channel's name in the message header")
            channel = name[0]
            found = split_words(piece.text[name.end() :])
        elif piece.marker == CONSTRAIN:
            found[:1] = [CONSTRAIN_TEXT + "".join(found[:1])]
        else:
            raise HeaderError(f"{SPECIAL_TEXTS[piece.marker]} in the message header")
        words += found
    return channel, words


def _read_author(words: list[str], tools: AbstractSet[str]) -> tuple[Role, str | None]:
    """Take the author from the front of `words`; whatever is no role is the name of a tool."""
    if not words or words[0].startswith(("to=", CONSTRAIN_TEXT)):
        raise HeaderError("the message header names no role")
    first = words.pop(0)
    if first in ROLES:
        # A tool is known by its name alone, so a tool named "tool" is written this way.
        return ROLES[first], first if first == Role.TOOL.value else None
    role, colon, name = first.partition(":")
    if colon and role in ROLES and role != Role.TOOL.value:
        return ROLES[role], name
    if words or first in tools:
        return Role.TOOL, first
    raise HeaderError(f"unknown role {first!r} in the message header")


def _take_recipient(words: list[str], tools: AbstractSet[str]) -> str | None:
    if words and words[0].startswith("to="):
        return words.pop(0)[3:]
    if words and words[0] in tools:
        return words.pop(0)
    return None


# As in the reference, a channel ends at Unicode white space, any other word at ASCII's.
_CHANNEL_NAME = re.compile(r"[\S\x1c-\x1f]+")
_WORD = re.compile(r"[^ \t\n\f\r]+")


def split_words(text: str) -> list[str]:
    """Split at ASCII white space."""
    return _WORD.findall(text)
