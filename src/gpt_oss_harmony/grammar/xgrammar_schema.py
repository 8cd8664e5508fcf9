r"""Schemas from `enforceable_schema` in the form that xgrammar reads.

xgrammar forbids further properties and items unless a schema allows them. It reads the keywords of
only one type, matches a pattern against the whole text, and writes listed arrays and objects in one
spelling. Keywords that xgrammar ignores or rejects are left out; the schema then allows more, never
less.
"""

from __future__ import annotations

import re

from ..typescript.json_text import JsonValue, Schema
from .json_schema.bounds import LARGEST_MULTIPLE

_KEYWORDS = {
    "null": (),
    "boolean": (),
    "integer": ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"),
    "number": ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"),
    "string": ("minLength", "maxLength", "pattern"),
    "array": ("prefixItems", "items", "minItems", "maxItems"),
    "object": (
        "properties",
        "patternProperties",
        "additionalProperties",
        "required",
        "minProperties",
        "maxProperties",
    ),
}
_ALL_TYPES = ["null", "boolean", "number", "string", "array", "object"]


def xgrammar_schema(schema: JsonValue) -> JsonValue:
    """Rewrite a schema that `enforceable_schema` returned.

    >>> xgrammar_schema({"type": "object", "properties": {"a": {"pattern": "b", "type": "string"}}})
    ... # doctest: +ELLIPSIS
    {'type': 'object', 'properties': {'a': {...}}, 'additionalProperties': True}
    """
    if not isinstance(schema, dict):
        return schema
    written = _without_definitions(schema)
    definitions = schema.get("$defs")
    if isinstance(definitions, dict) and isinstance(written, dict):
        named = {name: xgrammar_schema(inner) for name, inner in definitions.items()}
        written = {"$defs": named, **written}
    return written


def _without_definitions(schema: Schema) -> JsonValue:
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    if "anyOf" in schema:
        return _any([xgrammar_schema(option) for option in _list(schema["anyOf"])])
    if "enum" in schema:
        return _listed(_list(schema["enum"]))
    types = schema.get("type", list(_ALL_TYPES))
    names = types if isinstance(types, list) else [types]
    return _any([_of_type(str(name), schema) for name in names])


def _any(schemas: list[JsonValue]) -> JsonValue:
    """Return a schema that allows one of these; xgrammar has no schema that allows nothing."""
    kept = [schema for schema in schemas if schema is not False]
    return kept[0] if len(kept) == 1 else {"anyOf": kept}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _of_type(name: str, schema: Schema) -> Schema:
    written: Schema = {"type": name}
    written |= {key: schema[key] for key in _KEYWORDS[name] if key in schema}
    if name == "string":
        _rewrite_pattern(written, schema)
    elif "multipleOf" in written:  # xgrammar ignores it beside bounds; these two stand for none
        for bound, limit in (("minimum", -LARGEST_MULTIPLE), ("maximum", LARGEST_MULTIPLE)):
            if written.get(bound) == limit:
                del written[bound]
    elif name == "array":
        _rewrite_items(written)
    elif name == "object":
        _rewrite_properties(written)
    return written


def _rewrite_pattern(written: Schema, schema: Schema) -> None:
    joined = [inner for inner in _list(schema.get("allOf")) if isinstance(inner, dict)]
    patterns = [written.get("pattern"), *(inner.get("pattern") for inner in joined)]
    whole = [text for pattern in patterns if isinstance(pattern, str) and (text := _whole(pattern))]
    written.pop("pattern", None)
    if whole:
        written["pattern"] = whole[0]  # xgrammar ignores several patterns


def _whole(pattern: str) -> str | None:
    r"""Write a pattern for the whole text; None if that is impossible.

    >>> _whole("a+"), _whole(r"^\x{e9}$"), _whole("(?:^a|b$)")
    ('[\\s\\S]*(?:a+)[\\s\\S]*', '(?:\\u{e9})', None)
    """
    if r"\p{" in pattern:
        return None
    text = pattern.replace(r"\x{", r"\u{")
    starts, ends = text.startswith("^"), text.endswith("$")
    text = text[starts : len(text) - ends]
    if re.search(r"(?<!\[)\^|\$", text):  # at the edge of an alternative
        return None
    before, after = "" if starts else r"[\s\S]*", "" if ends else r"[\s\S]*"
    return f"{before}(?:{text}){after}"


def _rewrite_items(written: Schema) -> None:
    prefix = [xgrammar_schema(item) for item in _list(written.get("prefixItems"))]
    most = written.get("maxItems")
    end = prefix.index(False) if False in prefix else len(prefix)
    if isinstance(most, int):
        end = min(end, most)
    is_cut = end < len(prefix) or most == end
    items = False if is_cut else xgrammar_schema(written.get("items", True))
    if prefix[:end]:  # xgrammar does not accept `true` here
        written["prefixItems"] = [{} if item is True else item for item in prefix[:end]]
    else:
        written.pop("prefixItems", None)
    if is_cut and end:
        written.pop("maxItems", None)
    written["items"] = items


def _rewrite_properties(written: Schema) -> None:
    properties = written.get("properties")
    if isinstance(properties, dict):
        kept = {name: xgrammar_schema(inner) for name, inner in properties.items()}
        written["properties"] = {name: inner for name, inner in kept.items() if inner is not False}
    others = xgrammar_schema(written.get("additionalProperties", True))
    named = written.pop("patternProperties", None)
    if isinstance(named, dict):
        by_pattern = {_whole(name): xgrammar_schema(inner) for name, inner in named.items()}
        schemas = [inner for inner in by_pattern.values() if inner is not False]
        if others is False and None not in by_pattern and len(schemas) == len(named) == 1:
            written["patternProperties"] = {str(name): inner for name, inner in by_pattern.items()}
        else:  # xgrammar reads only one pattern, and only without other names
            others = _any([*schemas, others])
    written["additionalProperties"] = others


def _listed(values: list[JsonValue]) -> JsonValue:
    """Write listed arrays and objects as types, which allow white space inside."""
    plain: list[JsonValue] = [value for value in values if not isinstance(value, (list, dict))]
    schemas: list[JsonValue] = [{"enum": plain}] if plain else []
    for value in values:
        if isinstance(value, list):
            items = [_listed([item]) for item in value]
            closed: Schema = {"prefixItems": items, "items": False, "minItems": len(items)}
            schemas.append({"type": "array", **(closed if items else {"maxItems": 0})})
        elif isinstance(value, dict):
            schemas.append(
                {
                    "type": "object",
                    "properties": {name: _listed([inner]) for name, inner in value.items()},
                    "required": list(value),
                    "additionalProperties": False,
                }
            )
    return _any(schemas)
