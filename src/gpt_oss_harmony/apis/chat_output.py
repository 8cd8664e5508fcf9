"""Messages of the model become the assistant message of a chat completion."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..conversation.messages import Message
from .custom_tools import custom_tool_input
from .items import ItemKind, NewId, called_name, item_kind
from .output_items import call_arguments

__all__ = ["CHAT_JOINT", "chat_message_of", "chat_tool_call"]

CHAT_JOINT = "\n\n"
"""The separator between several texts of a turn, and between several pieces of reasoning."""


def chat_message_of(
    messages: Sequence[Message],
    new_id: NewId,
    *,
    custom_tools: Collection[str] = (),
    text_tools: Collection[str] = (),
    shows_reasoning: bool = True,
    is_cut: bool = False,
) -> dict[str, Any]:
    """Make the message for a turn; `new_id` makes the ids of calls.

    `text_tools` are the custom tools whose calls contain plain text instead of JSON. With `is_cut`,
    the tokens ended inside the last message; a call without arguments gets ``{}`` only if the model
    ended it.

    The content joins the preambles and the answer. Clients read reasoning under one of two names,
    so the message has it under both.

    >>> thought = Message.from_role_and_content("assistant", "Hm.").with_channel("analysis")
    >>> chat_message_of([thought], str)["reasoning"]
    'Hm.'
    """
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for position, message in enumerate(messages, 1):
        is_complete = not (is_cut and position == len(messages))
        kind = item_kind(message.channel, message.recipient, custom_tools=custom_tools)
        text = message.text
        if kind is ItemKind.REASONING:
            thoughts.append(text)
        elif kind.is_message:
            texts.append(text)
        else:
            if kind is not ItemKind.CUSTOM_TOOL_CALL:
                text = call_arguments(text, is_complete=is_complete)
            is_text = message.recipient in text_tools
            call_id = new_id("call")
            calls.append(
                chat_tool_call(kind, message.recipient or "", text, id=call_id, is_text=is_text)
            )
    reasoning = (CHAT_JOINT.join(filter(None, thoughts)) or None) if shows_reasoning else None
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


def chat_tool_call(
    kind: ItemKind, recipient: str, body: str, *, id: str, is_text: bool = False
) -> dict[str, Any]:
    """Make a call in a message; the name of a tool outside `functions` is its whole recipient.

    >>> chat_tool_call(ItemKind.FUNCTION_CALL, "functions.now", "{}", id="call_1")["function"]
    {'name': 'now', 'arguments': '{}'}
    """
    name, _ = called_name(recipient)
    if kind is ItemKind.CUSTOM_TOOL_CALL:
        custom = {"name": name, "input": body if is_text else custom_tool_input(body)}
        return {"id": id, "type": "custom", "custom": custom}
    return {"id": id, "type": "function", "function": {"name": name, "arguments": body}}
