"""Rows of Chat Completions and ShareGPT, completed to requests of the API.

ShareGPT is rewritten as Chat Completions. Data sets often leave out the ids of calls, which follow
from the order, and the types of tools. A column has only one type, so tools, arguments and whole
conversations may be JSON text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..apis.chat_input import REASONING_FIELDS
from ..apis.conversation_builder import PART_TYPES
from ..conversation.json_field import JsonField
from ..conversation.messages import Role

__all__ = [
    "WEIGHT_FIELDS",
    "completed_chat",
    "parsed_json",
    "read_weight",
    "sharegpt_as_chat",
    "unlearnable",
]


def parsed_json(field: JsonField) -> JsonField:
    """Parse a field that is text; leave any other value unchanged.

    Raises `ConversationError` if the text is not JSON.
    """
    if not isinstance(field.value, str):
        return field
    if not field.value.strip():
        return JsonField(None, field.path)
    try:
        return JsonField(json.loads(field.value), field.path)
    except (ValueError, RecursionError) as error:
        raise field.error(
            f"expected a value or its JSON as text, found {field.value!r:.60} ({error!s:.100})"
        ) from None


def json_text(value: Any) -> str:
    """Write a value as JSON for the model, like ``tojson`` in chat templates."""
    return json.dumps(value, ensure_ascii=False)


# Weights

_FLAGS = {"train": True, "training": True, "trainable": True, "loss": True, "masked": False}
"""Boolean fields of other trainers, and the value that chooses a message."""

_CHARACTERS = "train_detail"
"""Axolotl's choice of single characters, which weights of messages cannot express."""

WEIGHT_FIELDS = frozenset({"weight", *_FLAGS, _CHARACTERS})
"""The fields of a message that `read_weight` reads."""


def read_weight(message: JsonField) -> float | None:
    """Return the weight of a message, or None without one.

    The weight is the field ``weight``, or 0 or 1 from a field of other trainers: ``train``,
    ``training`` (Axolotl), ``trainable`` (tinker-cookbook), ``loss`` (ms-swift), ``masked``
    (torchtune). Raises `ConversationError` for other values, and for contradicting fields.
    """
    fields = message.object()
    if WEIGHT_FIELDS.isdisjoint(fields):
        return None
    if fields.get(_CHARACTERS):
        raise message[_CHARACTERS].error("weights of single characters cannot be read; remove it")
    weight = message["weight"]
    result: float | None = None
    if not weight.is_null:
        if isinstance(weight.value, bool) or not isinstance(weight.value, (int, float)):
            raise weight.unexpected("a number")
        if not 0 <= weight.value < float("inf"):
            raise weight.unexpected("a number of 0 or more")
        result = float(weight.value)
    for name, chosen in _FLAGS.items():
        flag = fields.get(name)
        if flag is None:
            continue
        if not isinstance(flag, bool):
            raise message[name].unexpected("true or false")
        if result is not None and (result > 0) != (flag is chosen):
            raise message[name].error("another field of the message contradicts it; keep one")
        result = float(flag is chosen) if result is None else result
    return result


# Chat Completions

_PASSED_ON = ("reasoning_effort", "response_format")


def completed_chat(row: JsonField) -> dict[str, Any]:
    """Complete a row to a request with the same messages.

    Reasoning and calls inside other models' marks in an answer's text (``<think>`` and
    ``<tool_call>``) are moved to their fields.
    """
    request: dict[str, Any] = {name: row.object().get(name) for name in _PASSED_ON}
    calls = _OpenCalls()
    request["messages"] = [
        _completed_message(message, calls) for message in parsed_json(row["messages"]).items()
    ]
    tools = parsed_json(row["tools"])
    request["tools"] = [_completed_tool(parsed_json(tool)) for tool in tools.optional_items()]
    return request


class _OpenCalls:
    """The calls without a result, by id; used to match results without an id."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._count = 0

    def add(self, call_id: str | None, name: str) -> str:
        """Add a call; return its id, or a new id if it has none."""
        self._count += 1
        call_id = call_id or f"call_{self._count}"
        self._names[call_id] = name
        return call_id

    def close(self, call_id: str | None, name: str | None) -> str | None:
        """Return a result's call: the one with its id, else the first of that name or of all."""
        if call_id is None:
            same = (open_id for open_id, other in self._names.items() if other == name)
            call_id = next(same, next(iter(self._names), None))
        if call_id is not None:
            self._names.pop(call_id, None)
        return call_id


def _completed_message(message: JsonField, calls: _OpenCalls) -> Mapping[str, Any]:
    """Complete a message: calls get ids and arguments as text, results the id of their call."""
    fields = message.object()
    role = fields.get("role")
    if role is None:
        names = ", ".join(map(repr, list(fields)[:8])) or "none"
        raise message["role"].error(
            f"the field is missing; the fields of the message are {names}; a message needs 'role' "
            "and 'content'"
        )
    if role == Role.ASSISTANT.value:
        content = fields.get("content")
        if isinstance(content, str) and "<" in content:
            message = JsonField(_without_marks(message), message.path)
            fields = message.object()
        if fields.get("tool_calls"):
            made = parsed_json(message["tool_calls"]).items()
            return {**fields, "tool_calls": [_completed_call(parsed_json(c), calls) for c in made]}
    elif role == Role.TOOL.value:
        content = fields.get("content")
        if isinstance(content, list):
            is_content = all(isinstance(part, Mapping) and "type" in part for part in content)
        else:
            is_content = isinstance(content, str)
        return {
            **fields,
            "tool_call_id": calls.close(
                message["tool_call_id"].optional_text(), message["name"].optional_text()
            ),
            "content": content if is_content else json_text(content),
        }
    return fields


