"""The three spellings of a message header.

==============  ==============================================================
``reference``   ``assistant to=functions.f<|channel|>commentary json``
``guide``       ``assistant<|channel|>commentary to=functions.f <|constrain|>json``
``oss-harmony`` on ``commentary`` the channel comes first, for tools as well;
                every content type is constrained
==============  ==============================================================

A header becomes pieces of text and ids of special tokens. Each piece of text is encoded by itself,
so the boundaries between pieces are part of the format.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from ..config import HeaderStyle
from ..conversation.header import Header
from ..conversation.messages import Role
from ..errors import ConversationError
from ..tokens.special_tokens import CHANNEL, CONSTRAIN, CONSTRAIN_TEXT, MESSAGE, START

__all__ = ["HeaderPiece", "header_pieces"]

HeaderPiece: TypeAlias = "str | int"
"""Text, or the id of a special token."""


def header_pieces(header: Header, style: HeaderStyle) -> Iterator[HeaderPiece]:
    """Spell a header from ``<|start|>`` to ``<|message|>``.

    >>> header = Header(Role.ASSISTANT, channel="commentary", recipient="functions.f")
    >>> list(header_pieces(header, "guide"))
    [200006, 'assistant', 200005, 'commentary', ' to=functions.f', 200008]
    """
    channel, recipient = header.channel, header.recipient
    # A message to everyone is written without a recipient.
    target = "" if recipient is None or recipient == "all" else f" to={recipient}"
    if style == "guide":
        channel_first = channel is not None and header.role is Role.ASSISTANT
    else:
        channel_first = channel == "commentary" and style == "oss-harmony"
    yield START
    yield _author(header) + ("" if channel_first else target)
    if channel is not None:
        yield CHANNEL
        yield channel
    if channel_first and target:
        yield target
    if header.content_type is not None:
        yield from _content_type(header, header.content_type, style)
    yield MESSAGE


def _author(header: Header) -> str:
    role, name = header.role, header.name
    if role is Role.TOOL:
        if name is None:
            problem = "a message by a tool needs the tool's name"
            raise ConversationError(problem, field="author.name")
        return name
    return role.value if name is None else f"{role.value}:{name}"


def _content_type(header: Header, content_type: str, style: HeaderStyle) -> Iterator[HeaderPiece]:
    constrained = content_type.startswith(CONSTRAIN_TEXT) or style == "oss-harmony"
    if style == "guide" and header.role is Role.ASSISTANT and header.recipient is not None:
        # Calls are constrained to a data type; models write `code` for python without the marker.
        constrained = constrained or content_type != "code"
    if constrained:
        yield " "
        yield CONSTRAIN
        yield content_type.removeprefix(CONSTRAIN_TEXT)
    else:
        yield f" {content_type}"
