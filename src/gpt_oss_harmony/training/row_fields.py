"""The fields of a row that are not in its examples, so that a report can count them.

Each field of a row is rendered, or sets a weight or a date, or is counted here under its name, or
the row is rejected. Empty fields (null, an empty text, list or object) say nothing, and are not
counted. Names leave out indices: ``messages[].name``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ..apis.chat_input import REASONING_FIELDS
from ..apis.conversation_builder import REASONING_TYPES, content_texts
from ..conversation.json_field import JsonField
from .chat_rows import WEIGHT_FIELDS, parsed_json, template_arguments

__all__ = ["unused_chat_fields", "unused_harmony_fields"]

_NOTHING: tuple[Any, ...] = (None, "", [], {})

_INSTRUCTIONS = frozenset({"role", "content"})
_RESULT = frozenset({"role", "content", "tool_call_id"})
_ANSWER = frozenset(
    {"role", "content", "refusal", "tool_calls", "function_call", "channel", *WEIGHT_FIELDS}
)


def _names(fields: Mapping[str, Any], used: Collection[str], path: str = "") -> Iterator[str]:
    """Yield the names of fields with a value that are not `used`."""
    for name, value in fields.items():
        if name not in used and value not in _NOTHING:
            yield f"{path}{name}"


# Chat Completions

_CHAT_ROW = frozenset({"messages", "tools", "functions", "reasoning_effort", "weight"})
_TEMPLATE = frozenset({"reasoning_effort", "model_identity", "builtin_tools"})


def unused_chat_fields(
    row: Mapping[str, Any], container: str = "messages", date_field: str | None = None
) -> list[str]:
    """Name the fields of a row of Chat Completions that its examples do not have.

    `container` is the name of the messages in the original row.

    >>> question = {"role": "user", "content": "hi", "name": "Ann"}
    >>> unused_chat_fields({"messages": [question], "id": 7})
    ['id', 'messages[].name']
    """
    used = {*_CHAT_ROW, "model_identity", "builtin_tools", "chat_template_kwargs"}
    if date_field is not None:
        used.add(date_field)
    found: list[str] = []
    for name in _names(row, used):
        if name == "response_format":
            found += _unused_format(row[name])
        elif name == "reasoning" and isinstance(row[name], Mapping):
            found += _names(row[name], {"effort"}, "reasoning.")
        else:
            found.append(name)
    arguments = template_arguments(JsonField(row)).object()
    found += _names(arguments, _TEMPLATE, "chat_template_kwargs.")
    for tool in parsed_json(JsonField(row.get("tools"), "tools")).optional_items():
        found += _unused_of_tool(parsed_json(tool).object(), "tools[].")
    for tool in parsed_json(JsonField(row.get("functions"), "functions")).optional_items():
        found += _unused_of_tool(parsed_json(tool).object(), "functions[].")
    calls: dict[str, str] = {}
    messages = parsed_json(JsonField(row.get("messages"), "messages"))
    for message in messages.optional_items():
        found += _unused_of_message(message.object(), f"{container}[].", calls)
    return found


def _unused_format(requested: Any) -> Iterator[str]:
    """Name the unused fields of a format: the prompt contains a named schema, and nothing else."""
    if not isinstance(requested, Mapping) or requested.get("type") == "text":
        return
    if requested.get("type") != "json_schema":
        yield "response_format"
        return
    nested = requested.get("json_schema")
    fields = nested if isinstance(nested, Mapping) else requested
    if fields is not requested:
        yield from _names(requested, {"type", "json_schema"}, "response_format.")
    yield from _names(
        fields, {"type", "name", "schema", "description"}, "response_format.json_schema."
    )


def _unused_of_message(
    fields: Mapping[str, Any], path: str, calls: dict[str, str]
) -> Iterator[str]:
    role, content = fields.get("role"), fields.get("content")
    if role == "assistant":
        yield from _names(fields, _ANSWER | {*REASONING_FIELDS, "reasoning_details"}, path)
        yield from _unused_reasoning(fields, path)
        refusal = fields.get("refusal")
        if refusal and content:
            yield f"{path}refusal"
        made = parsed_json(JsonField(fields.get("tool_calls"), "tool_calls"))
        for call in made.optional_items():
            yield from _unused_of_call(parsed_json(call).object(), f"{path}tool_calls[].", calls)
        if isinstance(called := fields.get("function_call"), Mapping):
            yield from _names(called, {"name", "arguments"}, f"{path}function_call.")
    elif role in ("tool", "function"):
        used = _RESULT
        called_name = calls.get(str(fields.get("tool_call_id")))
        if called_name is None or fields.get("name") in (called_name, f"functions.{called_name}"):
            used = _RESULT | {"name"}  # it chooses the call, or says the same as the id
        yield from _names(fields, used, path)
    else:
        yield from _names(fields, _INSTRUCTIONS, path)
    if isinstance(content, list):
        has_field = role == "assistant" and any(fields.get(name) for name in REASONING_FIELDS)
        for part in content:
            if isinstance(part, Mapping) and "type" in part:
                yield from _unused_of_part(part, f"{path}content[].", has_field)


def _unused_reasoning(fields: Mapping[str, Any], path: str) -> Iterator[str]:
    """Name the fields of reasoning after the first, which is read, unless they are equal to it."""
    given = [name for name in REASONING_FIELDS if fields.get(name)]
    for name in given[1:]:
        if fields[name] != fields[given[0]]:
            yield f"{path}{name}"
    details = fields.get("reasoning_details")
    if not details:
        return
    parts = [part for part in details if isinstance(part, Mapping)]
    texts = [part.get("text") or part.get("summary") or "" for part in parts]
    if given and "\n".join(texts) != fields[given[0]]:
        yield f"{path}reasoning_details"
        return
    for part in parts:
        yield from _names(part, {"type", "text", "summary"}, f"{path}reasoning_details[].")


def _unused_of_call(call: Mapping[str, Any], path: str, calls: dict[str, str]) -> Iterator[str]:
    function = call.get("function")
    name = None
    if call.get("type") == "custom" and isinstance(custom := call.get("custom"), Mapping):
        name = custom.get("name")
        yield from _names(call, {"id", "type", "custom"}, path)
        yield from _names(custom, {"name", "input"}, f"{path}custom.")
    elif isinstance(function, Mapping):
        name = function.get("name")
        yield from _names(call, {"id", "type", "function"}, path)
        yield from _names(function, {"name", "arguments"}, f"{path}function.")
    else:
        name = call.get("name")
        yield from _names(call, {"id", "type", "name", "arguments"}, path)
    if call.get("id") and isinstance(name, str):
        calls[str(call["id"])] = name


_TEXT_PARTS = frozenset({"type", "text"})


def _unused_of_part(part: Mapping[str, Any], path: str, has_field: bool) -> Iterator[str]:
    kind = part.get("type")
    if kind in REASONING_TYPES:
        if has_field:  # the message's own field is read instead
            yield from _names(part, {"type"}, path)
            return
        names = (str(kind), "text", "summary")
        read = next((name for name in names if part.get(name) is not None), "")
        yield from _names(part, {"type", read}, path)
        if isinstance(inner := part.get(read), list):
            for item in inner:
                if isinstance(item, Mapping):
                    yield from _unused_of_part(item, f"{path}{read}[].", has_field=False)
    elif kind == "refusal":
        yield from _names(part, {"type", "refusal"}, path)
    elif isinstance(part.get("text"), str):
        yield from _names(part, _TEXT_PARTS, path)
    elif _is_noted(part):
        yield from _names(part, {"type"}, path)


def _is_noted(part: Mapping[str, Any]) -> bool:
    """Return whether a note stands in place of the part; files of text are read instead."""
    (text,) = content_texts(JsonField([dict(part)], "content")) or ("",)
    return not text.startswith("[file: ") or "not shown" in text


# Tools

_FUNCTION = frozenset({"name", "description", "parameters", "type"})
_RENDERED = frozenset(
    {
        *("type", "properties", "required", "items", "prefixItems", "enum", "const", "nullable"),
        *("description", "title", "default", "examples", "oneOf", "anyOf", "allOf"),
        *("patternProperties", "$ref", "$defs", "definitions"),
    }
)
"""Keywords of JSON Schema that the prompt's TypeScript has."""