def _completed_call(call: JsonField, calls: _OpenCalls) -> Mapping[str, Any]:
    function = call if call["function"].is_null else call["function"]
    name = function["name"].text()
    arguments = function["arguments"].value
    if not isinstance(arguments, str):
        arguments = json_text({} if arguments is None else arguments)
    return {
        "id": calls.add(call["id"].optional_text(), name),
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _completed_tool(tool: JsonField) -> dict[str, Any]:
    fields = dict(tool.object())
    nested = tool["function"]
    if nested.is_null and fields.get("type", "function") != "function":
        return fields  # of another type: custom, or one that the model cannot have
    function = dict((tool if nested.is_null else nested).object())
    function.pop("type", None)
    function["parameters"] = parsed_json(
        JsonField(function.get("parameters"), f"{tool.path}.parameters")
    ).value
    return {"type": "function", "function": function}


# Marks of other models in the text of an answer

_THOUGHT = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_MARK = re.compile(r"</?(?:think|tool_call)>")


def _without_marks(message: JsonField) -> Mapping[str, Any]:
    """Move reasoning and calls out of a text, unless the message also has fields for them."""
    fields = message.object()
    text: str = fields["content"]
    taken: dict[str, Any] = {}
    thought = _THOUGHT.match(text)
    if thought and not any(fields.get(name) for name in REASONING_FIELDS):
        taken["reasoning"] = thought[1].strip()
        text = text[thought.end() :]
    path = f"{message.path}.content"
    made = [] if fields.get("tool_calls") else _CALL.findall(text)
    if made:
        taken["tool_calls"] = [parsed_json(JsonField(call, path)).value for call in made]
        text = _CALL.sub("", text).strip()
    return {**fields, **taken, "content": text} if taken else fields


def unlearnable(message: Mapping[str, Any]) -> str | None:
    """Return the reason why a completed message must not be trained on, or None."""
    if message["role"] != Role.ASSISTANT.value:
        return None  # it never is
    content = message.get("content")
    texts = [content] if isinstance(content, str) else []
    for part in content if isinstance(content, list) else ():
        if part["type"] not in PART_TYPES:
            return f"an assistant's content part of the type {part['type']!r:.40} cannot be learned"
        texts.append(part.get("text") or "")
    mark = next(filter(None, (_MARK.search(text) for text in texts if "<" in text)), None)
    if mark is None:
        return None
    return f"{mark[0]} in an assistant's text would be learned as text; put what it marks in fields"


# ShareGPT

_SHAREGPT_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "developer",
    "tool": "tool",
    "observation": "tool",
    "function_response": "tool",
    "tool_response": "tool",
    "function_call": "call",
    "tool_call": "call",
}

_RESULT = re.compile(r"<tool_response>(.*?)</tool_response>", re.DOTALL)


def sharegpt_as_chat(row: JsonField) -> dict[str, Any]:
    """Convert a row to Chat Completions; raises `ConversationError` if it cannot be read.

    ``conversations`` is a list of messages with ``from`` and ``value``; the row may also have
    ``system`` and ``tools``. Results in ``<tool_response>`` become separate messages.
    """
    messages: list[dict[str, Any]] = []
    system = row["system"].optional_text()
    if system:
        messages.append({"role": "system", "content": system})
    for message in parsed_json(row["conversations"]).items():
        fields = message.object()
        weights = {name: fields[name] for name in WEIGHT_FIELDS & fields.keys()}
        messages += ({**chat_message, **weights} for chat_message in _sharegpt_messages(message))
    return {**row.object(), "messages": messages, "conversations": None}


def _sharegpt_messages(message: JsonField) -> Iterator[dict[str, Any]]:
    role = _SHAREGPT_ROLES.get(message["from"].text())
    value = message["value"]
    if role is None:
        raise message["from"].unexpected(f"one of {', '.join(_SHAREGPT_ROLES)}")
    if role == "call":
        calls = parsed_json(value).value
        yield {"role": "assistant", "tool_calls": calls if isinstance(calls, list) else [calls]}
    elif role != "tool":
        yield {"role": role, "content": value.text()}
    elif isinstance(value.value, str) and (results := _RESULT.findall(value.value)):
        for text in results:
            yield {"role": "tool", "content": text.strip(), **_sharegpt_result(text)}
    else:
        yield {"role": "tool", "content": value.value}


def _sharegpt_result(text: str) -> dict[str, Any]:
    """Read a result of the form ``{"name": ..., "content": ...}``; empty for any other text."""
    try:
        result = parsed_json(JsonField(text)).value
    except ValueError:
        return {}
    if not isinstance(result, dict) or set(result) != {"name", "content"}:
        return {}
    content = result["content"]
    return {
        "name": result["name"],
        "content": content if isinstance(content, str) else json_text(content),
    }
