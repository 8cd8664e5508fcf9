"""The three spellings of a message header.

==============  ==============================================================
``reference``   ``assistant to=functions.f<|channel|>commentary json``
``guide``       ``assistant<|channel|>commentary to=functions.f <|constrain|>json``
``oss-harmony`` the same for assistants; in ``commentary`` the channel always
                comes first, and every content type is constrained
==============  ==============================================================

A message comes in; pieces of text and special token ids come out. Each piece of text is encoded
by itself, so the cuts between pieces are part of the format.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from .config import HeaderStyle
from .errors import ConversationError
from .messages import Message, Role
from .special_tokens import CHANNEL, CONSTRAIN, CONSTRAIN_TEXT, MESSAGE, START

__all__ = ["HeaderPiece", "header_pieces"]

HeaderPiece: TypeAlias = "str | int"
"""Text, or the id of a special token."""


def header_pieces(message: Message, style: HeaderStyle) -> Iterator[HeaderPiece]:
    """Spell the header of `message` from ``<|start|>`` to ``<|message|>``.

    >>> message = Message.from_role_and_content(Role.ASSISTANT, "{}").with_channel("commentary")
    >>> list(header_pieces(message.with_recipient("functions.f"), "guide"))
    [200006, 'assistant', 200005, 'commentary', ' to=functions.f', 200008]
    """
    recipient = message.recipient
    # A message to everyone is written without a recipient.
    target = "" if recipient is None or recipient == "all" else f" to={recipient}"
    late = bool(target) and message.channel is not None and _channel_first(message, style)
    yield START
    yield _author(message) + ("" if late else target)
    if message.channel is not None:
        yield CHANNEL
        yield message.channel
    if late:
        yield target
    if message.content_type is not None:
        yield from _content_type(message, message.content_type, style)
    yield MESSAGE


def _author(message: Message) -> str:
    author = message.author
    if author.role is Role.TOOL:
        if author.name is None:
            raise ConversationError(
                "a message by a tool needs the tool's name", field="author.name"
            )
        return author.name
    return author.role.value if author.name is None else f"{author.role.value}:{author.name}"


def _channel_first(message: Message, style: HeaderStyle) -> bool:
    if style == "guide":
        return message.author.role is Role.ASSISTANT
    return style == "oss-harmony" and message.channel == "commentary"


def _content_type(message: Message, content_type: str, style: HeaderStyle) -> Iterator[HeaderPiece]:
    marked = content_type.startswith(CONSTRAIN_TEXT)
    if not marked and not _constrains(message, content_type, style):
        yield f" {content_type}"
        return
    yield " "
    yield CONSTRAIN
    yield content_type.removeprefix(CONSTRAIN_TEXT)


def _constrains(message: Message, content_type: str, style: HeaderStyle) -> bool:
    """Whether the style puts ``<|constrain|>`` before a plain content type."""
    if style == "guide":
        # Calls are constrained to a data type; models write `code` for python without the marker.
        is_call = message.author.role is Role.ASSISTANT and message.recipient is not None
        return is_call and content_type != "code"
    return style == "oss-harmony"
