"""Messages of the model become output items of the Responses API.

===========================  ====================================================================
``analysis``                 ``reasoning``, its text as ``reasoning_text``
``commentary``               a ``message`` of the phase ``commentary``
``final``                    a ``message`` of the phase ``final_answer``
a call on any channel        ``function_call``, or ``custom_tool_call`` of a custom tool
a call of a server's tool    the item of its `CallItem`, such as ``mcp_call``
===========================  ====================================================================

An empty field is left out if the specification makes it optional but not nullable.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, TypeAlias

from ..conversation.built_in_tools import call_item
from ..conversation.messages import Message
from ..sampled_messages import SampledMessage
from .custom_tools import custom_tool_input
from .items import ID_PREFIXES, HistoryItem, ItemKind, NewId, called_name, item_kind

__all__ = [
    "ItemStatus",
    "call_arguments",
    "item_of_message",
    "items_of_messages",
    "new_item",
    "server_call_item",
    "summary_of",
]

ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete"]


def call_arguments(text: str, *, is_complete: bool) -> str:
    """Return the arguments of a call: clients parse them as JSON, so a whole call has some.

    >>> call_arguments(" ", is_complete=True), call_arguments("", is_complete=False)
    ('{}', '')
    """
    return "{}" if is_complete and not text.strip() else text


_SENTENCE = re.compile(r"\S.*?(?:[.!?。！？]['\")\]]*(?=\s|$)|(?=\n\s*\n)|\Z)", re.DOTALL)
_PARAGRAPHS = re.compile(r"\n\s*\n")
_SUMMARY_LIMIT = 300  # characters of a sentence


def summary_of(reasoning: str, kind: str) -> str:
    """Summarise reasoning by its own sentences.

    ``concise`` is the first, ``auto`` the first three, ``detailed`` the first of each paragraph.

    >>> summary_of("We need to add. 2 + 2 is 4. So 4. Done.\\n\\nAnswer: 4.", "auto")
    'We need to add. 2 + 2 is 4. So 4.'
    """
    if kind == "detailed":
        paragraphs = _PARAGRAPHS.split(reasoning)
        sentences = [found for part in paragraphs if (found := _SENTENCE.search(part))]
    else:
        sentences = list(islice(_SENTENCE.finditer(reasoning), 1 if kind == "concise" else 3))
    texts = [found[0].strip() for found in sentences]
    shortened = [
        text if len(text) <= _SUMMARY_LIMIT else f"{text[:_SUMMARY_LIMIT].rstrip()}…"
        for text in texts
    ]
    return ("\n\n" if kind == "detailed" else " ").join(shortened)


def new_item(
    kind: ItemKind,
    recipient: str | None,
    *,
    id: str,
    call_id: str | None = None,
    namespaces: Collection[str] = (),
) -> dict[str, Any]:
    """Make the item for a message that has just begun: in progress, and empty.

    `call_id` is needed for calls; `namespaces` are those of the request's tools.

    >>> new_item(ItemKind.FUNCTION_CALL, "functions.now", id="fc_1", call_id="call_1")["name"]
    'now'
    """
    return _item(kind, recipient, id, call_id, namespaces, "in_progress", None, ())


def item_of_message(
    message: Message,
    kind: ItemKind,
    *,
    id: str,
    call_id: str | None = None,
    namespaces: Collection[str] = (),
    status: ItemStatus = "completed",
    logprobs: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Make the item for a whole message; `logprobs` belong to the message's text.

    >>> message = Message.from_role_and_content("assistant", "Hi!").with_channel("final")
    >>> item_of_message(message, ItemKind.FINAL_ANSWER, id="msg_1")["content"]
    [{'type': 'output_text', 'text': 'Hi!', 'annotations': [], 'logprobs': []}]
    """
    recipient, text = message.recipient, message.text
    return _item(kind, recipient, id, call_id, namespaces, status, text, logprobs)


def items_of_messages(
    messages: Sequence[Message],
    new_id: NewId,
    *,
    custom_tools: Collection[str] = (),
    namespaces: Collection[str] = (),
) -> list[HistoryItem]:
    """Make the items for the messages of a turn, each with its message's tokens."""
    items: list[HistoryItem] = []
    for message in messages:
        kind = item_kind(message.channel, message.recipient, custom_tools=custom_tools)
        item = item_of_message(
            message,
            kind,
            id=new_id(ID_PREFIXES[kind]),
            call_id=new_id("call") if kind.is_call else None,
            namespaces=namespaces,
        )
        tokens = message.sampled_tokens if isinstance(message, SampledMessage) else None
        items.append(HistoryItem(item, tokens))
    return items


def _item(
    kind: ItemKind,
    recipient: str | None,
    id: str,
    call_id: str | None,
    namespaces: Collection[str],
    status: ItemStatus,
    text: str | None,
    logprobs: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Make an item; without a `text` it has no content yet."""
    content: list[dict[str, Any]] = []
    if kind is ItemKind.REASONING:
        if text is not None:
            content.append({"type": "reasoning_text", "text": text})
        return {"type": "reasoning", "id": id, "summary": [], "content": content, "status": status}
    if kind.is_message:
        if text is not None:
            part = {"type": "output_text", "text": text, "annotations": []}
            content.append({**part, "logprobs": [*logprobs]})
        return {
            "type": "message",
            "id": id,
            "status": status,
            "role": "assistant",
            "phase": kind.value,
            "content": content,
        }
    name, namespace = called_name(recipient or "", namespaces)
    call = {
        "id": id,
        "call_id": call_id or id,
        "name": name,
        **({} if namespace is None else {"namespace": namespace}),
    }
    if kind is ItemKind.CUSTOM_TOOL_CALL:
        return {
            "type": kind.value,
            **call,
            "input": custom_tool_input(text or ""),
            "status": status,
        }
    arguments = call_arguments(text or "", is_complete=status == "completed")
    return {"type": "function_call", **call, "arguments": arguments, "status": status}


def server_call_item(recipient: str, *, id: str, status: str, **fields: Any) -> dict[str, Any]:
    """Make the item for a call of a tool that the server runs; `CallItem` lists its `fields`.

    `status` is in_progress, the state while it runs, completed, failed or incomplete.

    >>> item = server_call_item("python", id="ci_1", status="completed", code="1 + 1")
    >>> item["type"], item["code"], item["outputs"]
    ('code_interpreter_call', '1 + 1', None)
    """
    described = call_item(recipient)
    return {"type": described.type, "id": id, "status": status, **described.fields, **fields}
