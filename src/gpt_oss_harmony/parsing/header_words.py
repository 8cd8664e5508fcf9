"""The words of message headers in lenient parsing: their looks, places and meanings.

`WORD_RULES` gives each word a meaning by its look and its place; docs/reference/recoveries.md
shows the rules as a table.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from ..conversation.header import ROLES
from ..tokens.special_tokens import CONSTRAIN_TEXT, FIRST_SPECIAL
from ..tokens.tokenizer import Tokenizer
from .recovery import RecoveryKind

__all__ = [
    "CHANNELS",
    "CONTENT_TYPES",
    "KNOWN_TYPES",
    "KNOWN_WORDS",
    "LONGEST_NAME",
    "NAMESPACE",
    "PLAIN_NAME",
    "QUOTES",
    "WORD_RULES",
    "Piece",
    "Place",
    "Slot",
    "Word",
    "name_pattern",
    "nearest_channel",
    "split_header",
    "split_words",
    "type_in_garble",
    "unglue",
]

CHANNELS = ("analysis", "commentary", "final")
CONTENT_TYPES = ("json", "code")


class Piece(NamedTuple):
    """A special token of a header (None before the first) and the text that follows it."""

    marker: int | None
    text: str


def split_header(tokens: Sequence[int], tokenizer: Tokenizer) -> list[Piece]:
    """Cut header tokens at their special tokens."""
    cuts = [index for index, token in enumerate(tokens) if token >= FIRST_SPECIAL]
    texts = [
        tokenizer.decode(tokens[start + 1 : end])
        for start, end in pairwise([-1, *cuts, len(tokens)])
    ]
    pieces = [Piece(tokens[index], text) for index, text in zip(cuts, texts[1:], strict=True)]
    return [Piece(None, texts[0]), *pieces] if texts[0] else pieces


LONGEST_NAME = 256
"""Characters: a longer word is not a tool's name, and a longer header is not cached."""

NAMESPACE = re.compile(r"(?:functions?\.)*")
QUOTES = "\"'`:,"

_GLUE = "|".join(("assistant", *CHANNELS, *CONTENT_TYPES))
_GLUED = re.compile(rf"({_GLUE}|tool:(?=.))(?={_GLUE}|to=|$|(?<=tool:))")
PLAIN_NAME = re.compile(r"[A-Za-z][\w+./-]*$")


@functools.lru_cache(maxsize=64)
def name_pattern(tools: frozenset[str]) -> str:
    """Return a pattern for the declared names that contain a space, the longest first."""
    bare = {NAMESPACE.sub("", tool, count=1) for tool in tools if len(tool.split()) > 1}
    names = [r"\s+".join(map(re.escape, name.split())) for name in sorted(bare, key=len)]
    return rf"(?:functions?\.)*(?:{'|'.join(reversed(names))})" if names else "(?!)"


@functools.lru_cache(maxsize=64)
def _word_pattern(tools: frozenset[str]) -> re.Pattern[str]:
    quote = f"[{QUOTES}]?"
    glued = "(?:commentary|analysis|json|code)*"
    return re.compile(rf"(?:to=)?{quote}{name_pattern(tools)}{quote}{glued}(?=\s|$)|\S+")


def split_words(text: str, tools: AbstractSet[str]) -> list[str]:
    """Split at white space, but not inside a declared tool's name."""
    return _word_pattern(frozenset(tools)).findall(text)


def unglue(word: str) -> list[str]:
    """Split glued words such as ``assistantcommentary`` or ``analysisto=python``."""
    parts: list[str] = []
    done = 0
    while match := _GLUED.match(word, done):
        parts.append(match[1].rstrip(":"))
        done = match.end()
    if done < len(word) or not parts:
        parts.append(word[done:])
    return parts


def nearest_channel(word: str) -> str | None:
    """Find the channel whose name a damaged word contains or begins."""
    for channel in CHANNELS:
        if channel in word or (len(word) >= 5 and channel.startswith(word)):
            return channel
    return None


KNOWN_TYPES = frozenset((*CONTENT_TYPES, *(CONSTRAIN_TEXT + name for name in CONTENT_TYPES)))


