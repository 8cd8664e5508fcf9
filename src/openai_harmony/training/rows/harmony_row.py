"""A row in the canonical JSON form of harmony to a conversation.

All its messages are validated in one go. Where that fails they are read one by one, which takes
twice as long, accepts a few more spellings, and says which field is at fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ...conversation.content import TextContent
from ...conversation.json_field import JsonField
from ...conversation.messages import Conversation, Message
from ...errors import ConversationError
from .embedded_json import parsed
from .row_weight import read_weight

__all__ = ["harmony_conversation"]

_MESSAGES = TypeAdapter(list[Message])


def harmony_conversation(row: JsonField) -> tuple[Conversation, dict[int, float]]:
    """Read a row; return the weights of messages, too, by their index.

    Raises `ConversationError`, which names the field at fault.
    """
    items = parsed(row["messages"])
    try:
        messages = _MESSAGES.validate_python([_arguments(item) for item in items.value])
    except (LookupError, TypeError, AttributeError, ValidationError):
        messages = [_message(item) for item in items.items()]
    weights = {
        at: read_weight(JsonField(raw["weight"], f"{items.place}[{at}].weight"))
        for at, raw in enumerate(items.value)
        if raw.get("weight") is not None
    }
    return Conversation.from_messages(messages), weights


def _arguments(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Arrange a message as `Message` has it; fails in some way where its content is none."""
    content = raw["content"]
    if isinstance(content, str):
        content = [TextContent(text=content)]
    else:
        for part in content:
            part["type"]  # what has none could be taken for another content
    return {**raw, "author": raw, "content": content}  # fields that are no one's are ignored


def _message(item: JsonField) -> Message:
    try:
        return Message.from_dict(dict(item.object()))
    except ConversationError as error:
        place = f"{item.place}.{error.field}" if error.field else item.place
        raise ConversationError(error.problem, field=place) from error
