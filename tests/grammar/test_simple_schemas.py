"""Schemas of few keywords are written at once, as they would be written state by state."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony.grammar import enforceable_schema
from gpt_oss_harmony.grammar.json_schema import loosening
from gpt_oss_harmony.grammar.json_schema.simple_schemas import simple_schema
from support.examples import examples

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


def written_state_by_state(schema: Any) -> Any:
    with patch.object(loosening, "simple_schema", lambda schema: None):
        return enforceable_schema(schema)


@settings(max_examples=examples(400))
@given(schemas)
def test_a_simple_schema_is_written_as_its_states_are(schema: Any) -> None:
    written = simple_schema(schema)
    if written is not None:
        assert json.dumps(written) == json.dumps(written_state_by_state(schema))


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
    written = simple_schema(schema)
    assert written is not None
    assert json.dumps(written) == json.dumps(written_state_by_state(schema))


def nested(levels: int) -> dict[str, Any]:
    return {"type": "array", "items": nested(levels - 1)} if levels else {"type": "string"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "a"},
        {"type": "integer", "minimum": 2, "maximum": 1},
        {"type": "object", "required": ["a"]},
        {"$ref": "#"},
        {"enum": ["a", "a"]},
        {"enum": ["\x00"]},
        {"type": "object", "properties": {"a": False}},
        nested(8),
        {"enum": [str(number) for number in range(501)]},
        {"type": "object", "properties": {str(number): {} for number in range(500)}},
        True,
    ],
)
def test_others_are_taken_apart(schema: Any) -> None:
    assert simple_schema(schema) is None
