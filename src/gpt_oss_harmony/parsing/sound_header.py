"""Sound headers, as lenient parsing reads them: as they are written.

A header is sound if it follows the format and each of its names can only mean what its place says.
Any other header is damaged, and `least_cost` reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from ..conversation.header import ROLES, Header
from ..conversation.messages import Role
from ..tokens.special_tokens import CHANNEL, CONSTRAIN, CONSTRAIN_TEXT
from .header_words import (
    CHANNELS,
    KNOWN_TYPES,
    TYPES,
    Piece,
    find_tool,
    nearest_channel,
    nearest_role,
    plain_name,
    split_words,
)

__all__ = ["read_sound"]


def read_sound(
    pieces: Sequence[Piece], role: Role | None, tools: AbstractSet[str], *, after_call: bool
) -> Header | None:
    """Read a header that follows the format and names only what exists; None for any other.

    With `after_call`, a tool has just been called, and its name alone may begin its answer.
    """
    read = _channel_and_words(pieces, tools)
    if read is None:
        return None
    channel, words = read
    name = None
    if role is None:
        role, name = _take_author(words, tools, may_answer=channel is None or after_call)
    elif words[:1] == [role.value]:
        del words[0]
    if role is None:
        return None
    recipient = _take_recipient(words, tools)
    is_call_by_tool = name == Role.TOOL.value and recipient not in (None, *ROLES)
    if is_call_by_tool or not _is_free_recipient(recipient, tools):
        return None
    content_type = words.pop(0) if words else None
    if words or not _is_free_type(content_type, tools):
        return None
    return Header(role, name, channel, recipient, content_type)


def _channel_and_words(
    pieces: Sequence[Piece], tools: AbstractSet[str]
) -> tuple[str | None, list[str]] | None:
    """Take the channel from a header and return it with the other words."""
    channel = None
    words: list[str] = []
    for marker, text in pieces:
        found = split_words(text, tools)
        if marker == CHANNEL:
            if channel is not None or not found or text[0].isspace():
                return None
            channel = found.pop(0)
            if channel not in CHANNELS and not _is_free_name(channel, tools):
                return None
        elif marker == CONSTRAIN:
            found[:1] = [CONSTRAIN_TEXT + "".join(found[:1])]
        words += found
    return channel, words


def _take_author(
    words: list[str], tools: AbstractSet[str], *, may_answer: bool
) -> tuple[Role | None, str | None]:
    """Take the author from the front of `words`; no role if it may mean something else."""
    if not words or words[0].startswith(("to=", CONSTRAIN_TEXT)):
        return None, None
    author = words.pop(0)
    following = words[0] if words else ""
    if author == Role.TOOL.value:  # a tool's name may follow, which is one word too many
        is_alone = following.startswith("to=") or following in ("", *KNOWN_TYPES)
        return (Role.TOOL, author) if is_alone else (None, None)
    if author in ROLES:
        return ROLES[author], None
    prefix, _, name = author.partition(":")
    if name and prefix in ROLES and prefix != Role.TOOL.value:
        return ROLES[prefix], name
    answers_role = following.startswith("to=") and following[3:] in ROLES
    is_name = author in tools or _is_free_name(author, tools) or _names_itself(author, tools)
    is_answer = (answers_role and is_name) or (may_answer and author in tools)
    return (Role.TOOL, author) if is_answer and " " not in author else (None, None)


def _take_recipient(words: list[str], tools: AbstractSet[str]) -> str | None:
    if words and (words[0].startswith("to=") or words[0] in tools):
        return words.pop(0).removeprefix("to=")
    return None


def _is_free_recipient(recipient: str | None, tools: AbstractSet[str]) -> bool:
    if recipient is None or recipient in ROLES:
        return True
    return " " not in recipient and _names_itself(recipient, tools)


def _is_free_type(content_type: str | None, tools: AbstractSet[str]) -> bool:
    bare = (content_type or "").removeprefix(CONSTRAIN_TEXT)
    return not bare or bare in TYPES or _is_free_name(bare, tools)


def _names_itself(recipient: str, tools: AbstractSet[str]) -> bool:
    """Whether a recipient is a declared tool, or a name that means nothing else."""
    if recipient in tools:
        return True
    tool = find_tool(recipient, tools)
    if tool is not None:
        return tool.name == recipient
    return bool(recipient) and recipient not in CHANNELS and recipient not in TYPES


def _is_free_name(word: str, tools: AbstractSet[str]) -> bool:
    """Whether a word is a name that means nothing else in a header."""
    known = word in ROLES or word in CHANNELS or word in TYPES or nearest_role(word)
    return (
        plain_name(word)
        and not known
        and nearest_channel(word) is None
        and find_tool(word, tools) is None
    )
