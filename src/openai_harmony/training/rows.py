"""One row of a data set to a conversation: harmony, Chat Completions or ShareGPT.

ShareGPT is rewritten as Chat Completions. Data sets leave out what follows from the order, so rows
of Chat Completions are completed to requests as the API has them. Columns have one type and tools
have many, so tools, arguments and whole conversations may be JSON as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic import TypeAdapter, ValidationError

from ..apis.chat_input import REASONING_FIELDS, conversation_from_chat, is_chat
from ..conversation.content import TextContent
from ..conversation.json_field import JsonField
from ..conversation.messages import Conversation, Message, Role
from ..errors import ConversationError

__all__ = [
    "ReadRow",
    "RowForm",
    "chat_conversation",
    "detect_form",
    "read_row",
    "without_nulls",
]

RowForm: TypeAlias = Literal["harmony", "chat", "sharegpt"]


class ReadRow(NamedTuple):
    """A conversation and its form; `weights` has the messages whose weight the row gives."""

    form: RowForm
    conversation: Conversation
    weights: dict[int, float]


def read_row(raw: object, *, form: RowForm | None = None, start_date: str | None = None) -> ReadRow:
    """Read a row of parsed JSON; the form is detected unless it is given.

    `start_date` is the date in the system message of a chat. Raises `ConversationError`, which
    names the field at fault.

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
    """Return the form of a row by its messages; raises `ConversationError` where it has none."""
    field = JsonField(row)
    if row.get("conversations") is not None:
        first = next(iter(parsed_json(field["conversations"]).items()), None)
        if first is None or "from" in first.object():
            return "sharegpt"
        raise field["conversations"].error(
            "messages without 'from'; name a list of role and content 'messages'"
        )
    if row.get("messages") is None:
        names = ", ".join(map(repr, list(row)[:8]))
        raise ConversationError(
            f"neither 'messages' nor 'conversations' among the fields {names or '(none)'}"
        )
    return "chat" if is_chat(parsed_json(field["messages"]).value) else "harmony"


# Values of fields


def parsed_json(field: JsonField) -> JsonField:
    """Parse a field that is text; anything else stays as it is.

    Raises `ConversationError` where the text is not JSON.
    """
    if not isinstance(field.value, str):
        return field
    if not field.value.strip():
        return JsonField(None, field.path)
    try:
        return JsonField(json.loads(field.value), field.path)
    except (ValueError, RecursionError) as error:
        raise field.error(
            f"text that is no JSON ({error!s:.100}); found {field.value!r:.60}"
        ) from None


def json_text(value: Any) -> str:
    """Write a value as the JSON that a model reads, as ``tojson`` of chat templates does."""
    return json.dumps(value, ensure_ascii=False)


def without_nulls(value: Any) -> Any:
    """Leave out the fields of objects that are null: in columns, a missing field is null.

    >>> without_nulls([{"city": "Rome", "unit": None}])
    [{'city': 'Rome'}]
    """
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def read_weight(weight: JsonField) -> float:
    """Read the weight of a message; raises `ConversationError` for anything but such a number."""
    if isinstance(weight.value, bool) or not isinstance(weight.value, (int, float)):
        raise weight.unexpected("a number")
    if not 0 <= weight.value < float("inf"):
        raise weight.unexpected("a number of 0 or more")
    return float(weight.value)


# Harmony

_MESSAGES = TypeAdapter(list[Message])


def harmony_conversation(row: JsonField) -> tuple[Conversation, dict[int, float]]:
    """Read a row in harmony's own JSON; return the weights of messages, too, by their index.

    All messages are validated in one go. Where that fails they are read one by one, which takes
    twice as long, accepts a few more spellings, and names the field at fault.
    """
    items = parsed_json(row["messages"])
    try:
        fields = []
        for raw in items.value:
            content = raw["content"]
            if isinstance(content, str):
                content = [TextContent(text=content)]
            else:
                for part in content:
                    part["type"]  # a part without a type could be taken for another content
            fields.append({**raw, "author": raw, "content": content})  # others are ignored
        messages = _MESSAGES.validate_python(fields)
    except (LookupError, TypeError, AttributeError, ValidationError):
        messages = []
        for item in items.items():
            try:
                messages.append(Message.from_dict(dict(item.object())))
            except ConversationError as error:
                path = f"{item.path}.{error.field}" if error.field else item.path
                raise ConversationError(error.problem, field=path) from error
    weights = {
        index: read_weight(JsonField(raw["weight"], f"{items.path}[{index}].weight"))
        for index, raw in enumerate(items.value)
        if raw.get("weight") is not None
    }
    return Conversation.from_messages(messages), weights


# Chat Completions

_PASSED_ON = ("reasoning_effort", "response_format")


def chat_conversation(
    row: JsonField, start_date: str | None
) -> tuple[Conversation, dict[int, float]]:
    """Read a row of Chat Completions; return the weights of messages, too, by their index.

    Rows leave out what follows from the order: ids of calls, the ``type`` of tools. Arguments and
    tool results are objects as often as text.
    """
    request: dict[str, Any] = {name: row.object().get(name) for name in _PASSED_ON}
    calls = _OpenCalls()
    request["messages"] = [
        _chat_message(message, calls) for message in parsed_json(row["messages"]).items()
    ]
    tools = parsed_json(row["tools"])
    request["tools"] = [_chat_tool(parsed_json(tool)) for tool in tools.optional_items()]
    conversation = conversation_from_chat(request, conversation_start_date=start_date)
    return conversation, _chat_weights(request["messages"], conversation)


