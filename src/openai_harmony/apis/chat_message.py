"""Messages of the model become the one message of a chat completion."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..conversation.messages import Message
from .custom_input import custom_tool_input
from .history import NewId
from .item_kind import ItemKind, what_kind
from .output_items import NO_ARGUMENTS, called_name, message_text

__all__ = ["CHAT_JOINT", "chat_message_of", "chat_tool_call"]

CHAT_JOINT = "\n\n"
"""What stands between the texts of a turn, and between its thoughts, where they are several."""


def chat_message_of(
    messages: Sequence[Message], new_id: NewId, *, custom_tools: Collection[str] = ()
) -> dict[str, Any]:
    """Make the message for a turn; `new_id` makes the ids of calls.

    Preambles and the answer are its content; reasoning stands under both names that clients read.

    >>> thought = Message.from_role_and_content("assistant", "Hm.").with_channel("analysis")
    >>> chat_message_of([thought], str)["reasoning"]
    'Hm.'
    """
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for message in messages:
        kind = what_kind(message.channel, message.recipient, custom_tools=custom_tools)
        text = message_text(message)
        if kind is ItemKind.REASONING:
            thoughts.append(text)
        elif kind.is_message:
            texts.append(text)
        else:
            if kind is not ItemKind.CUSTOM_TOOL_CALL and not text.strip():
                text = NO_ARGUMENTS
            calls.append(chat_tool_call(kind, message.recipient or "", text, id=new_id("call")))
    reasoning = CHAT_JOINT.join(filter(None, thoughts)) or None
    content = CHAT_JOINT.join(filter(None, texts))
    return {
        "role": "assistant",
        "content": None if calls and not content else content,
        "refusal": None,
        "annotations": [],
        "reasoning": reasoning,
        "reasoning_content": reasoning,
        **({"tool_calls": calls} if calls else {}),
    }


def chat_tool_call(kind: ItemKind, recipient: str, body: str, *, id: str) -> dict[str, Any]:
    """Make a call in a message; a tool of a namespace goes by its whole name.

    >>> chat_tool_call(ItemKind.FUNCTION_CALL, "functions.now", "{}", id="call_1")["function"]
    {'name': 'now', 'arguments': '{}'}
    """
    name, _ = called_name(recipient)
    if kind is ItemKind.CUSTOM_TOOL_CALL:
        custom = {"name": name, "input": custom_tool_input(body)}
        return {"id": id, "type": "custom", "custom": custom}
    return {"id": id, "type": "function", "function": {"name": name, "arguments": body}}
