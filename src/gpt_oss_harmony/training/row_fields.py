"""The fields of a row that are not in its examples, so that a report can count them.

Each field of a row is rendered, or sets a weight or a date, or is counted here under its name, or
the row is rejected. The reading itself notes which fields it reads (`ReadObject`), and the models
of harmony's messages name theirs. Only the keywords of JSON Schema are listed here, because the
writer of TypeScript looks at more of them than it writes. Empty fields (null, an empty text, list
or object) say nothing, and are not counted. Names leave out indices: ``messages[].name``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import BaseModel

from ..conversation.content import DeveloperContent, ResponseFormat, SystemContent, TextContent
from ..conversation.json_field import NOTHING, ReadObject
from ..conversation.messages import Author, Message
from ..conversation.tool_namespaces import ToolDescription, ToolNamespaceConfig
from ..typescript.references import TYPE_NAMES
from .chat_rows import WEIGHT_FIELDS


def unused_chat_fields(
    row: ReadObject, request: Mapping[str, Any], others: Collection[str], container: str
) -> list[str]:
    """Name the fields of a row, and of the request that was made of it, which nobody read.

    `others` are the types of tools that the model cannot have. `container` is the name of the
    messages in the row.
    """
    found = list(row.unread())
    for message in request["messages"]:
        found += message.unread(f"{container}[].")
        # Not by its own `get`, which would note the field as read.
        content = dict.get(message, "content")
        for part in content if isinstance(content, list) else ():
            # A note stands in its place; most parts have a field with the image, which is unread.
            if isinstance(part, ReadObject) and dict.get(part, "type") in ("image", "image_url"):
                found += [f"{container}[].content[].image"] * (not list(part.unread()))
    earlier = (tool for _, tools in request["earlier_tools"] for tool in tools)
    for tool in (*request["tools"], *earlier):
        found += _unused_of_tool(tool, "tools[].", others)
    if isinstance(requested := request["response_format"], ReadObject):
        if requested.noted == {"type"} and dict.get(requested, "type") != "text":
            found.append("response_format")  # JSON without a schema is not in the prompt
        elif requested.is_copied or "grammar" in requested.noted:
            found.append("response_format")
        else:
            found += requested.unread("response_format.")
    return found


def _unused_of_tool(tool: ReadObject, path: str, others: Collection[str]) -> Iterator[str]:
    kind = dict.get(tool, "type")
    if kind in others:
        yield f"{path}{kind}"
        return
    yield from tool.unread(path)
    members = dict.get(tool, "tools") if kind == "namespace" else None
    for member in members or ():
        if isinstance(member, ReadObject):
            yield from _unused_of_function(member, f"{path}tools[].")
    yield from _unused_of_function(tool, path)


def _unused_of_function(tool: ReadObject, path: str) -> Iterator[str]:
    function = dict.get(tool, "function")
    if isinstance(function, ReadObject):
        tool, path = function, f"{path}function."
    parameters = dict.get(tool, "parameters")
    if dict.get(tool, "type", "function") == "function":
        yield from _unused_parameters(parameters, f"{path}parameters.")


# Parameters

_RENDERED = frozenset(
    {
        *("properties", "required", "items", "prefixItems", "enum", "const", "nullable"),
        *("description", "title", "default", "examples", "oneOf", "anyOf", "allOf"),
        *("patternProperties", "$ref", "$defs", "definitions"),
    }
)
"""Keywords of JSON Schema that the prompt's TypeScript has."""

_OF_NAMES = ("properties", "patternProperties", "$defs", "definitions")
_OF_LISTS = ("prefixItems", "oneOf", "anyOf", "allOf")
_NOT_AT_THE_TOP = ("title", "default", "examples")


def _unused_parameters(parameters: Any, path: str) -> Iterator[str]:
    if isinstance(parameters, dict):
        yield from (f"{path}{name}" for name in _NOT_AT_THE_TOP if parameters.get(name))
        yield from sorted(set(_unused_keywords(parameters, path)))


