"""Simple schemas are written as they stand, and mean what they would mean state by state."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony.grammar import GrammarError
from gpt_oss_harmony.grammar.json_schema import loosening
from gpt_oss_harmony.grammar.json_schema.simple_schemas import Frame
from support.examples import examples
from support.json_matcher import accepts_value, json_matcher
from support.random_schemas import VALUES, SchemaMaker, orders

names = st.sampled_from(["a", "b", "a b", "", "é", "\x00", "日本"])
silent = st.fixed_dictionaries(
    {}, optional={"title": st.just("A"), "description": st.just(""), "default": st.just(1)}
)
scalars = ["null", "boolean", "number", "integer", "string"]


def bounded(kind: str, lowest: str, highest: str) -> st.SearchStrategy[dict[str, Any]]:
    numbers = st.integers(0, 9) | st.sampled_from([-1, -(2**53), 2**60, 0.5, True, 10**7])
    return st.fixed_dictionaries(
        {"type": st.just(kind)}, optional={lowest: numbers, highest: numbers}
    )


leaves = st.one_of(
    st.just({}),
    st.sampled_from([*scalars, "array", "object", "any", None]).map(lambda name: {"type": name}),
    st.lists(st.sampled_from([*scalars, "array"]), max_size=6).map(lambda some: {"type": some}),
    bounded("string", "minLength", "maxLength"),
    bounded("integer", "minimum", "maximum"),
    bounded("number", "minimum", "maximum"),
    st.fixed_dictionaries(
        {"enum": st.lists(names | st.integers(0, 1), max_size=4)},
        optional={"type": st.sampled_from(["string", "integer"])},
    ),
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    counts = {"minItems": st.integers(0, 3), "maxItems": st.integers(0, 3)}
    return st.one_of(
        st.fixed_dictionaries({"type": st.just("array")}, optional={"items": inner, **counts}),
        st.lists(inner, max_size=3).map(lambda options: {"anyOf": options}),
        st.fixed_dictionaries(
            {"type": st.just("object")},
            optional={
                "properties": st.dictionaries(names, inner, max_size=4),
                "required": st.lists(names | st.just(1), max_size=2),
                "additionalProperties": st.sampled_from([False, None, 0, True, {}]),
            },
        ),
    )


schemas = st.recursive(leaves, containers, max_leaves=12).flatmap(
    lambda schema: silent.map(lambda words: {**schema, **words})
)


class Whole(Frame):
    """The frame of a schema that is not simple."""

    def __init__(self, root: Any) -> None:
        super().__init__(root)
        self.make_empty()


def written_state_by_state(schema: Any) -> Any:
    with patch.object(loosening, "Frame", Whole):
        return loosening.loosened_schema(schema)


def written(schema: Any) -> Any:
    """Return a simple schema as it is written; None for others."""
    frame = Frame(schema)
    return None if frame.parts else frame.filled([], {})


@settings(max_examples=examples(400))
@given(schemas)
def test_a_simple_schema_is_written_as_its_states_are(schema: Any) -> None:
    simple = written(schema)
    if simple is not None:
        assert json.dumps(simple) == json.dumps(written_state_by_state(schema).schema)


@settings(max_examples=examples(50))
@given(st.integers(0, 2**32), st.integers(0, 2**32), schemas)
def test_parts_mean_the_same_inside_a_simple_schema(one: int, other: int, schema: Any) -> None:
    part, shared = (SchemaMaker(seed).document(1) for seed in (one, other))
    definitions = {**shared.pop("$defs", {}), **part.pop("$defs", {}), "shared": shared}
    whole = {
        "properties": {"a": part, "b": {"$ref": "#/$defs/shared"}, "c": schema},
        "items": {"$ref": "#/$defs/shared"},
        "$defs": definitions,
    }
    try:
        expected = written_state_by_state(whole)
    except GrammarError:
        return
    found = loosening.loosened_schema(whole)
    named = [
        {(error.pointer, error.problem) for error in made.unenforced} for made in (found, expected)
    ]
    assert named[0] == named[1]
    matchers = json_matcher(found.schema), json_matcher(expected.schema)
    for value in VALUES:
        for inside in [[value], *({name: value} for name in "abc")]:
            for ordered in orders(inside):
                accepted = [accepts_value(made, ordered) for made in matchers]
                assert accepted[0] is accepted[1], ordered


SIMPLE = [
    {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"},
    {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What to say", "minLength": 1},
            "limit": {"type": "integer", "minimum": -5, "maximum": 5, "default": 1},
            "unit": {"type": "string", "enum": ["°C", "°F"]},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 0},
            "either": {"anyOf": [{"type": ["string", "integer"]}, {"type": "null"}]},
        },
        "required": ["unit", "text"],
        "additionalProperties": False,
    },
]


@pytest.mark.parametrize("schema", SIMPLE)
def test_the_schemas_of_tools_are_simple(schema: Any) -> None:
    simple = written(schema)
    assert simple is not None
    assert json.dumps(simple) == json.dumps(written_state_by_state(schema).schema)


def nested(levels: int) -> dict[str, Any]:
    return {"type": "array", "items": nested(levels - 1)} if levels else {"type": "string"}


WITH_PARTS: list[tuple[Any, list[Any]]] = [
    # the schema, and its parts; without a frame, the schema is its only part
    ({"items": {"multipleOf": 3}}, [{"multipleOf": 3}]),
    ({"items": {"pattern": "^[ab]{2,50}b"}}, [{"pattern": "^[ab]{2,50}b"}]),
    ({"type": "string", "pattern": "^[a-z]{1,255}$"}, []),
    ({"type": "string", "format": "email"}, []),
    ({"type": "string", "format": "email", "maxLength": 9}, [...]),
    ({"oneOf": [{"type": "string"}, {"type": "null"}]}, []),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, [...]),
    ({"type": "integer", "minimum": 2, "maximum": 1}, [...]),
    ({"type": "object", "required": ["a"]}, []),
    ({"type": "object", "required": ["a"], "additionalProperties": False}, [...]),
    ({"enum": ["a", "a"]}, [...]),
    ({"enum": ["\x00"]}, [...]),
    ({"$ref": "#"}, [...]),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}, []),
    (
        {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}},
        [{"$ref": "#/$defs/a"}],
    ),
    (
        {
            "items": {"$ref": "#/definitions/a"},
            "definitions": {"a": {"properties": {"b": {"$id": "/c", "type": "null"}}}},
        },
        [...],
    ),
    ({"type": "object", "properties": {"a": False}}, [...]),
    (nested(25), [...]),
    ({"enum": [str(number) for number in range(1001)]}, [...]),
    ({"type": "object", "properties": {str(number): {} for number in range(1000)}}, [...]),
]


@pytest.mark.parametrize(("schema", "parts"), WITH_PARTS)
def test_others_have_parts(schema: Any, parts: list[Any]) -> None:
    assert Frame(schema).parts == ([schema] if parts == [...] else parts)


def test_a_definition_is_written_once() -> None:
    node = {"type": "object", "properties": {"a": {"type": "string", "format": "date"}}}
    schema = {
        "properties": {name: {"$ref": "#/$defs/node"} for name in "abc"},
        "$defs": {"node": node, "unused": {"type": "object"}},
    }
    assert list(written(schema)["$defs"]) == ["0"]
    assert written(schema)["properties"]["c"] == {"$ref": "#/$defs/0"}
