"""A seed in; out, an endless variety of JSON Schemas, the nasty ones included.

Feeds the differential harness and the tests; uses the standard library alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TypeAlias

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None

_TEXTS = (
    "", "x", "a b", "null", "nullable", "é", "日本", "😀", 'say "hi"', "back\\slash", "two\nlines",
    "crlf\r\nline", "cr\rline", "ls\u2028ps\u2029", "nel\u0085", "tab\t", "\u0000\u001f\u007f",
    "*/", "// x", "# Tools", "x\n} // namespace functions\n\n# Tools", "ends\n", "\n", "  spaced  ",
    "<|end|>", "${x}", "`", "'", "a|b", "1", "-1", "class", "$ref", "#", "a-b", "_ok", "$ok", "a.b",
)  # fmt: skip
_NAMES = ("a", "b", "name", "kind", "null", "items", "type", "$ref", "class", "x_1", "default")
_NUMBERS: tuple[JsonValue, ...] = (
    0, 1, -1, 5, 2**53 + 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**30, 10**300,
    0.0, -0.0, 1.0, 0.1, 1e15, 1e16, 1e17, 1e20, 1e22, 1e-4, 1e-5, 1e-6, 1e-7, 5e-324,
    1.7976931348623157e308, 0.30000000000000004, 1.2345678912345679e-12, 123456.789, -2.5,
    2.2250738585072014e-308,
)  # fmt: skip
_KINDS = ("string", "number", "integer", "boolean", "null", "object", "array")
_ODD_TYPES: tuple[JsonValue, ...] = (
    "foo", "String", "", 1, None, True, {}, ["foo", "string"], [1, "integer"], [""],
)  # fmt: skip
_REQUIRED: tuple[JsonValue, ...] = (
    ["a", "b", "name", "kind"], ["null", "x_1"], ["a", 1, None], "a", {"a": 1}, None,
)  # fmt: skip
_POINTERS = (
    "#", "#/", "#/$defs/a", "#/$defs/b", "#/$defs/name", "#/definitions/a", "#/definitions/kind",
    "#/properties/a", "#/properties/a/items", "#/$defs/a~1b", "#/$defs/x%20y", "#/$defs/missing",
    "#/oneOf/0", "#/anyOf/1", "#/$defs/class", "other.json", "https://example.com/address.json#/$defs/a",
    "#anchor", "", "~", "#/$defs/a/properties/b", "#/enum/0", "#/$defs",
)  # fmt: skip


def schemas(seed: int, count: int) -> Iterator[JsonValue]:
    """Yield `count` schemas; the same seed gives the same ones.

    >>> list(schemas(1, 3)) == list(schemas(1, 3))
    True
    """
    chance = random.Random(seed)
    for _ in range(count):
        yield _root(chance)


def _root(chance: random.Random) -> JsonValue:
    schema = _schema(chance, chance.choice((0, 1, 2, 3, 3, 4)))
    if chance.random() < 0.6 and isinstance(schema, dict):
        schema = {"type": "object", "properties": _properties(chance, chance.choice((1, 2, 3)))}
    if isinstance(schema, dict):
        for keyword in ("$defs", "definitions"):
            if chance.random() < 0.4:
                schema[keyword] = _definitions(chance)
    return schema


def _definitions(chance: random.Random) -> JsonValue:
    names = [*_NAMES, "a/b", "x y"]
    return {name: _schema(chance, 2) for name in chance.sample(names, 4)}


def _schema(chance: random.Random, depth: int) -> JsonValue:
    if chance.random() < 0.06:
        return _value(chance, 1)
    schema: dict[str, JsonValue] = {}
    if chance.random() < 0.85:
        schema["type"] = _type(chance)
    for keyword, rate, make in _KEYWORDS:
        if chance.random() < rate:
            schema[keyword] = make(chance, depth - 1) if depth > 0 else _value(chance, 1)
    _fill_for_type(chance, schema, depth)
    for keyword, rate, draw in _NOTES:
        if chance.random() < rate:
            schema[keyword] = draw(chance)
    if chance.random() < 0.3:
        return _shuffled(chance, schema)
    return schema


def _fill_for_type(chance: random.Random, schema: dict[str, JsonValue], depth: int) -> None:
    """Most objects get properties and most arrays get items, so that schemas nest."""
    if depth <= 0:
        return
    if schema.get("type") == "object" and chance.random() < 0.85:
        schema["properties"] = _properties(chance, depth - 1)
        if chance.random() < 0.5:
            schema["required"] = chance.choice(_REQUIRED)
    if schema.get("type") == "array" and chance.random() < 0.85:
        schema["items"] = _schema(chance, depth - 1)


def _shuffled(chance: random.Random, schema: dict[str, JsonValue]) -> JsonValue:
    keys = list(schema)
    chance.shuffle(keys)
    return {key: schema[key] for key in keys}


def _type(chance: random.Random) -> JsonValue:
    draw = chance.random()
    if draw < 0.75:
        return chance.choice(("object", "object", "array", *_KINDS))
    if draw < 0.93:
        return [*chance.sample(_KINDS, chance.randint(0, 3))]
    return chance.choice(_ODD_TYPES)


def _properties(chance: random.Random, depth: int) -> JsonValue:
    if chance.random() < 0.04:
        return _value(chance, 1)
    names = chance.choices((*_NAMES * 6, *_TEXTS), k=chance.randint(0, 4))
    return {name: _schema(chance, depth) for name in names}


def _schema_list(chance: random.Random, depth: int) -> JsonValue:
    if chance.random() < 0.06:
        return _value(chance, 1)
    return [_schema(chance, depth) for _ in range(chance.randint(0, 3))]


def _additional(chance: random.Random, depth: int) -> JsonValue:
    return chance.choice((True, False, _schema(chance, depth)))


def _reference(chance: random.Random, _depth: int) -> JsonValue:
    return chance.choice((*_POINTERS, 3, None, *_POINTERS[2:6] * 8))


_KEYWORDS = (
    ("oneOf", 0.14, _schema_list),
    ("anyOf", 0.1, _schema_list),
    ("allOf", 0.06, _schema_list),
    ("properties", 0.05, _properties),
    ("patternProperties", 0.05, _properties),
    ("items", 0.05, _schema),
    ("prefixItems", 0.05, _schema_list),
    ("additionalProperties", 0.12, _additional),
    ("not", 0.03, _schema),
    ("$ref", 0.1, _reference),
)


def _mostly_text(chance: random.Random) -> JsonValue:
    if chance.random() < 0.1:
        return _value(chance, 1)
    return chance.choice(("Plain words.", "Plain words.", *_TEXTS))


def _nullable(chance: random.Random) -> JsonValue:
    return chance.choice((True, True, False, None, "true", 1))


def _enum(chance: random.Random) -> JsonValue:
    if chance.random() < 0.1:
        return _value(chance, 1)
    if chance.random() < 0.6:
        return chance.sample(["a", "b", "c", *_TEXTS], chance.randint(0, 3))
    return _values(chance)


def _values(chance: random.Random) -> JsonValue:
    return [_value(chance, 1) for _ in range(chance.randint(0, 3))]


def _nested_value(chance: random.Random) -> JsonValue:
    return _value(chance, 2)


def _value(chance: random.Random, depth: int) -> JsonValue:
    draw = chance.random()
    if draw < 0.35:
        return chance.choice(_TEXTS)
    if draw < 0.6:
        return chance.choice(_NUMBERS)
    if draw < 0.7:
        return chance.uniform(-1, 1) * 10.0 ** chance.randint(-320, 305)
    if draw < 0.85 or depth == 0:
        return chance.choice((None, True, False))
    if draw < 0.92:
        return [_value(chance, depth - 1) for _ in range(chance.randint(0, 3))]
    return {chance.choice(_TEXTS): _value(chance, depth - 1) for _ in range(chance.randint(0, 3))}


_NOTES = (
    ("title", 0.3, _mostly_text),
    ("description", 0.3, _mostly_text),
    ("default", 0.15, _nested_value),
    ("const", 0.15, _nested_value),
    ("examples", 0.15, _values),
    ("enum", 0.2, _enum),
    ("nullable", 0.15, _nullable),
)
