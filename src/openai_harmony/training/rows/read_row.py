"""One row of a data set to a conversation, whichever of the three forms it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from ...apis.chat_messages import is_chat
from ...conversation.json_field import JsonField
from ...conversation.messages import Conversation
from ...errors import ConversationError
from .chat_row import chat_conversation
from .embedded_json import parsed
from .harmony_row import harmony_conversation
from .sharegpt_row import sharegpt_as_chat

__all__ = ["ReadRow", "RowForm", "detect_form", "read_row"]

RowForm: TypeAlias = Literal["harmony", "chat", "sharegpt"]


class ReadRow(NamedTuple):
    """A row as it was read; `weights` are those of messages, by index, where the row gives any."""

    form: RowForm
    conversation: Conversation
    weights: dict[int, float]


def read_row(raw: object, *, form: RowForm | None = None, start_date: str | None = None) -> ReadRow:
    """Read a row as parsed JSON; the form is detected unless it is given.

    `start_date` is the date that the system message of a chat has. Raises `ConversationError`,
    which names the field at fault.

    >>> row = {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]}
    >>> read = read_row(row)
    >>> read.form, read.conversation.messages[-1].channel
    ('sharegpt', 'final')
    """
    row = JsonField({"messages": raw} if isinstance(raw, list) else raw)
    form = form or detect_form(row.object())
    if form == "harmony":
        return ReadRow(form, *harmony_conversation(row))
    if form == "sharegpt":
        row = JsonField(sharegpt_as_chat(row))
    return ReadRow(form, *chat_conversation(row, start_date))


def detect_form(row: Mapping[str, Any]) -> RowForm:
    """Tell the form of a row by its messages; raises `ConversationError` where it has none."""
    field = JsonField(row)
    if row.get("conversations") is not None:
        first = next(iter(parsed(field["conversations"]).items()), None)
        if first is None or "from" in first.object():
            return "sharegpt"
        raise field["conversations"].error(
            "messages without 'from'; name a list of role and content 'messages'"
        )
    if row.get("messages") is None:
        known = ", ".join(map(repr, list(row)[:8]))
        raise ConversationError(
            f"neither 'messages' nor 'conversations' among the fields {known or '(none)'}"
        )
    return "chat" if is_chat(parsed(field["messages"]).value) else "harmony"