def type_in_garble(word: str) -> str | None:
    """Return the content type at a word's end if the rest of the word is not a plain name.

    >>> type_in_garble("彩神争霸高json"), type_in_garble("fjson")
    ('json', None)
    """
    return None if word.isascii() else next(filter(word.endswith, CONTENT_TYPES), None)


class Word(Enum):
    """Looks of a word in a header; if several fit, the first counts."""

    RECIPIENT = "`to=…`"
    CHANNEL = "a channel"
    ROLE = "a role"
    TYPE = "`json`, `code`"
    TOOL = "a tool"
    NEARLY_CHANNEL = "nearly a channel"
    NAME = "another name"
    OTHER = "anything else"


KNOWN_WORDS: Mapping[str, Word] = {
    **dict.fromkeys(CHANNELS, Word.CHANNEL),
    **dict.fromkeys(ROLES, Word.ROLE),
    **dict.fromkeys(CONTENT_TYPES, Word.TYPE),
}


class Place(Enum):
    """Places of a word in a header."""

    FIRST = "where the role belongs"
    AFTER_TOOL = "after the role `tool`"
    CHANNEL = "after `<|channel|>`"
    CONSTRAIN = "after `<|constrain|>`"
    LATER = "elsewhere"


class Slot(Enum):
    """Meanings of a word in a header."""

    AUTHOR = "author"
    ROLE = "role"
    CHANNEL = "channel"
    RECIPIENT = "recipient"
    TYPE = "type"
    TEXT = "text"
    NOTHING = "left out"


class Rule(NamedTuple):
    """The meaning of a word, and the repair to note, if any."""

    slot: Slot
    noted_as: RecoveryKind | None = None


_NO_CHANNEL = Rule(Slot.NOTHING, RecoveryKind.UNKNOWN_CHANNEL)

WORD_RULES: Mapping[Word, Mapping[Place, Rule]] = {
    Word.RECIPIENT: {
        Place.CHANNEL: Rule(Slot.RECIPIENT, RecoveryKind.EMPTY_CHANNEL),
        Place.LATER: Rule(Slot.RECIPIENT),
    },
    Word.CHANNEL: {
        Place.LATER: Rule(Slot.CHANNEL),
    },
    Word.ROLE: {
        Place.CHANNEL: _NO_CHANNEL,
        Place.LATER: Rule(Slot.ROLE),
    },
    Word.TYPE: {
        Place.CHANNEL: Rule(Slot.TYPE, RecoveryKind.UNKNOWN_CHANNEL),
        Place.CONSTRAIN: Rule(Slot.TYPE),
        Place.LATER: Rule(Slot.TEXT),
    },
    Word.TOOL: {
        Place.FIRST: Rule(Slot.AUTHOR),
        Place.AFTER_TOOL: Rule(Slot.AUTHOR),
        Place.CHANNEL: Rule(Slot.RECIPIENT, RecoveryKind.TOOL_AS_CHANNEL),
        Place.CONSTRAIN: Rule(Slot.RECIPIENT, RecoveryKind.TOOL_AS_TYPE),
        Place.LATER: Rule(Slot.RECIPIENT),
    },
    Word.NEARLY_CHANNEL: {
        Place.CHANNEL: Rule(Slot.CHANNEL, RecoveryKind.UNKNOWN_CHANNEL),
    },
    Word.NAME: {
        Place.FIRST: Rule(Slot.AUTHOR),
        Place.AFTER_TOOL: Rule(Slot.AUTHOR),
        Place.CHANNEL: Rule(Slot.CHANNEL),
        Place.CONSTRAIN: Rule(Slot.TYPE),
        Place.LATER: Rule(Slot.TEXT),
    },
    Word.OTHER: {
        Place.FIRST: Rule(Slot.AUTHOR),
        Place.CHANNEL: _NO_CHANNEL,
        Place.LATER: Rule(Slot.TEXT),
    },
}
"""The meaning of a word by its look and its place; a place without a row is like `Place.LATER`.

After a word that is text, a channel or a tool without a special token before it is text too.
"""
