"""Message headers as strict parsing reads them: text in, a `Header` or an error out.

As in openai-harmony 0.0.8, a header is read as text that spells its special tokens::

    [role] [to=recipient] [<|channel|>channel] [to=recipient] [content type]

First the channel is cut out. Of the other words, the first is the author if no role was given, and
the last ones are the recipient and the content type. Any further word is an error.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Set as AbstractSet

from ..conversation.header import ROLES, Header
from ..conversation.messages import Role
from ..errors import VocabularyError
from ..tokens.special_tokens import CHANNEL_TEXT, CONSTRAIN_TEXT
from ..tokens.tokenizer import Tokenizer

__all__ = ["HeaderError", "read_header", "read_header_tokens"]

CONTENT_TYPES = frozenset({"json", "code", "text"})
"""Words that are a content type if they are alone, although they could be a recipient."""

LONGEST_CACHED_HEADER = 100
"""Tokens: longer headers are not cached, so the cache stays small."""

_WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)  # the characters with Unicode's property White_Space; Python's own set has four more
_CHANNEL_NAME = re.compile(rf"[^<{_WHITE_SPACE}]*")
_WORD = re.compile(r"[^ \t\n\f\r]+")


class HeaderError(ValueError):
    """The header does not follow the format; the parser adds its position."""


def read_header_tokens(
    tokens: tuple[int, ...], tokenizer: Tokenizer, role: Role | None, tools: AbstractSet[str]
) -> Header:
    """Read header tokens, or raise `HeaderError`; cached, because the same few headers recur."""
    if len(tokens) > LONGEST_CACHED_HEADER:
        return _read_header_tokens.__wrapped__(tokens, tokenizer, role, tools)
    return _read_header_tokens(tokens, tokenizer, role, tools)


@functools.lru_cache(maxsize=1024)
def _read_header_tokens(
    tokens: tuple[int, ...], tokenizer: Tokenizer, role: Role | None, tools: AbstractSet[str]
) -> Header:
    try:
        text = tokenizer.decode_bytes(tokens).decode()
    except (UnicodeDecodeError, VocabularyError):
        raise HeaderError("could not decode header") from None
    return read_header(text, role, tools)


def read_header(
    text: str, role: Role | None = None, tools: AbstractSet[str] = frozenset()
) -> Header:
    """Read the text of a header, or raise `HeaderError`.

    `role` is the author if the prompt contained the header's start; the header may then omit the
    role. `tools` are the recipients that the conversation declares.

    >>> read_header("assistant<|channel|>commentary to=functions.f json").recipient
    'functions.f'
    """
    before, marker, after = text.partition(CHANNEL_TEXT)
    channel = None
    if marker:
        channel = _CHANNEL_NAME.match(after)[0]  # type: ignore[index]  # it matches anything
        if not channel:
            raise HeaderError("channel marker present but no channel value found in header")
        after = after[len(channel) :]
    words = _split_words(before + after)
    name = None
    if role is None:
        role, name = _read_author(words, tools)
    if words and words[0] == role.value:
        del words[0]
    if len(words) == 1 and words == _split_words(after) and _is_content_type(words[0], tools):
        return Header(role, name, channel, None, words[0])
    content_type = words.pop() if len(words) > 1 and not words[-1].startswith("to=") else None
    recipient = words.pop().removeprefix("to=") if words else None
    if words:
        left = _debug_text(" ".join(words))
        raise HeaderError(f"unexpected tokens remaining in message header: Some({left})")
    return Header(role, name, channel, recipient, content_type)


def _split_words(text: str) -> list[str]:
    """Split at ASCII white space, and before each ``<|constrain|>``."""
    return _WORD.findall(text.strip(_WHITE_SPACE).replace(CONSTRAIN_TEXT, f" {CONSTRAIN_TEXT}"))


def _read_author(words: list[str], tools: AbstractSet[str]) -> tuple[Role, str | None]:
    """Read the author at the front of `words`; the name of a tool is taken off."""
    if not words:
        raise HeaderError("message header did not contain a role")
    word = words[0]
    if word in ROLES:
        # A header names a tool only by its name, so a tool named "tool" is written this way.
        return ROLES[word], word if word == Role.TOOL.value else None
    if len(words) > 1 or word.startswith("to=") or word in tools:
        del words[0]
        return Role.TOOL, word
    raise HeaderError(f"Unknown role: {word}")


def _is_content_type(word: str, tools: AbstractSet[str]) -> bool:
    """Return whether a single word after a channel is a content type and not a recipient."""
    return word not in tools and (word in CONTENT_TYPES or word.startswith(CONSTRAIN_TEXT))


def _debug_text(text: str) -> str:
    """Quote text as the reference does in errors, because programs may compare them."""
    import unicodedata  # only for an error

    escapes = {'"': '\\"', "\\": "\\\\", "\0": "\\0", "\t": "\\t", "\n": "\\n", "\r": "\\r"}

    def quoted(character: str) -> str:
        if character in escapes:
            return escapes[character]
        extends = unicodedata.category(character) in ("Mn", "Me") or character in _EXTENDING
        plain = character.isprintable() and not extends
        return character if plain else f"\\u{{{ord(character):x}}}"

    return f'"{"".join(map(quoted, text))}"'


_EXTENDING = frozenset(
    "\u09be\u09d7\u0b3e\u0b57\u0bbe\u0bd7\u0cc0\u0cc2\u0cc7\u0cc8\u0cca\u0ccb\u0cd5\u0cd6"
    "\u0d3e\u0d57\u0dcf\u0ddf\u1715\u1734\u1b35\u1b3b\u1b3d\u1b43\u1b44\u1baa\u1bf2\u1bf3"
    "\u302e\u302f\ua953\ua9c0\uff9e\uff9f\U000111c0\U00011235\U0001133e\U0001134d\U00011357"
    "\U000114b0\U000114bd\U000115af\U000116b6\U00011930\U0001193d\U00016ff0\U00016ff1"
    "\U0001d165\U0001d166\U0001d16d\U0001d16e\U0001d16f\U0001d170\U0001d171\U0001d172"
)
"""Characters with Unicode's property Grapheme_Extend that are not of the categories Mn and Me."""