def _unused_keywords(schema: Any, path: str) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    for name, value in schema.items():
        if name == "type":
            words = value if isinstance(value, list) else [value]
            if value is not None and not all(word in TYPE_NAMES for word in words):
                yield f"{path}type"  # the prompt has any type in its place
        elif name not in _RENDERED and value not in NOTHING:
            yield f"{path}{name}"
        for inner in _inner_schemas(name, value):
            yield from _unused_keywords(inner, path)


def _inner_schemas(name: str, value: Any) -> Iterable[Any]:
    if name in _OF_NAMES and isinstance(value, Mapping):
        return value.values()
    if name in _OF_LISTS and isinstance(value, list):
        return value
    return (value,) if name == "items" else ()


# Harmony

_CONTENTS: Mapping[str, type[BaseModel]] = {
    "text": TextContent,
    "system_content": SystemContent,
    "developer_content": DeveloperContent,
}
_MODELS: Sequence[type[BaseModel]] = (
    *_CONTENTS.values(),
    ToolNamespaceConfig,
    ToolDescription,
    ResponseFormat,
)
_FIELDS: Mapping[type[BaseModel], Collection[str]] = {
    model: frozenset({"type", *model.model_fields}) for model in _MODELS
}
_MESSAGE = frozenset({*Message.model_fields, *Author.model_fields})
_ANSWER = _MESSAGE | WEIGHT_FIELDS


def _names(fields: Mapping[str, Any], used: Collection[str], path: str = "") -> Iterator[str]:
    """Yield the names of fields with a value that are not `used`."""
    for name, value in fields.items():
        if name not in used and value not in NOTHING:
            yield f"{path}{name}"


def unused_harmony_fields(row: Mapping[str, Any], messages: Sequence[Any]) -> list[str]:
    """Name the fields of a row in harmony's own form that its examples do not have."""
    found = list(_names(row, {"messages", "weight"}))
    for message in messages:
        used = _ANSWER if message.get("role") == "assistant" else _MESSAGE
        found += _names(message, used, "messages[].")
        author = message.get("author")
        if isinstance(author, Mapping):
            found += _names(author, Author.model_fields, "messages[].author.")
        if not isinstance(content := message.get("content"), list):
            continue
        for part in content:
            if isinstance(part, Mapping):
                found += _unused_of_content(part)
    return found


_REMEMBERED = 64 * 1024  # characters, of each of 256 contents


def _unused_of_content(part: Mapping[str, Any]) -> Sequence[str]:
    if part.get("tools"):  # many rows have the same ones, which are looked at once
        with suppress(TypeError, ValueError, RecursionError):  # values that no file has
            written = json.dumps(part)
            if len(written) <= _REMEMBERED:
                return _unused_of_json(written)
    return tuple(_unused_in_content(part))


@functools.lru_cache(maxsize=256)
def _unused_of_json(part: str) -> Sequence[str]:
    return tuple(_unused_in_content(json.loads(part)))


def _unused_in_content(part: Mapping[str, Any]) -> Iterator[str]:
    path = "messages[].content[]."
    model = _CONTENTS.get(str(part.get("type")), TextContent)
    yield from _names(part, _FIELDS[model], path)
    if model is TextContent:
        return
    config = part.get("channel_config")
    if isinstance(config, Mapping):
        yield from _names(config, ("valid_channels", "channel_required"), f"{path}channel_config.")
    for namespace in _values(part.get("tools")):
        yield from _names(namespace, _FIELDS[ToolNamespaceConfig], f"{path}tools.")
        for tool in namespace.get("tools") or ():
            yield from _names(tool, _FIELDS[ToolDescription], f"{path}tools.tools[].")
            yield from _unused_parameters(
                tool.get("parameters"), f"{path}tools.tools[].parameters."
            )
    for answer in _values(part.get("response_formats")):
        yield from _names(answer, _FIELDS[ResponseFormat], f"{path}response_formats.")


def _values(named: Any) -> Iterator[Mapping[str, Any]]:
    for value in named.values() if isinstance(named, Mapping) else ():
        if isinstance(value, Mapping):
            yield value