class _OpenCalls:
    """Calls without a result yet, by id, so that results without an id find theirs."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._count = 0

    def add(self, call_id: str | None, name: str) -> str:
        """Enter a call; return its id, a new one where it has none."""
        self._count += 1
        call_id = call_id or f"call_{self._count}"
        self._names[call_id] = name
        return call_id

    def close(self, call_id: str | None, name: str | None) -> str | None:
        """Return the call of a result: by its id, else the first of that name, else the first."""
        if call_id is None:
            same = (open_id for open_id, other in self._names.items() if other == name)
            call_id = next(same, next(iter(self._names), None))
        if call_id is not None:
            self._names.pop(call_id, None)
        return call_id


def _chat_message(message: JsonField, calls: _OpenCalls) -> Mapping[str, Any]:
    """Complete a message: calls get ids and text as arguments, results the id of their call."""
    fields = message.object()
    role = fields.get("role")
    if role == Role.ASSISTANT.value and fields.get("tool_calls"):
        tool_calls = parsed_json(message["tool_calls"]).items()
        return {**fields, "tool_calls": [_chat_call(parsed_json(c), calls) for c in tool_calls]}
    if role == Role.TOOL.value:
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


def _chat_call(call: JsonField, calls: _OpenCalls) -> dict[str, Any]:
    fields = call.object()
    if fields.get("type") == "custom":
        return {**fields, "id": calls.add(call["id"].optional_text(), "")}
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


def _chat_tool(tool: JsonField) -> dict[str, Any]:
    fields = dict(tool.object())
    nested = tool["function"]
    if nested.is_null and fields.get("type", "function") != "function":
        return fields  # of another kind: custom, or one that the model cannot have
    function = dict((tool if nested.is_null else nested).object())
    function.pop("type", None)
    function["parameters"] = parsed_json(
        JsonField(function.get("parameters"), f"{tool.path}.parameters")
    ).value
    return {"type": "function", "function": function}


def _chat_weights(
    messages: list[Mapping[str, Any]], conversation: Conversation
) -> dict[int, float]:
    """Return the weights of harmony messages: each has that of the chat message it comes from."""
    if not any(message.get("weight") is not None for message in messages):
        return {}
    counts = []  # of harmony messages, for each chat message
    for message in messages:
        role = message.get("role")
        if role == Role.ASSISTANT.value:
            reasons = any(message.get(name) for name in REASONING_FIELDS)
            calls = len(message.get("tool_calls") or ())
            speaks = bool(message.get("content") or message.get("refusal"))
            counts.append(reasons + calls + (speaks or not (reasons or calls)))
        else:
            counts.append(int(role in (Role.USER.value, Role.TOOL.value)))
    start = len(conversation.messages) - sum(counts)
    weights: dict[int, float] = {}
    for index, (message, count) in enumerate(zip(messages, counts, strict=True)):
        weight = JsonField(message.get("weight"), f"messages[{index}].weight")
        if not weight.is_null:
            weights.update(dict.fromkeys(range(start, start + count), read_weight(weight)))
        start += count
    return weights


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

_THOUGHT = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_RESULT = re.compile(r"<tool_response>(.*?)</tool_response>", re.DOTALL)


def sharegpt_as_chat(row: JsonField) -> dict[str, Any]:
    """Write a row as Chat Completions; raises `ConversationError` where it cannot be read.

    ``conversations`` has messages of ``from`` and ``value``; ``system`` and ``tools`` may stand
    beside it. Marks of other models' formats are read: reasoning in ``<think>``, calls in
    ``<tool_call>``, results in ``<tool_response>``.
    """
    messages: list[dict[str, Any]] = []
    system = row["system"].optional_text()
    if system:
        messages.append({"role": "system", "content": system})
    for message in parsed_json(row["conversations"]).items():
        weight = message.object().get("weight")
        for chat_message in _sharegpt_messages(message):
            messages.append(chat_message if weight is None else {**chat_message, "weight": weight})
    return {**row.object(), "messages": messages, "conversations": None}


def _sharegpt_messages(message: JsonField) -> Iterator[dict[str, Any]]:
    role = _SHAREGPT_ROLES.get(message["from"].text())
    value = message["value"]
    if role is None:
        raise message["from"].unexpected(f"one of {', '.join(_SHAREGPT_ROLES)}")
    if role == "assistant":
        yield _sharegpt_answer(value)
    elif role == "call":
        calls = parsed_json(value).value
        yield {"role": "assistant", "tool_calls": calls if isinstance(calls, list) else [calls]}
    elif role != "tool":
        yield {"role": role, "content": value.text()}
    elif isinstance(value.value, str) and (results := _RESULT.findall(value.value)):
        for text in results:
            yield {"role": "tool", "content": text.strip(), **_sharegpt_result(text)}
    else:
        yield {"role": "tool", "content": value.value}


def _sharegpt_answer(value: JsonField) -> dict[str, Any]:
    """Take reasoning and calls out of the text of an assistant."""
    text = value.text()
    message: dict[str, Any] = {"role": "assistant"}
    thought = _THOUGHT.match(text)
    if thought:
        message["reasoning"] = thought[1].strip()
        text = text[thought.end() :]
    calls = [parsed_json(JsonField(match[1], value.path)).value for match in _CALL.finditer(text)]
    if calls:
        message["tool_calls"] = calls
        text = _CALL.sub("", text).strip()
    if text or not (thought or calls):
        message["content"] = text
    return message


def _sharegpt_result(text: str) -> dict[str, Any]:
    """Read a result of the form ``{"name": ..., "content": ...}``; nothing for any other text."""
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
