"""The references of a JSON Schema: a schema in, the same schema without `$ref` out.

Each `$ref` is replaced by its definition, or by a name where that would never end (recursion)
or leads nowhere.
"""

from __future__ import annotations

import json
import re
from urllib.parse import unquote

from .comments import text_of
from .json_text import JsonValue, Schema

__all__ = ["inline_references", "variants_of"]

REFERENCE_NESTING_LIMIT = 32
"""Schemas within schemas beyond which a `$ref` is written as a name."""

REFERENCE_COPY_LIMIT = 5_000
"""Schemas copied from definitions, in all, beyond which a `$ref` is written as a name."""

REFERENCE_TEXT_LIMIT = 1_000_000
"""Characters copied from definitions, in all, beyond which a `$ref` is written as a name."""

_NAME_LIMIT = 200  # characters of a name: a title, which may be long, may name many references

ONE_SCHEMA = frozenset({"additionalItems", "additionalProperties", "items"})
MANY_SCHEMAS = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
NAMED_SCHEMAS = frozenset({"patternProperties", "properties"})
_NESTING = ONE_SCHEMA | MANY_SCHEMAS | NAMED_SCHEMAS | {"$ref"}
_NOTES = frozenset({"default", "description", "examples", "nullable", "title"})
_SHAPES = {"const", "enum", "type"} | ONE_SCHEMA | MANY_SCHEMAS | NAMED_SCHEMAS


def inline_references(schema: JsonValue) -> JsonValue:
    """Copy a schema, each `$ref` replaced by its definition or by ``{"$ref": NAME}``.

    >>> inline_references({"$defs": {"a": {"type": "string"}}, "items": {"$ref": "#/$defs/a"}})
    {'$defs': {'a': {'type': 'string'}}, 'items': {'type': 'string'}}
    """
    return _Inliner(schema).schema


class _Inliner:
    """Copies a schema; each `$ref` becomes its definition, or the name that stands for it."""

    def __init__(self, root: JsonValue) -> None:
        self._root = root
        self._open: set[int] = set()
        self._borrowing = 0
        self._borrowed = 0
        self._borrowed_text = 0
        self._lengths: dict[int, int] = {}
        self.schema = self._copied(root)

    def _copied(self, schema: JsonValue) -> JsonValue:
        if not isinstance(schema, dict):
            return schema
        self._borrowed += 1 if self._borrowing else 0
        if _NESTING.isdisjoint(schema):
            return schema
        self._open.add(id(schema))
        copied: Schema = {}
        for keyword, value in schema.items():
            copied[keyword] = self._copied_keyword(keyword, value)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            copied = self._followed(copied, reference)
        self._open.discard(id(schema))
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

    def _followed(self, referring: Schema, reference: str) -> Schema:
        """Notes beside a `$ref` win over the definition's own; other keywords must hold as well."""
        target = _pointed_at(self._root, reference)
        beside = {key: value for key, value in referring.items() if key in _SHAPES}
        notes = {key: value for key, value in referring.items() if key in _NOTES}
        if not isinstance(target, (dict, bool)) or not self._may_expand(target):
            return {**beside, **notes, "$ref": _reference_name(reference, self._root)}
        self._borrowed_text += self._length(target)
        self._borrowing += 1
        copied = self._copied(target)
        self._borrowing -= 1
        never: Schema = {"enum": []}
        definition = copied if isinstance(copied, dict) else {} if copied else never
        if not beside.keys() - {"type"}:
            return {**beside, **definition, **notes}
        return {"allOf": [definition, beside], **notes}

    def _may_expand(self, target: JsonValue) -> bool:
        return (
            id(target) not in self._open
            and len(self._open) < REFERENCE_NESTING_LIMIT
            and self._borrowed < REFERENCE_COPY_LIMIT
            and self._borrowed_text < REFERENCE_TEXT_LIMIT
        )

    def _length(self, definition: JsonValue) -> int:
        """Return the length of a definition as JSON, counted once."""
        length = self._lengths.get(id(definition))
        if length is None:
            length = self._lengths[id(definition)] = len(json.dumps(definition))
        return length


def _unwrapped(schema: Schema) -> Schema:
    """Turn "X or null" into X that is nullable, as the reference has it, and "all of X" into X."""
    keywords = [keyword for keyword in schema if keyword in _SHAPES or keyword == "$ref"]
    wrapped: list[JsonValue] = []
    if keywords == ["allOf"]:
        wrapped = variants_of(schema, "allOf")
    elif keywords == ["anyOf"] and len(options := variants_of(schema, "anyOf")) == 2:
        wrapped = [option for option in options if not _is_null(option)]
    if len(wrapped) != 1 or not isinstance(wrapped[0], dict):
        return schema
    notes = {key: value for key, value in schema.items() if key in _NOTES}
    if "anyOf" in keywords:
        notes["nullable"] = True
    return {**wrapped[0], **notes}


def _is_null(schema: JsonValue) -> bool:
    return isinstance(schema, dict) and schema.get("type") in ("null", ["null"])


def _pointed_at(root: JsonValue, reference: str) -> JsonValue:
    """Follow a JSON pointer within the document; None when it leads nowhere."""
    if reference in ("", "#"):
        return root
    if not reference.startswith("#/"):
        return None
    place = root
    for token in unquote(reference[2:]).split("/"):
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict):
            place = place.get(key)
        elif isinstance(place, list):
            place = _item_at(place, key)
        else:
            return None
    return place


def _item_at(items: list[JsonValue], key: str) -> JsonValue:
    index = int(key) if key.isdecimal() and len(key) < 10 else len(items)
    return items[index] if index < len(items) else None


def _reference_name(reference: str, root: JsonValue) -> str:
    """Return the last word of a reference as a type name: capitalised, so never a keyword."""
    words = re.split("[/#]", unquote(reference).rstrip("/#"))
    name = words[-1].removesuffix(".json") or text_of(root, "title")
    if not name:
        return "any"
    name = name[:_NAME_LIMIT]
    name = "".join(letter if f"a{letter}".isidentifier() else "_" for letter in name)
    return name[0].upper() + name[1:] if name[0].isidentifier() else f"_{name}"


def variants_of(schema: Schema, keyword: str) -> list[JsonValue]:
    """The schemas that a keyword such as ``anyOf`` lists."""
    variants = schema.get(keyword)
    return variants if isinstance(variants, list) else []