_OF_NAMES = ("properties", "patternProperties", "$defs", "definitions")
_OF_LISTS = ("prefixItems", "oneOf", "anyOf", "allOf")
_NOT_AT_THE_TOP = ("title", "default", "examples")


def _unused_of_tool(tool: Mapping[str, Any], path: str) -> Iterator[str]:
    kind = tool.get("type", "function")
    if kind == "custom":
        custom = tool.get("custom")
        fields = custom if isinstance(custom, Mapping) else tool
        if fields is custom:
            yield from _names(tool, {"type", "custom"}, path)
        yield from _names(fields, {"type", "name", "description", "format"}, path)
        return
    if kind == "namespace":
        yield from _names(tool, {"type", "name", "description", "tools"}, path)
        for member in tool.get("tools") or ():
            if isinstance(member, Mapping):
                yield from _unused_of_tool(member, f"{path}tools[].")
        return
    if kind != "function" and "parameters" not in tool:
        yield f"{path}{kind}"  # the model cannot have it
        return
    nested = tool.get("function")
    if isinstance(nested, Mapping):
        yield from _names(tool, {"type", "function"}, path)
        path, tool = f"{path}function.", nested
    yield from _names(tool, _FUNCTION, path)
    parameters = parsed_json(JsonField(tool.get("parameters"), "parameters")).value
    if isinstance(parameters, Mapping):
        path = f"{path}parameters."
        yield from (f"{path}{name}" for name in _NOT_AT_THE_TOP if parameters.get(name))
        yield from sorted(set(_unused_keywords(parameters, path)))


