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

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from ..config import HeaderStyle
from ..conversation.messages import INVISIBLE, ROLES, Header, Message, Role
from ..errors import ConversationError
from ..tokens.special_tokens import CHANNEL, CONSTRAIN, CONSTRAIN_TEXT, MESSAGE, START

HeaderPiece: TypeAlias = "str | int"
"""Text, or the id of a special token."""

_ENDS_FIELD = re.compile(rf"[\s={INVISIBLE}]|<\|")
# A header has a tool's bare name in the role's place. The name `tool` alone is read back as both.
_NAMED_LIKE_ROLE = re.compile(rf"(?!tool$)(?:{'|'.join(ROLES)})(?::|$)")


def header_pieces(header: Header, style: HeaderStyle) -> Iterator[HeaderPiece]:
    """Spell a header from ``<|start|>`` to ``<|message|>``.

    Raises `ConversationError` for a field that a parser would read as something else.

    >>> header = Header(Role.ASSISTANT, channel="commentary", recipient="functions.f")
    >>> list(header_pieces(header, "guide"))
    [200006, 'assistant', 200005, 'commentary', ' to=functions.f', 200008]
    """
    check_header(header)
    channel, recipient = header.channel, header.recipient
    # As in the reference, a message to all has no recipient in its header, but ends in <|call|>.
    target = "" if recipient is None or recipient == "all" else f" to={recipient}"
    if style == "guide":
        # A tool's result keeps its recipient beside its name: `functions.f to=assistant`.
        channel_first = channel is not None and header.role is Role.ASSISTANT
    else:
        channel_first = channel == "commentary" and style == "oss-harmony"
    author = header.role.value if header.name is None else f"{header.role.value}:{header.name}"
    if header.role is Role.TOOL:
        author = header.name or ""  # a tool is its own role
    yield START
    yield author + ("" if channel_first else target)
    if channel is not None:
        yield CHANNEL
        yield channel
    if channel_first and target:
        yield target
    if header.content_type is not None:
        yield from _content_type(header, header.content_type, style)
    yield MESSAGE


def check_header(header: Header) -> None:
    """Raise `ConversationError` for a field that a parser would read as something else.

    A header is plain text between two special tokens, so a name that contains white space or
    ``to=`` could be read as another role or recipient.

    >>> check_header(Header(Role.TOOL, "system to=assistant"))
    Traceback (most recent call last):
    gpt_oss_harmony.errors.ConversationError: author.name: a header cannot contain ' ', found in \
'system to=assistant'; use a name without white space, control characters, '=' and '<|'
    """
    role, name, channel, recipient, content_type = header
    if content_type is not None and content_type.startswith(CONSTRAIN_TEXT):
        # The guide has a space in `<|constrain|> json`.
        content_type = content_type.removeprefix(CONSTRAIN_TEXT).removeprefix(" ")
    if role is Role.TOOL and name is None:
        raise ConversationError("a message by a tool needs the tool's name", field="author.name")
    for field, value in (
        ("author.name", name),
        ("channel", channel),
        ("recipient", recipient),
        ("content_type", content_type or None),
    ):
        if value is None:
            continue
        if not value:
            raise ConversationError("the field is empty; leave it out instead", field=field)
        character = _ENDS_FIELD.search(value)
        if character is not None:
            problem = (
                f"a header cannot contain {character[0]!r}, found in {value[:100]!r}; use a name "
                "without white space, control characters, '=' and '<|'"
            )
            raise ConversationError(problem, field=field)
    # The parser ends a channel at its first "<", because <|constrain|> may follow without a space.
    if channel is not None and "<" in channel:
        raise ConversationError(
            f"a channel's name cannot contain '<', found in {channel!r}", field="channel"
        )
    if role is Role.TOOL and name is not None and _NAMED_LIKE_ROLE.match(name):
        problem = f"a tool named {name[:100]!r} would be read as a role; rename the tool"
        raise ConversationError(problem, field="author.name")


class HeaderChange(NamedTuple):
    """A field of a message that no header can have, and what takes its place.

    `message` is the index of the message; `after` is None for a field that was left out.
    """

    message: int
    field: str
    before: str | None
    after: str | None


def renderable_messages(
    messages: Iterable[Message],
) -> tuple[list[Message], list[HeaderChange]]:
    """Return messages that can be rendered, and what was changed; sound messages stay as they are.

    Models write names that no header can have, as in ``to=a=b``: the parser returns them, and the
    next prompt could not be rendered. In such a name, ``_`` takes the place of what is not allowed.

    >>> call = Message.from_role_and_content(Role.ASSISTANT, "{}").with_recipient("a=b")
    >>> (renamed,), changes = renderable_messages([call])
    >>> renamed.recipient, changes
    ('a_b', [HeaderChange(message=0, field='recipient', before='a=b', after='a_b')])
    """
    renderable: list[Message] = []
    changes: list[HeaderChange] = []
    for index, message in enumerate(messages):
        author = message.author
        before = {
            "author.name": author.name,
            "channel": message.channel,
            "recipient": message.recipient,
            "content_type": message.content_type,
        }
        after = {field: _allowed_value(field, value) for field, value in before.items()}
        name = after["author.name"]
        if author.role is Role.TOOL and (name is None or _NAMED_LIKE_ROLE.match(name)):
            after["author.name"] = f"{name or Role.TOOL.value}_" if name else Role.TOOL.value
        changed = [
            HeaderChange(index, field, value, after[field])
            for field, value in before.items()
            if value != after[field]
        ]
        if changed:
            named = author.model_copy(update={"name": after.pop("author.name")})
            message = message.model_copy(update={**after, "author": named})
        renderable.append(message)
        changes += changed
    return renderable, changes


def _allowed_value(field: str, value: str | None) -> str | None:
    if not value:
        return None
    constrained = CONSTRAIN_TEXT if field == "content_type" else ""
    is_constrained = bool(constrained) and value.startswith(constrained)
    rest = value.removeprefix(constrained) if is_constrained else value
    spaced = " " if is_constrained and rest.startswith(" ") else ""  # the guide has a space there
    rest = _ENDS_FIELD.sub("_", rest.removeprefix(spaced))
    if field == "channel":
        rest = rest.replace("<", "_")
    return f"{constrained}{spaced}{rest}" if is_constrained else rest


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
