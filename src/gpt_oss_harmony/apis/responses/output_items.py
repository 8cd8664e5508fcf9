"""The items of an answer as the JSON of the Responses API.

===========================  ====================================================================
``analysis``                 ``reasoning``, its text as ``reasoning_text``
``commentary``               a ``message`` of the phase ``commentary``
``final``                    a ``message`` of the phase ``final_answer``
a call on any channel        ``function_call``, or ``custom_tool_call`` of a custom tool
a call of a client's tool    the item of its `ClientTool`, such as ``shell_call``
a call of a server's tool    the item of its `CallItem`, such as ``mcp_call``
===========================  ====================================================================

An empty field is left out if the specification makes it optional but not nullable.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, TypeAlias

from ...conversation.built_in_tools import call_item, is_built_in
from ...conversation.messages import Message
from ...sampled_messages import SampledMessage
from ..client_tools import CLIENT_TOOLS, call_field
from ..items import HistoryItem, ItemBegun, ItemEnded, ItemKind, ItemRules, NewId
from ..reader import item_events

ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete"]

_ID_PREFIXES: Mapping[ItemKind, str] = {
    ItemKind.REASONING: "rs",
    ItemKind.COMMENTARY: "msg",
    ItemKind.FINAL_ANSWER: "msg",
    ItemKind.FUNCTION_CALL: "fc",
    ItemKind.CUSTOM_TOOL_CALL: "ctc",
    ItemKind.MCP_APPROVAL_REQUEST: "mcpr",
}


def id_prefix(begun: ItemBegun) -> str:
    """Return the beginning of an item's id; its `call_id`, if it has one, starts with ``call``."""
    if begun.kind is ItemKind.CLIENT_CALL:
        return CLIENT_TOOLS[begun.name or ""].id_prefix
    return _ID_PREFIXES.get(begun.kind) or call_item(begun.recipient or "").id_prefix


def item_json(
    begun: ItemBegun,
    *,
    id: str,
    status: ItemStatus = "in_progress",
    text: str | None = None,
    part: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Make the item of a text, or of a call that the client answers.

    One that has just begun has no `text` yet. `part` replaces the content part with the text.

    >>> item_json(ItemRules().begin(0, "final", None), id="msg_1", status="completed", text="Hi!")[
    ...     "content"
    ... ]
    [{'type': 'output_text', 'text': 'Hi!', 'annotations': [], 'logprobs': []}]
    """
    kind = begun.kind
    if kind is ItemKind.REASONING:
        content = [] if text is None else [{"type": "reasoning_text", "text": text}]
        return {"type": "reasoning", "id": id, "summary": [], "content": content, "status": status}
    if kind.is_message:
        if part is None and text is not None:
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        return {
            "type": "message",
            "id": id,
            "status": status,
            "role": "assistant",
            "phase": kind.value,
            "content": [] if part is None else [part],
        }
    call = {
        "id": id,
        "call_id": begun.call_id or id,
        "name": begun.name,
        **({} if begun.namespace is None else {"namespace": begun.namespace}),
    }
    if kind is ItemKind.CLIENT_CALL:
        tool = CLIENT_TOOLS[begun.name or ""]
        made = call_field(tool, text or "")
        if made is not None:
            call_id = begun.call_id or id
            return {
                "type": tool.item,
                "id": id,
                "call_id": call_id,
                tool.field: made,
                "status": status,
                **tool.more,
            }
        kind = ItemKind.FUNCTION_CALL  # the client gets what the model wrote
    field = "input" if kind is ItemKind.CUSTOM_TOOL_CALL else "arguments"
    return {"type": kind.value, **call, field: text or "", "status": status}


def items_of_messages(
    messages: Sequence[Message],
    new_id: NewId,
    *,
    custom_tools: Collection[str] = (),
    text_tools: Collection[str] = (),
    client_tools: Collection[str] = (),
    namespaces: Collection[str] = (),
) -> list[HistoryItem]:
    """Make the items for the messages of a turn, each with its message's tokens."""
    rules = ItemRules(custom_tools, text_tools, client_tools=client_tools, namespaces=namespaces)
    items: list[HistoryItem] = []
    for event in item_events(messages, rules, new_id):
        if isinstance(event, ItemBegun):
            begun = event
        elif isinstance(event, ItemEnded):
            id, text = new_id(id_prefix(begun)), event.text
            item = item_json(begun, id=id, status="completed", text=text)
            items.append(HistoryItem(item, sampled_tokens(event.message)))
    return items


def sampled_tokens(message: Message) -> tuple[int, ...] | None:
    """Return the tokens of a message as they were sampled, if they are known."""
    return message.sampled_tokens if isinstance(message, SampledMessage) else None


# Calls of the server's tools


def server_call_item(recipient: str, *, id: str, status: str, **fields: Any) -> dict[str, Any]:
    """Make the item for a call of a tool that the server runs; `CallItem` lists its `fields`.

    `status` is in_progress, the state while it runs, completed, failed or incomplete.

    >>> item = server_call_item("python", id="ci_1", status="completed", code="1 + 1")
    >>> item["type"], item["code"], item["outputs"]
    ('code_interpreter_call', '1 + 1', None)
    """
    described = call_item(recipient)
    return {"type": described.type, "id": id, "status": status, **described.fields, **fields}


def approval_item(id: str, label: str, name: str, arguments: str) -> dict[str, Any]:
    """Make the item that requests an approval."""
    fields = {"id": id, "server_label": label, "name": name, "arguments": arguments}
    return {"type": ItemKind.MCP_APPROVAL_REQUEST.value, **fields}


def mcp_fields(recipient: str) -> dict[str, Any]:
    """Return the fields of a call that are in its recipient; none for a built-in tool.

    >>> mcp_fields("files.list"), mcp_fields("browser.open")
    ({'server_label': 'files', 'name': 'list'}, {})
    """
    if is_built_in(recipient):
        return {}
    label, _, name = recipient.partition(".")
    return {"server_label": label, "name": name}


# Summaries

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
