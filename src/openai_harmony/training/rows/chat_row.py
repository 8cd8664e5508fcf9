"""A row in the form of Chat Completions, as data sets write it, to a request as the API has it.

Data sets leave out what can be told from the order: ids of calls, the ``type`` of tools. Arguments
and tool results are objects there as often as text, and tools may be JSON as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...apis.chat_messages import conversation_from_chat
from ...conversation.json_field import JsonField
from ...conversation.messages import Conversation, Role
from .embedded_json import as_text, parsed
from .row_weight import read_weight

__all__ = ["chat_conversation", "chat_request"]

_PASSED_ON = ("reasoning_effort", "response_format")
_REASONING = ("reasoning", "reasoning_content", "thinking")


def chat_conversation(
    row: JsonField, start_date: str | None
) -> tuple[Conversation, dict[int, float]]:
    """Read a row; return the weights of messages, too, by their index."""
    request = chat_request(row)
    conversation = conversation_from_chat(request, conversation_start_date=start_date)
    return conversation, _weights(request["messages"], conversation)


def chat_request(row: JsonField) -> dict[str, Any]:
    """Fill in what a row leaves out of a request."""
    request: dict[str, Any] = {name: row.object().get(name) for name in _PASSED_ON}
    calls = _Calls()
    request["messages"] = [_message(message, calls) for message in parsed(row["messages"]).items()]
    tools = parsed(row["tools"])
    request["tools"] = [_tool(parsed(tool)) for tool in tools.optional_items()]
    return request


class _Calls:
    """Calls without a result yet, so that results without an id find theirs: id to name."""

    def __init__(self) -> None:
        self._open: dict[str, str] = {}
        self._made = 0

    def add(self, call_id: str | None, name: str) -> str:
        """Enter a call; return its id, a new one where it has none."""
        self._made += 1
        call_id = call_id or f"call_{self._made}"
        self._open[call_id] = name
        return call_id

    def answered(self, call_id: str | None, name: str | None) -> str | None:
        """Find the call of a result: by its id, else the first of that name, else the first."""
        if call_id is None:
            same = (known for known, other in self._open.items() if other == name)
            call_id = next(same, next(iter(self._open), None))
        if call_id is not None:
            self._open.pop(call_id, None)
        return call_id


def _message(message: JsonField, calls: _Calls) -> Mapping[str, Any]:
    fields = message.object()
    role = fields.get("role")
    if role == Role.ASSISTANT.value and fields.get("tool_calls"):
        tool_calls = parsed(message["tool_calls"]).items()
        return {**fields, "tool_calls": [_call(parsed(call), calls) for call in tool_calls]}
    if role == Role.TOOL.value:
        content = fields.get("content")
        return {
            **fields,
            "tool_call_id": calls.answered(
                message["tool_call_id"].optional_text(), message["name"].optional_text()
            ),
            "content": content if _is_content(content) else as_text(content),
        }
    return fields


def _is_content(content: object) -> bool:
    """Whether a content is text or a list of parts, and not what a tool returned as it is."""
    if isinstance(content, list):
        return all(isinstance(part, Mapping) and "type" in part for part in content)
    return isinstance(content, str)


def _call(call: JsonField, calls: _Calls) -> dict[str, Any]:
    fields = call.object()
    if fields.get("type") == "custom":
        return {**fields, "id": calls.add(call["id"].optional_text(), "")}
    function = call if call["function"].is_null else call["function"]
    name = function["name"].text()
    arguments = function["arguments"].value
    if not isinstance(arguments, str):
        arguments = as_text({} if arguments is None else arguments)
    return {
        "id": calls.add(call["id"].optional_text(), name),
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _tool(tool: JsonField) -> dict[str, Any]:
    fields = dict(tool.object())
    inner = tool["function"]
    if inner.is_null and fields.get("type", "function") != "function":
        return fields  # of another kind: custom, or one that the model cannot have
    function = dict((tool if inner.is_null else inner).object())
    function.pop("type", None)
    function["parameters"] = parsed(
        JsonField(function.get("parameters"), f"{tool.place}.parameters")
    ).value
    return {"type": "function", "function": function}


def _weights(messages: list[Mapping[str, Any]], conversation: Conversation) -> dict[int, float]:
    """Find the weights of harmony messages: each has that of the message that it was a part of."""
    if not any(message.get("weight") is not None for message in messages):
        return {}
    parts = [_parts(message) for message in messages]
    at = len(conversation.messages) - sum(parts)
    weights: dict[int, float] = {}
    for place, (message, count) in enumerate(zip(messages, parts, strict=True)):
        weight = JsonField(message.get("weight"), f"messages[{place}].weight")
        if not weight.is_null:
            weights.update(dict.fromkeys(range(at, at + count), read_weight(weight)))
        at += count
    return weights


def _parts(message: Mapping[str, Any]) -> int:
    """Count the harmony messages that a message becomes."""
    role = message.get("role")
    if role != Role.ASSISTANT.value:
        return int(role in (Role.USER.value, Role.TOOL.value))
    reasons = any(message.get(name) for name in _REASONING)
    calls = len(message.get("tool_calls") or ())
    said = bool(message.get("content") or message.get("refusal"))
    return reasons + calls + (said or not (reasons or calls))
