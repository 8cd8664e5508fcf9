"""Messages appended to a source in the format of the source, so that its other fields stay.

A harmony conversation gets the messages as they are. A request of either API gets what a client of
this API would append: the assistant's message or items, the user's question, a tool's result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import count, groupby
from typing import Any

from typing_extensions import TypedDict  # of Python 3.12, which pydantic needs

from ..apis.chat.fold import chat_message_of
from ..apis.items import NewId
from ..apis.requested_tools import RequestedTools
from ..apis.responses.output_items import items_of_messages
from ..conversation.messages import Message, Role
from ..errors import ConversationError
from .source import read_source
from .wire import AppendBody, Form

_CHAT_FIELDS = ("role", "content", "reasoning", "tool_calls")


class Appended(TypedDict):
    """The source with the messages."""

    form: Form
    source: dict[str, Any]


def appended(body: AppendBody) -> Appended:
    """Append messages; raises `ConversationError`, which names the field at fault."""
    form, _, _, _, tools = read_source(body)
    source = {"messages": body.source} if isinstance(body.source, list) else body.source
    if tools is None:
        return {"form": form, "source": {**source, "messages": source["messages"] + body.messages}}
    name = "messages" if form == "chat" else "input"
    entries = source[name]
    if isinstance(entries, str):
        entries = [_question(entries)] if entries else []
    entries = list(entries)
    write = _chat_messages if form == "chat" else _items
    messages = [Message.from_dict(message) for message in body.messages]
    for role, group in groupby(messages, key=lambda message: message.author.role):
        if role is Role.ASSISTANT:
            entries += write(list(group), _new_ids(entries), tools)
        else:
            entries += [_other(message, entries, _RESULTS[form]) for message in group]
    return {"form": form, "source": {**source, name: entries}}


def _chat_messages(
    messages: Sequence[Message], new_id: NewId, tools: RequestedTools
) -> list[dict[str, Any]]:
    message = chat_message_of(messages, new_id, custom_tools=tools.custom, text_tools=tools.texts)
    return [{name: message[name] for name in _CHAT_FIELDS if message.get(name) is not None}]


def _items(
    messages: Sequence[Message], new_id: NewId, tools: RequestedTools
) -> list[dict[str, Any]]:
    items = items_of_messages(
        messages, new_id, custom_tools=tools.custom, namespaces=tools.namespaces
    )
    return [dict(entry.item) for entry in items]


def _question(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _other(
    message: Message, entries: Sequence[Any], result: Callable[[Sequence[Any], str], dict[str, Any]]
) -> dict[str, Any]:
    text = message.text
    if message.author.role is Role.USER:
        return _question(text)
    if message.author.role is Role.TOOL:
        return result(entries, text)
    raise ConversationError(
        "append messages of the user, the assistant or a tool", field="messages"
    )


def _chat_result(entries: Sequence[Any], text: str) -> dict[str, Any]:
    calls = [
        call["id"]
        for entry in entries
        for call in entry.get("tool_calls") or ()
        if entry.get("role") == "assistant"
    ]
    answered = {entry.get("tool_call_id") for entry in entries}
    return {"role": "tool", "tool_call_id": _open_call(calls, answered), "content": text}


def _result_item(entries: Sequence[Any], text: str) -> dict[str, Any]:
    calls = {
        entry["call_id"]: entry["type"]
        for entry in entries
        if entry.get("type") in ("function_call", "custom_tool_call")
    }
    answered = {
        entry.get("call_id") for entry in entries if str(entry.get("type")).endswith("_output")
    }
    call_id = _open_call(list(calls), answered)
    return {"type": f"{calls[call_id]}_output", "call_id": call_id, "output": text}


_RESULTS: Mapping[Form, Callable[[Sequence[Any], str], dict[str, Any]]] = {
    "chat": _chat_result,
    "responses": _result_item,
}


def _open_call(calls: Sequence[str], answered: set[Any]) -> str:
    """Return the id of the last call without a result."""
    for call_id in reversed(calls):
        if call_id not in answered:
            return call_id
    raise ConversationError("there is no call without a result", field="messages")


def _new_ids(entries: Sequence[Any]) -> NewId:
    """Number new ids, so that the same turn gives the same link; no id is used twice."""
    written = json.dumps(entries)
    numbers = count(1)

    def new_id(prefix: str) -> str:
        names = (f"{prefix}_{number}" for number in numbers)
        return next(name for name in names if f'"{name}"' not in written)

    return new_id
