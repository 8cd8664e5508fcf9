"""The references of a JSON Schema: each `$ref` is replaced by its definition.

A `$ref` that is recursive, or that points nowhere, is replaced by a type name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from urllib.parse import unquote

from ..errors import closest
from .comments import text_of
from .json_text import JsonValue, Schema

REFERENCE_NESTING_LIMIT = 32
"""A `$ref` inside more nested schemas than this is written as a name."""

REFERENCE_COPY_LIMIT = 5_000
"""The most schemas that are copied from definitions; each later `$ref` is written as a name.
Otherwise definitions that use the next one twice would double the text at each level."""

REFERENCE_TEXT_LIMIT = 1_000_000
"""The most characters that are copied from definitions; each later `$ref` is written as a name."""

_NAME_LIMIT = 200  # characters: a name may be a long title, and many references may use it

ONE_SCHEMA = frozenset({"additionalItems", "additionalProperties", "items"})
MANY_SCHEMAS = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
NAMED_SCHEMAS = frozenset({"patternProperties", "properties"})
_NESTING = ONE_SCHEMA | MANY_SCHEMAS | NAMED_SCHEMAS | {"$ref"}
_NOTES = frozenset({"default", "description", "examples", "nullable", "title"})
_SHAPES = {"const", "enum", "type"} | ONE_SCHEMA | MANY_SCHEMAS | NAMED_SCHEMAS


TYPE_NAMES = ("array", "boolean", "integer", "null", "number", "object", "string")


def type_problem(name: JsonValue) -> tuple[str, str]:
    """Return what is wrong with the name of a type, and the remedy.

    >>> type_problem("objct")
    ('"objct" is not the name of a type', 'write "object"')
    """
    meant = closest(name.lower(), TYPE_NAMES) if isinstance(name, str) else None
    remedy = f'write "{meant}"' if meant else f"write one of {', '.join(TYPE_NAMES)}"
    return f"{json.dumps(name)[:100]} is not the name of a type", remedy


def unknown_types(schema: JsonValue) -> Iterator[JsonValue]:
    """Return the values of `type` that name no type, in a schema and in those inside of it.

    >>> list(unknown_types({"type": "array", "items": {"type": ["sting", "null"]}}))
    ['sting']
    """
    waiting = [schema]
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, dict):
            continue
        if "type" in schema:
            names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            yield from (name for name in names if name not in TYPE_NAMES)
        for keyword, value in schema.items():
            if isinstance(value, list) and keyword in MANY_SCHEMAS:
                waiting += value
            elif keyword in ONE_SCHEMA:
                waiting.append(value)
            elif isinstance(value, dict) and keyword in NAMED_SCHEMAS | {"$defs", "definitions"}:
                waiting += value.values()


def inline_references(schema: JsonValue) -> JsonValue:
    """Copy a schema, each `$ref` replaced by its definition or by ``{"$ref": NAME}``.

    >>> inline_references({"$defs": {"a": {"type": "string"}}, "items": {"$ref": "#/$defs/a"}})
    {'$defs': {'a': {'type': 'string'}}, 'items': {'type': 'string'}}
    """
    return _Inliner(schema).schema


class _Inliner:
    """Copies a schema and replaces each `$ref` by its definition or a name."""

    def __init__(self, root: JsonValue) -> None:
        self._root = root
        self._enclosing: set[int] = set()  # ids of the schemas being copied
        self._definitions_entered = 0
        self._copied_schemas = 0  # from definitions
        self._copied_characters = 0  # from definitions
        self._lengths: dict[int, int] = {}  # of definitions as JSON, by id
        self.schema = self._copied(root)

    def _copied(self, schema: JsonValue) -> JsonValue:
        if not isinstance(schema, dict):
            return schema
        if self._definitions_entered:
            self._copied_schemas += 1
        if _NESTING.isdisjoint(schema):
            return schema
        self._enclosing.add(id(schema))
        copied: Schema = {}
        for keyword, value in schema.items():
            copied[keyword] = self._copied_keyword(keyword, value)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            copied = self._with_definition(copied, reference)
        self._enclosing.discard(id(schema))
        return _unwrapped(copied)

    def _copied_keyword(self, keyword: str, value: JsonValue) -> JsonValue:
        if isinstance(value, dict):
            if keyword in ONE_SCHEMA:
                return self._copied(value)
            if keyword in NAMED_SCHEMAS:
                named: Schema = {}
                for name, schema in value.items():
                    named[name] = self._copied(schema)
                return named
        if isinstance(value, list) and keyword in MANY_SCHEMAS:
            many: list[JsonValue] = []
            for schema in value:
                many.append(self._copied(schema))
            return many
        return value

    def _with_definition(self, referring: Schema, reference: str) -> Schema:
        """Join the keywords beside a `$ref` with its definition.

        Notes such as a description replace the definition's own. Keywords that constrain the value
        apply in addition to the definition.
        """
        target = _pointed_at(self._root, reference)
        beside = {key: value for key, value in referring.items() if key in _SHAPES}
        notes = {key: value for key, value in referring.items() if key in _NOTES}
        may_expand = (
            id(target) not in self._enclosing
            and len(self._enclosing) < REFERENCE_NESTING_LIMIT
            and self._copied_schemas < REFERENCE_COPY_LIMIT
            and self._copied_characters < REFERENCE_TEXT_LIMIT
        )
        if not isinstance(target, (dict, bool)) or not may_expand:
            return {**beside, **notes, "$ref": _reference_name(reference, self._root)}
        length = self._lengths.get(id(target))
        if length is None:
            length = self._lengths[id(target)] = len(json.dumps(target))
        self._copied_characters += length
        self._definitions_entered += 1
        copied = self._copied(target)
        self._definitions_entered -= 1
        # As an object, because notes may stand beside it; no value is in an empty list.
        never: Schema = {"enum": []}
        definition = copied if isinstance(copied, dict) else {} if copied else never
        if not beside.keys() - {"type"}:
            return {**beside, **definition, **notes}
        return {"allOf": [definition, beside], **notes}


def _unwrapped(schema: Schema) -> Schema:
    """Write "X or null" as X with ``nullable``, as the reference does, and "all of X" as X."""
    keywords = [keyword for keyword in schema if keyword in _SHAPES or keyword == "$ref"]
    wrapped: list[JsonValue] = []
    if keywords == ["allOf"]:
        wrapped = variants_of(schema, "allOf")
    elif keywords == ["anyOf"] and len(options := variants_of(schema, "anyOf")) == 2:
        wrapped = [
            option
            for option in options
            if not isinstance(option, dict) or option.get("type") not in ("null", ["null"])
        ]
    if len(wrapped) != 1 or not isinstance(wrapped[0], dict):
        return schema
    notes = {key: value for key, value in schema.items() if key in _NOTES}
    if "anyOf" in keywords:
        notes["nullable"] = True
    return {**wrapped[0], **notes}


def _pointed_at(root: JsonValue, reference: str) -> JsonValue:
    """Return the value at a JSON pointer within the document, or None."""
    if reference in ("", "#"):
        return root
    if not reference.startswith("#/"):
        return None
    value = root
    for token in unquote(reference[2:]).split("/"):
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list):
            # `int` raises an error for thousands of digits, and no list has so many items.
            index = int(key) if key.isdecimal() and len(key) < 10 else len(value)
            value = value[index] if index < len(value) else None
        else:
            return None
    return value


def _reference_name(reference: str, root: JsonValue) -> str:
    """Return the last word of a reference as a type name, capitalised so that it is no keyword."""
    words = re.split("[/#]", unquote(reference).rstrip("/#"))
    name = words[-1].removesuffix(".json") or text_of(root, "title")
    if not name:
        return "any"
    name = name[:_NAME_LIMIT]
    name = "".join(letter if f"a{letter}".isidentifier() else "_" for letter in name)
    return name[0].upper() + name[1:] if name[0].isidentifier() else f"_{name}"


def variants_of(schema: Schema, keyword: str) -> list[JsonValue]:
    """Return the list of schemas under a keyword such as ``anyOf``."""
    variants = schema.get(keyword)
    return variants if isinstance(variants, list) else []
