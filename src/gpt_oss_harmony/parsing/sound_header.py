"""Sound headers, as lenient parsing reads them: as they are written.

A header is sound if strict parsing reads it and each of its names can only mean what its place
says. Any other header is damaged, and `least_cost` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from ..conversation.content import CHANNELS
from ..conversation.messages import ROLES, Header, Role
from ..tokens.special_tokens import CHANNEL, CHANNEL_TEXT, CONSTRAIN_TEXT
from .header_words import (
    KNOWN_TYPES,
    LONGEST_NAME,
    TYPES,
    Piece,
    answers_assistant,
    find_tool,
    nearest_channel,
    nearest_role,
    plain_name,
    split_words,
)
from .strict import HeaderError, read_header

_NAMED_AUTHOR = re.compile(rf" *({'|'.join({*ROLES} - {'tool'})}):(\S+)")
_WHITE_SPACE = re.compile(r"\s")


def read_sound(
    pieces: Sequence[Piece], role: Role | None, tools: AbstractSet[str], *, after_call: bool
) -> Header | None:
    """Read a header that follows the format and names only what exists; None for any other.

    With `after_call`, a tool has just been called, and its name alone may begin its answer.
    """
    text, name = "", None
    for marker, written in pieces:
        after = _WHITE_SPACE.sub(" ", written)  # strict parsing splits at ASCII white space only
        has_name_with_space = any(len(word.split()) > 1 for word in split_words(after, tools))
        if has_name_with_space or (marker == CHANNEL and CHANNEL_TEXT in text):
            return None
        if marker is not None:
            text += CHANNEL_TEXT + after if marker == CHANNEL else CONSTRAIN_TEXT + after.lstrip()
        elif role is None and (author := _NAMED_AUTHOR.match(after)):
            role, name, text = ROLES[author[1]], author[2], after[author.end() :]
        else:
            text = after
    try:
        header = read_header(text, role, tools)
    except HeaderError:
        return None
    header = header._replace(name=header.name or name)
    recipient = header.recipient
    if recipient is not None and recipient not in tools and f"to={recipient}" not in text:
        if header.content_type is not None or recipient not in text.rpartition(CHANNEL_TEXT)[2]:
            return None
        header = header._replace(recipient=None, content_type=recipient)
    return header if _names_only_what_it_says(header, tools, after_call=after_call) else None


def _names_only_what_it_says(header: Header, tools: AbstractSet[str], *, after_call: bool) -> bool:
    role, name, channel, recipient, content_type = header
    is_answer = recipient in ROLES
    if channel is not None and channel not in CHANNELS and not _is_free(channel, tools):
        return False
    if not (recipient is None or is_answer or _names_itself(recipient, tools)):
        return False
    if role is Role.TOOL and recipient and not is_answer and answers_assistant(recipient, tools):
        return False
    if role is Role.TOOL and name == role.value:
        is_alone = recipient is None and content_type in (None, *KNOWN_TYPES)
        if not is_alone and not is_answer:  # a tool's name may follow, which is one word too many
            return False
    elif role is Role.TOOL and name is not None:
        may_answer = (channel is None or after_call) and name in tools
        if not may_answer and not (is_answer and _names_itself(name, tools)):
            return False
    kind = (content_type or "").removeprefix(CONSTRAIN_TEXT)
    return not kind or kind in TYPES or _is_free(kind, tools)


def _names_itself(word: str, tools: AbstractSet[str]) -> bool:
    """Whether a word is a declared tool, or a name that means nothing else."""
    if word.split() != [word] or "=" in word or word.startswith(CONSTRAIN_TEXT):
        return False
    if word in tools or len(word) > LONGEST_NAME:
        return word in tools
    tool = find_tool(word, tools)
    return tool.name == word if tool else word not in CHANNELS and word not in TYPES


def _is_free(word: str, tools: AbstractSet[str]) -> bool:
    """Whether a word is a name that means nothing else in a header."""
    known = word in ROLES or word in CHANNELS or word in TYPES or nearest_role(word)
    return (
        plain_name(word)
        and not known
        and nearest_channel(word) is None
        and find_tool(word, tools) is None
    )
