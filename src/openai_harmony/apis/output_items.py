"""Messages of the model become output items of the Responses API.

===========================  ====================================================================
``analysis``                 ``reasoning``, its text as ``reasoning_text``
``commentary``               a ``message`` of the phase ``commentary``
``final``                    a ``message`` of the phase ``final_answer``
a call on any channel        ``function_call``, or ``custom_tool_call`` of a custom tool
===========================  ====================================================================

A field that the specification lets be missing, and not null, is missing where it says nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from ..conversation.content import TextContent
from ..conversation.messages import Message
from ..sampled_messages import SampledMessage
from .custom_input import custom_tool_input
from .history import HistoryItem, NewId
from .item_kind import ItemKind, what_kind

__all__ = [
    "ID_PREFIXES",
    "ItemStatus",
    "called_name",
    "item_of_message",
    "items_of_messages",
    "message_text",
    "new_item",
]

ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete"]

ID_PREFIXES: Mapping[ItemKind, str] = {
    ItemKind.REASONING: "rs",
    ItemKind.COMMENTARY: "msg",
    ItemKind.FINAL_ANSWER: "msg",
    ItemKind.FUNCTION_CALL: "fc",
    ItemKind.CUSTOM_TOOL_CALL: "ctc",
    ItemKind.WEB_SEARCH_CALL: "ws",
    ItemKind.CODE_INTERPRETER_CALL: "ci",
    ItemKind.MCP_CALL: "mcp",
}
"""How the ids of items begin; those by which calls are answered begin with ``call``."""

NO_ARGUMENTS = "{}"
"""What a call without a body has: clients read the arguments as JSON."""


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
    """Make the item for a whole message; `logprobs` are those of the text of a message.

    >>> message = Message.from_role_and_content("assistant", "Hi!").with_channel("final")
    >>> item_of_message(message, ItemKind.FINAL_ANSWER, id="msg_1")["content"]
    [{'type': 'output_text', 'text': 'Hi!', 'annotations': [], 'logprobs': []}]
    """
    text = message_text(message)
    return _item(kind, message.recipient, id, call_id, namespaces, status, text, logprobs)


def items_of_messages(
    messages: Sequence[Message],
    new_id: NewId,
    *,
    custom_tools: Collection[str] = (),
    namespaces: Collection[str] = (),
) -> list[HistoryItem]:
    """Make the items for the messages of a turn, each with the tokens of its message."""
    return [_history_item(one, new_id, custom_tools, namespaces) for one in messages]


def called_name(recipient: str, namespaces: Collection[str] = ()) -> tuple[str, str | None]:
    """Find the name of a function, and its namespace where it is not `functions`.

    A tool that nobody declared goes by its whole recipient.

    >>> called_name("functions.now"), called_name("files.ls", {"files"}), called_name("python")
    (('now', None), ('ls', 'files'), ('python', None))
    """
    function = recipient.removeprefix("functions.")
    if function and function != recipient:
        return function, None
    # One namespace may be called `a` and another `a.b`.
    for namespace in sorted(namespaces, key=len, reverse=True):
        name = recipient.removeprefix(f"{namespace}.")
        if name and name != recipient:
            return name, namespace
    return recipient, None


def message_text(message: Message) -> str:
    """Return the text of a message."""
    return "".join(item.text for item in message.content if isinstance(item, TextContent))


def _history_item(
    message: Message,
    new_id: NewId,
    custom_tools: Collection[str],
    namespaces: Collection[str],
) -> HistoryItem:
    kind = what_kind(message.channel, message.recipient, custom_tools=custom_tools)
    item = item_of_message(
        message,
        kind,
        id=new_id(ID_PREFIXES[kind]),
        call_id=new_id("call") if kind.is_call else None,
        namespaces=namespaces,
    )
    tokens = message.sampled_tokens if isinstance(message, SampledMessage) else None
    return HistoryItem(item, tokens)


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
    if kind is ItemKind.REASONING:
        content = [] if text is None else [{"type": "reasoning_text", "text": text}]
        return {"type": "reasoning", "id": id, "summary": [], "content": content, "status": status}
    if kind.is_message:
        return {
            "type": "message",
            "id": id,
            "status": status,
            "role": "assistant",
            "phase": kind.value,
            "content": [] if text is None else [_output_text(text, logprobs)],
        }
    return _call(kind, recipient or "", id, call_id or id, namespaces, status, text or "")


def _output_text(text: str, logprobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": [*logprobs]}


def _call(
    kind: ItemKind,
    recipient: str,
    id: str,
    call_id: str,
    namespaces: Collection[str],
    status: ItemStatus,
    body: str,
) -> dict[str, Any]:
    name, namespace = called_name(recipient, namespaces)
    is_custom = kind is ItemKind.CUSTOM_TOOL_CALL
    if not is_custom and status == "completed":
        body = body if body.strip() else NO_ARGUMENTS
    return {
        "type": "custom_tool_call" if is_custom else "function_call",
        "id": id,
        "call_id": call_id,
        "name": name,
        **({} if namespace is None else {"namespace": namespace}),
        **({"input": custom_tool_input(body)} if is_custom else {"arguments": body}),
        "status": status,
    }
