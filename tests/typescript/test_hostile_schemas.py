"""JSON Schemas that are deep, wide or wrong: written once, or refused with a `SchemaError`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, get_args

import pytest

from gpt_oss_harmony import (
    Conversation,
    DeveloperContent,
    Message,
    RenderConversationConfig,
    Role,
    SchemaDialect,
    SchemaError,
    ToolDescription,
    load_harmony_encoding,
)
from gpt_oss_harmony.rendering.system_prompt import tool_declaration

ENCODING = load_harmony_encoding("HarmonyGptOss")
DIALECTS: tuple[SchemaDialect, ...] = get_args(SchemaDialect)


def _nested(levels: int, wrap: Callable[[Any], Any]) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = wrap(schema)
    return schema


WRAPPINGS: dict[str, Callable[[Any], Any]] = {
    "items": lambda inner: {"items": inner},
    "properties": lambda inner: {"type": "object", "properties": {"a": inner}},
    "additionalProperties": lambda inner: {"additionalProperties": inner},
    "patternProperties": lambda inner: {"patternProperties": {"x": inner}},
    "allOf": lambda inner: {"allOf": [inner, {"properties": {"a": True}}]},
    "anyOf": lambda inner: {"anyOf": [inner, {"type": "object"}], "description": "x"},
    "oneOf": lambda inner: {"oneOf": [inner, {"type": "array", "description": "y"}]},
    "nullable": lambda inner: {"anyOf": [inner, {"type": "null"}], "nullable": True},
    "prefixItems": lambda inner: {"prefixItems": [inner, False], "items": True},
    "default": lambda inner: {"default": inner},
    "enum": lambda inner: {"enum": [inner]},
}


def _developer(schema: dict[str, Any]) -> Message:
    content = (
        DeveloperContent.new()
        .with_function_tools([ToolDescription.new("f", "Does.", schema)])
        .with_response_format("r", schema)
    )
    return Message.from_role_and_content(Role.DEVELOPER, content)


def _render(schema: dict[str, Any], dialect: SchemaDialect) -> str:
    config = RenderConversationConfig(schema_dialect=dialect)
    conversation = Conversation.from_messages([_developer(schema)])
    return ENCODING.decode_utf8(ENCODING.render_conversation(conversation, config))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("wrap", WRAPPINGS.values(), ids=WRAPPINGS)
def test_nesting_is_written_or_refused(wrap: Callable[[Any], Any], dialect: SchemaDialect) -> None:
    assert _render(_nested(25, wrap), dialect)
    for levels in (121, 1000, 20_000):
        with pytest.raises(SchemaError, match="nested deeper"):
            _render(_nested(levels, wrap), dialect)


@pytest.mark.parametrize("wrap", WRAPPINGS.values(), ids=WRAPPINGS)
def test_the_deepest_schemas_need_no_deep_stack(wrap: Callable[[Any], Any]) -> None:
    levels = next(n for n in range(120, 0, -1) if _depth(_nested(n, wrap)) <= 119)
    results: list[str] = []
    thread = threading.Thread(
        target=lambda: results.extend(_render(_nested(levels, wrap), d) for d in DIALECTS)
    )
    thread.start()  # on a stack of its own, as a server has it
    thread.join()
    assert len(results) == 2


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0) if isinstance(value, (dict, list)) else 0


def _fan_out(levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for level in range(1, levels):
        reference = {"$ref": f"#/$defs/d{level - 1}"}
        definitions[f"d{level}"] = {"properties": {"l": reference, "r": dict(reference)}}
    return {"$defs": definitions, "properties": {"x": {"$ref": f"#/$defs/d{levels - 1}"}}}


def _borrowing(definition: dict[str, Any]) -> dict[str, Any]:
    reference = {"$ref": "#/$defs/big"}
    properties = {f"p{number}": dict(reference) for number in range(3000)}
    return {"$defs": {"big": definition}, "properties": properties}


def _wrong_types() -> dict[str, Any]:
    values: tuple[Any, ...] = (
        None,
        True,
        5,
        1.5,
        "x",
        "\n",
        [],
        {},
        [1, None, [], {}],
        {"a": 5, "b": []},
    )
    keywords = "type properties required enum const items anyOf oneOf allOf $ref description title"
    keywords += " default examples additionalProperties patternProperties prefixItems nullable"
    keywords += " additionalItems $defs definitions"
    schemas = {
        f"{keyword}{index}": {"type": "object", keyword: value, "x": {keyword: value}}
        for keyword in keywords.split()
        for index, value in enumerate(values)
    }
    return {"properties": schemas, "anyOf": list(schemas.values())}


WIDE_SCHEMAS: dict[str, dict[str, Any]] = {
    "properties": {
        "type": "object",
        "properties": {f"p{n}": {"type": "string"} for n in range(5000)},
        "required": [f"p{n}" for n in range(100_000)],
    },
    "enum": {"properties": {"e": {"enum": [f"v{n}" for n in range(50_000)]}}},
    "anyOf": {"anyOf": [{"properties": {"a": {"const": n}}} for n in range(3000)]},
    "allOf": {"allOf": [{"properties": {f"a{n}": {}}} for n in range(3000)]},
    "itself": {"$ref": "#"},
    "a ring": {"anyOf": [{"$ref": f"#/anyOf/{(n + 1) % 3000}"} for n in range(3000)]},
    "two definitions": {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
                        "items": {"$ref": "#/$defs/a"}},
    "fan-out": _fan_out(59),
    "a large enum": _borrowing({"enum": [f"value {n}" for n in range(20_000)]}),
    "a large description": _borrowing({"type": "string", "description": "x" * 200_000}),
    "a large default": _borrowing({"type": "string", "default": ["x"] * 20_000}),
    "a large title": {"title": "t" * 100_000, "properties": {f"p{n}": {"$ref": "#"}
                                                             for n in range(3000)}},
    "long pointers": {"properties": {f"p{n}": {"$ref": "#/" + "a/" * 500} for n in range(1000)}},
    "wrong types": _wrong_types(),
    "booleans": {"properties": {"a": True, "b": False}, "items": True, "allOf": [True, False]},
}  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("schema", WIDE_SCHEMAS.values(), ids=WIDE_SCHEMAS)
def test_wide_schemas_are_written_once(schema: dict[str, Any], dialect: SchemaDialect) -> None:
    declaration = tool_declaration(ToolDescription.new("f", "", schema), dialect)
    assert len(declaration) < 3_000_000
    assert declaration.startswith("type f = ")
    assert _render(schema, dialect)


@pytest.mark.slow
def test_shared_objects_are_counted_each_time() -> None:
    schema = _nested(50, lambda inner: {"properties": {"a": inner, "b": inner}})
    with pytest.raises(SchemaError, match="more than 1,000,000 objects"):
        tool_declaration(ToolDescription.new("f", "", schema))
    for dialect in DIALECTS:
        with pytest.raises(SchemaError, match="more than 1,000,000 objects"):
            _render(schema, dialect)


def test_a_schema_that_holds_itself_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"a": schema}
    for dialect in DIALECTS:
        with pytest.raises(SchemaError, match="nested deeper"):
            _render(schema, dialect)