def _unused_keywords(schema: Any, path: str) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    for name, value in schema.items():
        if name in _OF_NAMES and isinstance(value, Mapping):
            for inner in value.values():
                yield from _unused_keywords(inner, path)
        elif name in _OF_LISTS and isinstance(value, Sequence):
            for inner in value:
                yield from _unused_keywords(inner, path)
        elif name == "items":
            yield from _unused_keywords(value, path)
        elif name not in _RENDERED and value not in _NOTHING:
            yield f"{path}{name}"


# Harmony

_MESSAGE = frozenset({"role", "name", "author", "content", "channel", "recipient", "content_type"})
_PARTS: Mapping[str, frozenset[str]] = {
    "text": _TEXT_PARTS,
    "system_content": frozenset(
        {
            *("type", "model_identity", "reasoning_effort", "conversation_start_date"),
            *("knowledge_cutoff", "channel_config", "tools"),
        }
    ),
    "developer_content": frozenset({"type", "instructions", "tools"}),
}


def unused_harmony_fields(row: Mapping[str, Any], messages: Sequence[Any]) -> list[str]:
    """Name the fields of a row in harmony's own form that its examples do not have."""
    found = list(_names(row, {"messages", "weight"}))
    for message in messages:
        used = _MESSAGE | WEIGHT_FIELDS if message.get("role") == "assistant" else _MESSAGE
        found += _names(message, used, "messages[].")
        author = message.get("author")
        if isinstance(author, Mapping):
            found += _names(author, {"role", "name"}, "messages[].author.")
        if not isinstance(content := message.get("content"), list):
            continue
        for part in content:
            if isinstance(part, Mapping):
                known = _PARTS.get(str(part.get("type")), _TEXT_PARTS)
                found += _names(part, known, "messages[].content[].")
    return found
