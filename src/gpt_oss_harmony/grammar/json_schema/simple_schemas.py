"""A fast path for schemas whose keywords have the same meaning in the engine and specification.

Most tools have only such schemas. The result is the same as through `disjunctive_form`, in a
fraction of the time; a schema with any other keyword takes that longer path.
"""

from __future__ import annotations

from ...typescript.json_text import JsonValue, Schema
from .keywords import COUNT_LIMIT

_SILENT = frozenset(
    {
        "$comment",
        "default",
        "deprecated",
        "description",
        "example",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    }
)
"""The keywords that allow everything."""

_KEYWORDS = {
    "null": {"type"},
    "boolean": {"type"},
    "number": {"type", "minimum", "maximum"},
    "integer": {"type", "minimum", "maximum"},
    "string": {"type", "minLength", "maxLength"},
    "array": {"type", "items", "minItems", "maxItems"},
    "object": {"type", "properties", "required", "additionalProperties"},
}
"""The keywords of a simple schema, by type."""

_BOUNDS = {
    "number": ("minimum", "maximum", -COUNT_LIMIT),
    "integer": ("minimum", "maximum", -COUNT_LIMIT),
    "string": ("minLength", "maxLength", 0),
    "array": ("minItems", "maxItems", 0),
}
"""The two bounds of each type, and the smallest value that they may have."""

_SCALARS = dict.fromkeys(("null", "boolean", "number", "integer", "string")).keys()
"""The types of single values in the order of `constraints.TYPES`, as the longer path lists them."""

# The longer path makes definitions of what lies deeper, and the result must be the same.
_LEVEL_LIMIT = 8
# Below the limits of the longer path on names, properties and values, which are not checked here.
_SIZE_LIMIT = 500


class _NotSimpleError(Exception):
    """A schema is not simple."""


def simple_schema(schema: JsonValue) -> Schema | bool | None:
    """Return the schema for the engine if this one is simple, else None.

    >>> simple_schema({"type": "integer", "minimum": 0, "title": "Count"})
    {'type': 'integer', 'minimum': 0}
    >>> simple_schema({"type": "array", "uniqueItems": True})
    """
    if isinstance(schema, dict) and "$schema" in schema:  # simple keywords are alike in all drafts
        schema = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}
    try:
        return _Writer().write(schema, 0)
    except _NotSimpleError:
        return None


class _Writer:
    """Writes up to `_SIZE_LIMIT` schemas."""

    def __init__(self) -> None:
        self._room = _SIZE_LIMIT

    def write(self, schema: JsonValue, level: int) -> Schema | bool:
        self._room -= 1
        if not isinstance(schema, dict) or level == _LEVEL_LIMIT or self._room < 0:
            raise _NotSimpleError
        keywords = schema.keys() - _SILENT
        kind = schema.get("type")
        if not keywords:
            return True
        if "enum" in keywords:
            return self._listed(schema["enum"], keywords - {"enum"}, kind)
        if keywords == {"anyOf"}:
            return self._either(schema["anyOf"], level)
        if isinstance(kind, list) and keywords == {"type"}:
            return _scalars(kind)
        if not isinstance(kind, str) or not keywords <= _KEYWORDS.get(kind, frozenset()):
            raise _NotSimpleError
        if kind == "object":
            return self._object(schema, level)
        written: Schema = {"type": kind}
        if "items" in schema:
            written["items"] = self.write(schema["items"], level + 1)
        if kind in _BOUNDS:
            written |= _bounds(schema, *_BOUNDS[kind])
        return written

    def _either(self, options: JsonValue, level: int) -> Schema:
        written = [self.write(option, level + 1) for option in _list(options)]
        if len(written) < 2 or True in written:
            raise _NotSimpleError
        return {"anyOf": [*written]}

    def _listed(self, values: JsonValue, beside: set[str], kind: JsonValue) -> Schema:
        listed = _list(values)
        self._room -= len(listed)
        texts = {value for value in listed if isinstance(value, str) and value.isprintable()}
        is_typed = not beside or (beside == {"type"} and kind == "string")
        if not (0 < len(listed) == len(texts) and is_typed and self._room >= 0):
            raise _NotSimpleError
        return {"enum": listed}

    def _object(self, schema: Schema, level: int) -> Schema:
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
        required = _list(schema.get("required", []))
        if not isinstance(properties, dict) or not (additional is None or additional is False):
            raise _NotSimpleError
        names = {name for name in required if isinstance(name, str)}
        if not len(required) == len(names) == len(names & properties.keys()):
            raise _NotSimpleError
        written: Schema = {"type": "object"}
        if properties:
            written["properties"] = {
                name: self.write(inner, level + 1) for name, inner in properties.items()
            }
        if additional is False:
            written["additionalProperties"] = False
        if required:
            written["required"] = required
        return written


def _list(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise _NotSimpleError
    return value


def _scalars(names: list[JsonValue]) -> Schema:
    texts = {name for name in names if isinstance(name, str)}
    if len(texts) < len(names) or not texts <= _SCALARS or not texts:
        raise _NotSimpleError
    if "number" in texts:
        texts.discard("integer")
    written: list[JsonValue] = [name for name in _SCALARS if name in texts]
    return {"type": written[0] if len(written) == 1 else written}


def _bounds(schema: Schema, lowest: str, highest: str, least: int) -> Schema:
    """Return two bounds that are whole numbers, without a count from 0, which restricts nothing."""
    written: Schema = {}
    before = least
    for keyword in (lowest, highest):
        bound = schema.get(keyword, before)
        if type(bound) is not int or not before <= bound <= COUNT_LIMIT:
            raise _NotSimpleError
        before = bound
        if keyword in schema and (keyword == highest or bound or least):
            written[keyword] = bound
    return written
