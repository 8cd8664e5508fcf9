"""JSON Schemas under the grammar engine: all that is invalid is rejected, or the schema refused."""

from __future__ import annotations

import contextlib
import json
import random
import re
from collections.abc import Iterator
from enum import Enum
from functools import cache
from itertools import permutations, product
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from llguidance import LLMatcher
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from gpt_oss_harmony import HarmonyError
from gpt_oss_harmony.grammar.errors import GrammarError
from gpt_oss_harmony.grammar.json_schema import (
    disjunctive_form,
    documents,
    enforceable_schema,
    intersection,
    keywords,
    loosened_schema,
    schema_writer,
)
from gpt_oss_harmony.grammar.json_schema.budget import STEP_LIMIT
from gpt_oss_harmony.grammar.json_schema.formats import FORMATS, REFUSED_FORMATS
from support.examples import examples
from support.json_matcher import accepts_text, json_matcher
from support.llguidance_version import BEFORE_1_8, is_read_differently
from support.random_schemas import ObjectMaker, SchemaMaker

DATA = Path(__file__).parents[1] / "data" / "grammar"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "json-schema.md"
FEATURES: list[dict[str, Any]] = json.loads((DATA / "features.json").read_text(encoding="utf-8"))
OVERSTRICT: dict[str, list[str]] = json.loads(
    (DATA / "overstrict.json").read_text(encoding="utf-8")
)
BY_NAME = {feature["name"]: feature for feature in FEATURES}


def texts_of(value: Any) -> set[str]:
    """A value as models write it: compact, with spaces, with new lines."""
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return {
        compact,
        json.dumps(value, ensure_ascii=False),
        json.dumps(value, ensure_ascii=False, separators=(",\n  ", ": ")),
    }


def exists(document: Any, pointer: str) -> bool:
    place = document
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, list):
            place = place[int(key)] if int(key) < len(place) else None
        else:
            place = place.get(key)
        if place is None:
            return False
    return pointer.startswith("#")


@cache
def enforced_feature(name: str) -> dict[str, Any] | bool | GrammarError:
    try:
        return enforceable_schema(BY_NAME[name]["schema"])
    except GrammarError as error:
        return error


# The recorded features


@pytest.mark.parametrize("name", BY_NAME)
def test_a_feature_is_enforced_exactly_or_refused(name: str) -> None:
    feature = BY_NAME[name]
    enforced = enforced_feature(name)
    if isinstance(enforced, GrammarError):
        assert exists(feature["schema"], enforced.pointer), enforced.pointer
        assert enforced.remedy
        return
    assert not feature.get("unsatisfiable")
    assert not feature.get("broken")
    made = json_matcher(enforced)
    invalid = {
        text
        for value in feature["invalid"] + feature.get("invalid_unchecked", [])
        for text in texts_of(value) | {json.dumps(value)}
    }
    for text in invalid | set(feature.get("invalid_texts", [])):
        assert not accepts_text(made, text) or is_read_differently(enforced, text), text
    valid = {text for value in feature["valid"] for text in texts_of(value)}
    valid.update(feature.get("valid_texts", []))
    rejected = sorted(text for text in valid if not accepts_text(made, text))
    for texts in (rejected, expected := list(OVERSTRICT.get(name, []))):
        texts[:] = [text for text in texts if not is_read_differently(enforced, text)]
    assert rejected == expected


def test_only_features_are_called_overstrict() -> None:
    assert OVERSTRICT.keys() <= BY_NAME.keys()
    for name in OVERSTRICT:
        assert not isinstance(enforced_feature(name), GrammarError)


# References, in place and inside

NODE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
    "required": ["v"],
    "additionalProperties": False,
}

MEANINGS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    # name: schema, values that it allows, values that it does not
    "old tuple": (
        {"items": [{"type": "string"}, {"type": "integer"}], "additionalItems": False},
        [["a"], ["a", 1], []],
        [[1], ["a", 1, 2]],
    ),
    "old tuple with more": (
        {"items": [{"type": "string"}], "additionalItems": {"type": "integer"}},
        [["a", 1, 2]],
        [["a", "b"]],
    ),
    "additionalItems beside prefixItems is nothing": (
        {"prefixItems": [{"type": "string"}], "additionalItems": False},
        [["a", 1]],
        [[1]],
    ),
    "sibling of a recursive reference": (
        {
            "$defs": {"node": NODE},
            "properties": {"n": {"$ref": "#/$defs/node", "required": ["next"]}},
            "required": ["n"],
        },
        [{"n": {"v": 1, "next": {"v": 2}}}],
        [{"n": {"v": 1}}, {"n": {"v": 1, "next": {}}}],
    ),
    "two recursive schemas at once": (
        {
            "$defs": {
                "a": {"properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["p"]},
                "b": {"properties": {"x": {"$ref": "#/$defs/b"}}, "required": ["q"]},
            },
            "type": "object",
            "allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
        },
        [{"p": 1, "q": 2}, {"x": {"p": 1, "q": 2}, "p": 1, "q": 2}],
        [{"p": 1}, {"x": {"p": 1}, "p": 1, "q": 2}],
    ),
    "optional property that is impossible": (
        {
            "$defs": {"no": {"type": "string", "enum": [1]}},
            "properties": {"a": {"$ref": "#/$defs/no"}},
        },
        [{}, {"b": 1}],
        [{"a": 1}, {"a": "1"}],
    ),
    "endless alternative is dropped": (
        {
            "$defs": {"e": {"type": "array", "items": {"$ref": "#/$defs/e"}, "minItems": 1}},
            "anyOf": [{"$ref": "#/$defs/e"}, {"type": "null"}],
        },
        [None],
        [[], [[]]],
    ),
    "refused only where it matters": (
        {
            "$defs": {"unused": {"not": {}}},
            "type": "integer",
            "uniqueItems": True,
            "propertyNames": {"not": {}},
        },
        [1],
        ["a", []],
    ),
    "unique items of which there is one": (
        {"type": "array", "uniqueItems": True, "maxItems": 1},
        [[], [1]],
        [[1, 1]],
    ),
    "harmless keywords": (
        {
            "not": False,
            "if": {"type": "string"},
            "uniqueItems": False,
            "contains": {},
            "minContains": 0,
            "dependentRequired": {},
            "propertyNames": True,
        },
        [[1, 1], "a", {"b": 1}],
        [],
    ),
    "unevaluated beside properties": (
        {"properties": {"a": {}}, "unevaluatedProperties": False, "type": "object"},
        [{}, {"a": 1}],
        [{"b": 1}],
    ),
    "pattern and properties of two schemas": (
        {
            "allOf": [
                {"patternProperties": {"^x": {"type": "integer"}}},
                {"properties": {"xa": {"minimum": 3}, "b": {"type": "string"}}},
                {"additionalProperties": {"type": ["integer", "string"]}},
            ],
            "type": "object",
        },
        [{"xa": 3, "b": "c", "x": 0, "d": "e"}],
        [{"xa": 2}, {"xa": "a"}, {"x": "a"}, {"b": 1}, {"d": None}],
    ),
    "enum of values that other schemas allow": (
        {
            "enum": [1, 1.5, "ab", "abc", [1], ["a"], {"a": 1}, {"b": 1}, None, True],
            "minimum": 1.2,
            "maxLength": 2,
            "items": {"type": "integer"},
            "required": ["a"],
            "anyOf": [{"type": ["number", "string", "array"]}, {"type": ["object", "null"]}],
        },
        [1.5, "ab", [1], {"a": 1}, None],
        [1, "abc", ["a"], {"b": 1}, True],
    ),
    "const in an enum": ({"enum": [1, 2], "const": 2.0}, [2], [1]),
    "number without its bound": (
        {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5},
        [0.5, 0.1, 0.25, 0.001],
        [0, 0.51, -0.1, 1],
    ),
    "number with fewer digits than its bound": (
        {"type": "number", "minimum": -5.61, "maximum": 1.96},
        [1.9, 1.96, -5.6, -5.61, 0],
        [1.97, -5.62, 2],
    ),
    "steps of two": (
        {"type": "number", "allOf": [{"multipleOf": 0.5}, {"multipleOf": 0.75}]},
        [0, 1.5, 3],
        [0.5, 0.75, 1],
    ),
    "steps with fewer decimals": (
        {"type": "number", "multipleOf": 0.125, "maximum": 1},
        [0.125, 0.25, 0.5, 1, -0.5],
        [0.1, 0.2, 0.12, 1.5],
    ),
    "at most one of three": (
        {
            "type": "object",
            "properties": {"a": {}, "b": {}, "c": {}},
            "additionalProperties": False,
            "maxProperties": 1,
        },
        [{}, {"a": 1}, {"c": 1}],
        [{"a": 1, "b": 1}],
    ),
    "one or two of three": (
        {
            "type": "object",
            "properties": {"a": {}, "b": {}, "c": {}},
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 2,
        },
        [{"a": 1}, {"b": 1, "c": 1}],
        [{}, {"a": 1, "b": 1, "c": 1}],
    ),
    "one of any": (
        {"type": "object", "properties": {"a": {"type": "integer"}}, "minProperties": 1},
        [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}],
        [{}, {"a": "1"}],
    ),
    "no more than are required": (
        {"type": "object", "required": ["a"], "properties": {"b": {}}, "maxProperties": 1},
        [{"a": 1}],
        [{"a": 1, "b": 1}, {"a": 1, "c": 1}, {}],
    ),
    "listed names": (
        {
            "$defs": {"n": {"enum": ["a", "b", 1]}},
            "type": "object",
            "properties": {"b": {"type": "string"}, "c": {}},
            "additionalProperties": {"type": "integer"},
            "propertyNames": {"$ref": "#/$defs/n"},
        },
        [{}, {"a": 1}, {"a": 1, "b": "c"}],
        [{"a": "b"}, {"b": 1}, {"c": 1}, {"d": 1}],
    ),
    "names with a pattern": (
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "1": {}},
            "propertyNames": {"pattern": "^[a-z]"},
        },
        [{}, {"a": "b"}, {"ab": 1}],
        [{"a": 1}, {"1": 1}, {"B": 1}],
    ),
    "short names": (
        {"type": "object", "propertyNames": {"maxLength": 2}, "additionalProperties": {"const": 1}},
        [{}, {"ab": 1}, {"": 1}, {"é": 1}],
        [{"abc": 1}, {"a": 2}],
    ),
    "no names": ({"type": "object", "propertyNames": {"const": 1}}, [{}], [{"a": 1}]),
    "properties or null": (
        {"type": ["object", "null"], "properties": {"a": {}}, "minProperties": 1},
        [None, {"a": 1}, {"b": 1}],
        [{}, 1],
    ),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_a_schema_keeps_its_meaning(name: str) -> None:
    schema, valid, invalid = MEANINGS[name]
    made = json_matcher(enforceable_schema(schema))
    judge = Draft202012Validator(schema) if not name.startswith("old") else None
    for expected, values in ((True, valid), (False, invalid)):
        for value in values:
            assert judge is None or judge.is_valid(value) is expected, value
            for text in texts_of(value):
                if not is_read_differently(schema, text):
                    assert accepts_text(made, text) is expected, text


# oneOf


def tagged(tag: Any, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"kind": tag, **properties},
        "required": ["kind"],
    }


APART: dict[str, list[Any]] = {
    "types": [{"type": "string"}, {"type": "integer"}, {"type": ["null", "boolean"]}],
    "constants": [{"const": 1}, {"const": 2}, {"const": "1"}, {"const": True}],
    "constant and type": [{"const": 1}, {"type": "string"}],
    "ranges": [{"type": "integer", "maximum": 5}, {"type": "integer", "exclusiveMinimum": 5}],
    "lengths": [{"type": "string", "maxLength": 2}, {"type": "string", "minLength": 3}],
    "array lengths": [{"type": "array", "maxItems": 1}, {"type": "array", "minItems": 2}],
    "first items": [
        {"type": "array", "prefixItems": [{"const": "a"}], "minItems": 1},
        {"type": "array", "prefixItems": [{"const": "b"}], "minItems": 1},
    ],
    "tags": [tagged({"const": "a"}), tagged({"enum": ["b", "c"]}), tagged({"const": "d"})],
    "tags of types": [tagged({"type": "string"}), tagged({"type": "integer"})],
    "tag or null": [tagged({"const": "a"}), {"type": "null"}],
    "required or forbidden": [
        {"type": "object", "required": ["a"]},
        {"type": "object", "properties": {"a": False}},
    ],
    "closed": [
        {
            "type": "object",
            "required": ["a"],
            "properties": {"a": {}},
            "additionalProperties": False,
        },
        {
            "type": "object",
            "required": ["b"],
            "properties": {"b": {}},
            "additionalProperties": False,
        },
    ],
    "references": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
    "alternatives": [
        {"anyOf": [{"const": 1}, {"const": 2}]},
        {"anyOf": [{"const": 3}, {"type": "string"}]},
    ],
}

DEFINITIONS = {
    "a": tagged({"const": "a"}, next={"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}),
    "b": tagged({"const": "b"}),
}

OVERLAPPING: dict[str, list[Any]] = {
    "number and integer": [{"type": "number"}, {"type": "integer"}],
    "arrays of any length": [{"items": {"type": "string"}}, {"items": {"type": "integer"}}],
    "multiples": [{"multipleOf": 2}, {"multipleOf": 3}],
    "categories": [{"pattern": "\\p{Lu}"}, {"pattern": "a"}],
}


@pytest.mark.parametrize("name", APART)
def test_one_of_schemas_that_exclude_each_other_is_any_of(name: str) -> None:
    enforced = enforceable_schema({"oneOf": APART[name], "$defs": DEFINITIONS})
    assert enforced == enforceable_schema({"anyOf": APART[name], "$defs": DEFINITIONS})
    json_matcher(enforced)


@pytest.mark.parametrize("name", OVERLAPPING)
def test_one_of_schemas_that_may_overlap_is_refused(name: str) -> None:
    with pytest.raises(GrammarError) as caught:
        enforceable_schema({"properties": {"a": {"oneOf": OVERLAPPING[name]}}})
    assert caught.value.pointer == "#/properties/a/oneOf"


# Refusals


LISTED = [f"x{letter * 6}" for letter in "abcdef"]  # too many for a pattern without them

REFUSED: dict[str, tuple[Any, str]] = {
    # pointer: schema, what the message says
    "#/properties/tags/uniqueItems": (
        {"properties": {"tags": {"type": "array", "uniqueItems": True}}},
        "cannot remember",
    ),
    "#/not": ({"not": {"type": "integer"}}, "distinguished from the others"),
    "#/if": (
        {"if": {"items": {"type": "null"}}, "then": {"minItems": 1}},
        "distinguished from the others",
    ),
    "#/propertyNames": ({"propertyNames": {"anyOf": [{"pattern": "a"}]}}, "the allowed names"),
    "#/$dynamicRef": ({"$dynamicRef": "#a"}, "leads to no schema"),
    "#/minimum": ({"minimum": 2**63}, "64 bits"),
    "#/maximum": ({"maximum": -(2**63) - 1}, "64 bits"),
    "#/const": ({"const": 2**53}, "2**53"),
    "#/enum": ({"enum": [{"a": [-(2**63)]}]}, "2**53"),
    "#/items/const": ({"items": {"const": "\x07"}}, "U+0007"),
    "#/multipleOf": ({"type": "integer", "multipleOf": 1000003}, "remainders"),
    "#/items/multipleOf": ({"items": {"type": "number", "multipleOf": 50.01}}, "remainders"),
    "#/allOf/0/minimum": ({"type": "number", "allOf": [{"minimum": 1e-300}]}, "too close to 0"),
    "#/exclusiveMinimum": ({"minimum": 1, "exclusiveMinimum": True}, "a number"),
    "#/minLength": ({"minLength": -1}, "whole number"),
    "#/maxLength": ({"maxLength": 10**9}, "1,000,000"),
    "#/type": ({"type": "objct"}, '"objct" is not the name of a type; write "object"'),
    "#/items/type": ({"items": {"type": ["null", "any"]}}, "type; write one of array, boolean"),
    "#/required": ({"required": [1]}, "names"),
    "#/properties": ({"properties": []}, "object of schemas"),
    "#/anyOf": ({"anyOf": []}, "list of schemas"),
    "#/pattern": ({"pattern": "(?=a)"}, "look-around"),
    "#/patternProperties/(?=a)": ({"patternProperties": {"(?=a)": {}}}, "look-around"),
    "#/patternProperties/b": ({"patternProperties": {"\\p{L}": {}, "b": {}}}, "may match"),
    "#/allOf/1/patternProperties": (
        {
            "allOf": [
                {"properties": {name: {"$ref": "#"} for name in LISTED}},
                {"patternProperties": {"x": {"$ref": "#"}}},
            ]
        },
        "recursive",
    ),
    "#/$defs/a1/patternProperties": (
        {
            "$ref": "#/$defs/a0",
            "$defs": {
                **{
                    f"a{level}": {
                        "type": "object",
                        "properties": {name: {"$ref": f"#/$defs/a{level + 1}"} for name in LISTED},
                        "patternProperties": {"x": {"$ref": f"#/$defs/a{level + 1}"}},
                    }
                    for level in range(30)
                },
                "a30": {"type": "string"},
            },
        },
        "written out",
    ),
    "#/minProperties": ({"type": "object", "minProperties": 2}, "not all names"),
    "#/maxProperties": (
        {"type": "object", "properties": {"a": {}}, "maxProperties": 5},
        "additionalProperties to false",
    ),
    "#/$ref": ({"$ref": "#/$defs/b", "$defs": {"a": {}}}, "no schema of this document"),
    "#/items/$ref": ({"items": {"$ref": "https://example.com/x"}}, "no schema of this document"),
    "#/$defs/a/$ref": ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "itself"),
    "#/$defs/b/anyOf/0/$ref": (
        {"$ref": "#/$defs/b", "$defs": {"b": {"anyOf": [{"$ref": "#/$defs/b"}, {"const": 1}]}}},
        "itself",
    ),
}


@pytest.mark.parametrize("pointer", REFUSED)
def test_a_refusal_names_the_keyword_and_the_reason(pointer: str) -> None:
    schema, reason = REFUSED[pointer]
    with pytest.raises(GrammarError, match=re.escape(reason)) as caught:
        enforceable_schema(schema)
    error = caught.value
    assert error.pointer == pointer
    assert exists(schema, pointer)
    assert error.remedy
    assert isinstance(error, ValueError)
    assert isinstance(error, HarmonyError)
    keyword = pointer.rpartition("/")[2]
    assert str(error) == f'cannot enforce "{keyword}" at {pointer}: {error.problem}; {error.remedy}'


INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
ABSENT = None
OF_OBJECTS: dict[str, list[Any]] = {
    "properties": [
        ABSENT,
        {"a": INTEGER},
        {"a": {}, "b": TEXT},
        {"a": {"$ref": "#"}},
        {"a": {"patternProperties": {"b$": INTEGER}}},
    ],
    "patternProperties": [
        ABSENT,
        {"^a": INTEGER},
        {"a": {"patternProperties": {"^b": INTEGER}}},
        {"^a": True, "^b": {"minLength": 1}},
    ],
    "additionalProperties": [ABSENT, False, TEXT],
    "propertyNames": [ABSENT, {"pattern": "^[ab]"}, {"maxLength": 1}, {"enum": ["a", "c"]}],
    "required": [ABSENT, ["a"]],
}
OBJECTS: list[dict[str, Any]] = [
    {},
    *(
        {name: value}
        for name in ("a", "b", "c", "ab", "ba")
        for value in (1, "x", "", {}, {"b": 1}, {"b": "x"}, {"ab": "x"}, {"a": {"a": 1}})
    ),
    *({"a": 1, name: value} for name in ("b", "c", "ab") for value in (1, "x")),
]


@pytest.mark.parametrize("names", OF_OBJECTS["propertyNames"], ids=json.dumps)
def test_keywords_of_objects_mean_the_same_together(names: Any) -> None:
    """Every combination accepts what another validator does; one kind is refused."""
    kinds = [*(OF_OBJECTS | {"propertyNames": [names]}).values()]
    enforced = 0
    for chosen in product(*kinds):
        keywords = zip(OF_OBJECTS, chosen, strict=True)
        schema = {
            "type": "object",
            **{key: value for key, value in keywords if value is not ABSENT},
        }
        valid = list(map(Draft202012Validator(schema).is_valid, OBJECTS))
        if not any(valid):
            continue
        if "patternProperties" in schema and "enum" in schema.get("propertyNames", ()):
            with pytest.raises(GrammarError, match="no single list or pattern describes"):
                enforceable_schema(schema)
            continue
        matcher = json_matcher(enforceable_schema(schema))
        enforced += 1
        for value, is_valid in zip(OBJECTS, valid, strict=True):
            orders = [value, dict(reversed(value.items()))]
            accepted = [accepts_text(matcher, json.dumps(order)) for order in orders]
            assert any(accepted) == is_valid, (schema, value)
    assert enforced >= 25


def test_names_that_two_patterns_select_have_both_schemas() -> None:
    matcher = json_matcher(
        enforceable_schema(
            {
                "type": "object",
                "patternProperties": {"^a": {"type": "integer"}, "a": {"minimum": 2}},
                "propertyNames": {"pattern": "^a"},
            }
        )
    )
    texts = ['{"ab":2}', '{"ab":1}', '{"ab":"x"}', '{"b":2}']
    assert [accepts_text(matcher, text) for text in texts] == [True, False, False, False]


def test_regions_too_large_to_compare_end_in_an_error_that_names_the_keyword() -> None:
    schema = {
        "properties": {"ab": {}, "c": {}},
        "patternProperties": {"b$": {}, "^[ab]+$": {}},
        "additionalProperties": {},
        "propertyNames": {"minLength": 1},
    }
    with contextlib.suppress(GrammarError):
        json_matcher(enforceable_schema(schema))


CHOICES: dict[str, Any] = {
    "arrays": lambda n: {"enum": [[i] for i in range(n)]},
    "objects": lambda n: {"properties": {"a": {"enum": [{"a": i} for i in range(n)]}}},
    "in definitions": lambda n: {
        "anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
        "$defs": {
            "a": {"enum": [[i] for i in range(n // 2)]},
            "b": {"enum": [{"a": i} for i in range(n - n // 2)]},
        },
    },
    "products": lambda n: {
        "type": "array",
        "minItems": 2,
        "maxItems": 2,
        "allOf": [
            {"anyOf": [{"prefixItems": [{"const": i}]} for i in range(n // 40)]},
            {"anyOf": [{"prefixItems": [True, {"const": i}]} for i in range(40)]},
        ],
    },
}


@pytest.mark.parametrize("kind", CHOICES)
def test_the_engine_follows_so_many_choices_and_more_are_refused(kind: str) -> None:
    """Beyond its own limit the engine would fail while the model writes."""
    limit = schema_writer.CHOICE_LIMIT
    with pytest.raises(GrammarError, match=f"more than {limit:,} "):
        enforceable_schema(CHOICES[kind](limit + 100))
    assert loosened_schema(CHOICES[kind](limit + 100)).unenforced
    matcher = json_matcher(enforceable_schema(CHOICES[kind](limit - 60)))
    texts = ["[7]", '{"a":7}', '{"a":{"a":7}}', "[7,7]"]
    assert any(accepts_text(matcher, text) for text in texts)


def test_each_multiple_is_counted_once() -> None:
    numbers = {f"n{n}": {"type": "number", "multipleOf": 0.25, "minimum": n} for n in range(150)}
    assert enforceable_schema({"type": "object", "properties": numbers})


IMPOSSIBLE: dict[str, Any] = {
    "false": False,
    "requires itself": {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    "holds itself": {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
    "two types": {"allOf": [{"type": "string"}, {"type": "null"}]},
    "crossed bounds": {"type": "number", "minimum": 1, "exclusiveMaximum": 1},
    "no multiple": {"type": "integer", "minimum": 1, "maximum": 6, "multipleOf": 7},
    "no value left": {"enum": ["a"], "minLength": 2},
    "no text left": {"type": "string", "pattern": "^abc", "maxLength": 2},
    "no common text": {"type": "string", "pattern": "^a", "allOf": [{"pattern": "^b"}]},
    "forbidden name": {"type": "object", "required": ["a"], "additionalProperties": False},
    "too many names": {"type": "object", "required": ["a", "b"], "maxProperties": 1},
    "too few items": {"type": "array", "prefixItems": [{}], "items": False, "minItems": 2},
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_schema_that_nothing_satisfies_is_refused(name: str) -> None:
    with pytest.raises(GrammarError, match="no finite value") as caught:
        enforceable_schema(IMPOSSIBLE[name], "tools[0]#")
    assert caught.value.pointer == "tools[0]#"
    assert str(caught.value).startswith("cannot enforce the schema at tools[0]#: ")


@pytest.mark.parametrize("schema", [None, 1, "{}", [], {1: 2}, {"const": float("nan")}, {"a": {1}}])
def test_what_is_no_json_schema_is_refused(schema: Any) -> None:
    with pytest.raises(GrammarError):
        enforceable_schema(schema)


def deep(levels: int, keyword: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        inner: Any = [schema] if keyword in ("allOf", "anyOf", "prefixItems") else schema
        schema = {keyword: {"a": inner} if keyword == "properties" else inner}
    return schema


@pytest.mark.parametrize("keyword", ["items", "properties", "allOf", "anyOf", "prefixItems"])
def test_deep_schemas_are_enforced_or_refused(keyword: str) -> None:
    json_matcher(enforceable_schema(deep(50, keyword)))
    for levels in (121, 500):
        with pytest.raises(GrammarError, match="nested deeper"):
            enforceable_schema(deep(levels, keyword))


def chain(length: int, inner: Any) -> dict[str, Any]:
    definitions = {str(at): inner(f"#/$defs/{at + 1}") for at in range(length)}
    return {"$ref": "#/$defs/0", "$defs": {**definitions, str(length): {"type": "integer"}}}


def test_long_chains_of_references_are_enforced_or_refused() -> None:
    def in_property(reference: str) -> dict[str, Any]:
        return {"type": "object", "properties": {"a": {"$ref": reference}}, "required": ["a"]}

    json_matcher(enforceable_schema(chain(50, in_property)))
    assert enforceable_schema(chain(150, lambda reference: {"$ref": reference})) == {
        "type": "integer"
    }
    for schema in (chain(1_500, in_property), chain(2_000, lambda reference: {"$ref": reference})):
        with pytest.raises(GrammarError):
            enforceable_schema(schema)


@pytest.mark.slow
def test_schemas_that_would_grow_without_bounds_are_refused() -> None:
    choices = [
        {"anyOf": [{"type": "object", "required": [f"{at}_{one}"]} for one in range(4)]}
        for at in range(8)
    ]
    twice = {
        str(at): {
            "allOf": [{"$ref": f"#/$defs/{at + 1}"}] * 2,
            "anyOf": [{"$ref": f"#/$defs/{at + 1}"}],
        }
        for at in range(60)
    }
    names = {f"p{at}": {"type": "string"} for at in range(1_001)}
    for schema in ({"allOf": choices}, {"properties": names}, {"enum": list(range(20_000))}):
        with pytest.raises(GrammarError):
            enforceable_schema(schema)
    assert enforceable_schema(
        {"$ref": "#/$defs/0", "$defs": {**twice, "60": {"type": "null"}}}
    ) == {"type": "null"}


def test_options_of_the_engine_in_a_schema_are_dropped() -> None:
    schema = {
        "type": "object",
        "x-guidance": {"lenient": True},
        "properties": {"a": {"x-guidance": 1}},
    }
    assert enforceable_schema(schema) == {"type": "object", "properties": {"a": True}}


def test_annotations_and_unknown_keywords_are_dropped() -> None:
    schema = {"title": "T", "description": "D", "default": 1, "nullable": True, "type": "integer"}
    assert enforceable_schema(schema) == {"type": "integer"}


def test_a_schema_is_left_as_it_was() -> None:
    schema = {"oneOf": [{"const": 1}, {"const": 2.0}], "items": ({}, {"type": "null"})}
    before = repr(schema)
    enforceable_schema(schema)
    assert repr(schema) == before


# White space


def test_white_space_follows_separators_and_is_never_endless() -> None:
    value = {"a": [1, {"b": [[], {}]}], "c": "d"}
    made = json_matcher(enforceable_schema({"type": "object"}))
    for separators in product((",", ", ", ",\n", ",\r\n\t", ",\n" + " " * 64), (":", ": ")):
        text = json.dumps(value, separators=separators)
        assert accepts_text(made, text), text
    for text in (
        json.dumps(value, indent=2),
        '{ "a": 1}',
        '{"a": 1 }',
        '{"a" : 1}',
        '{"a":  1}',
        '{"a":\n1}',
        '{"a": 1,  "b": 2}',
        '{"a": 1,\n\n"b": 2}',
        '{"a": 1,\n' + " " * 65 + '"b": 2}',
        '{"a": 1 ,"b": 2}',
        '{"a": [ 1]}',
        ' {"a": 1}',
        '{"a": 1} ',
    ):
        assert not accepts_text(made, text), text


def test_a_known_name_has_one_spelling() -> None:
    made = json_matcher(
        enforceable_schema({"type": "object", "properties": {"a": {"type": "integer"}}})
    )
    assert accepts_text(made, '{"a":1,"b":"\\n\\"é"}')
    assert not accepts_text(made, '{"\\u0061":"x"}') or BEFORE_1_8
    assert not accepts_text(made, '{"b":"\\u0061"}')


# Pydantic


class Color(Enum):
    RED = "red"
    GREEN = "green"


class Counts(BaseModel):
    colors: dict[Color, int] = {}
    sides: dict[Literal["left", "right"], float] = {}


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=0, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    friends: list[Cat | Dog] = []


class Home(BaseModel):
    model_config = ConfigDict(extra="forbid")

    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    color: Color | None = None
    at: tuple[float, float] = (0.0, 0.0)
    notes: dict[str, int] = {}
    born: Annotated[str, Field(pattern=r"^\d{4}$")] | None = None


def test_a_pydantic_model_is_enforced() -> None:
    made = json_matcher(enforceable_schema(Home))
    homes = [
        {"pet": {"kind": "cat", "lives": 9}},
        {"pet": {"kind": "dog", "friends": [{"kind": "cat", "lives": 0}, {"kind": "dog"}]}},
        {"pet": {"kind": "cat", "lives": 1}, "color": "red", "at": [0.5, 1], "notes": {"a": 1}},
        {"pet": {"kind": "dog"}, "color": None, "born": "2024"},
    ]
    for home in homes:
        Home.model_validate(home)
        assert accepts_text(made, json.dumps(home)), home
    others = [
        {},
        {"pet": {"kind": "cow"}},
        {"pet": {"kind": "cat", "lives": 10}},
        {"pet": {"kind": "dog"}, "color": "blue"},
        {"pet": {"kind": "dog"}, "at": [1]},
        {"pet": {"kind": "dog"}, "notes": {"a": "b"}},
        {"pet": {"kind": "dog"}, "born": "24"},
        {"pet": {"kind": "dog"}, "more": 1},
    ]
    for home in others:
        assert not accepts_text(made, json.dumps(home)), home


def test_the_keys_of_a_pydantic_model_are_enforced() -> None:
    made = json_matcher(enforceable_schema(Counts))
    assert accepts_text(made, '{"colors": {"red": 1}, "sides": {"left": 0.5, "right": 1}}')
    assert not accepts_text(made, '{"colors": {"blue": 1}}')
    assert not accepts_text(made, '{"sides": {"left": "a"}}')


def test_a_type_adapter_is_enforced() -> None:
    made = json_matcher(enforceable_schema(TypeAdapter(list[Cat | int])))
    assert accepts_text(made, '[1, {"kind": "cat", "lives": 3}]')
    assert not accepts_text(made, '[1, "2"]')


def test_what_pydantic_cannot_describe_is_refused() -> None:
    class Odd(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)

        made: LLMatcher

    with pytest.raises(GrammarError, match="pydantic"):
        enforceable_schema(Odd)
    with pytest.raises(GrammarError, match="uniqueItems") as caught:
        enforceable_schema(TypeAdapter(set[int]), "tools[0]#")
    assert caught.value.pointer == "tools[0]#/uniqueItems"


# Random schemas


def random_text(made: LLMatcher, length: int, pick: random.Random) -> bytes | None:
    """A text that the matcher allows, byte by byte; None where it did not end soon."""
    made.reset()
    written = bytearray()
    while len(written) < length + 200:
        mask = made.compute_bitmask()
        allowed = [byte for byte in range(256) if mask[byte >> 3] >> (byte & 7) & 1]
        if made.is_accepting() and (not allowed or pick.random() < 0.4):
            return bytes(written)
        assert allowed, "a dead end"
        allowed = [byte for byte in allowed if byte not in b" \r\n\t"] or allowed
        closing = [byte for byte in allowed if byte in b'"}]']
        marks = [byte for byte in allowed if byte in b'"\\}],:.-0']
        if closing and len(written) > length:
            allowed = closing
        elif marks and pick.random() < 0.4:
            allowed = marks
        byte = pick.choice(allowed)
        written.append(byte)
        assert made.consume_token(byte)
    return None


@settings(max_examples=examples(300))
@given(st.integers(0, 2**32))
def test_what_the_engine_accepts_is_valid(seed: int) -> None:
    maker = SchemaMaker(seed)
    schema = maker.document(2)
    try:
        made = json_matcher(enforceable_schema(schema))
    except GrammarError:
        return
    judge = Draft202012Validator(schema)
    for length in (3, 10, 25):
        text = random_text(made, length, maker.random)
        # Beyond that many digits floats round, and Python counts multiples of floats by division.
        if text is not None and not re.search(rb"[0-9.]{12}|[0-9][eE]", text):
            try:
                is_valid = judge.is_valid(json.loads(text))
            except RecursionError:  # a value is tried by the schema that it is tried by: no answer
                return
            assert is_valid, text


def every_order(value: Any) -> Iterator[Any]:
    """Yield a value with the names of each of its objects in each order."""
    if not isinstance(value, dict):
        yield value
        return
    for names in permutations(value):
        for inner in product(*(list(every_order(value[name])) for name in names)):
            yield dict(zip(names, inner, strict=True))


@settings(max_examples=examples(400))
@given(st.integers(0, 2**32))
def test_nested_objects_accept_what_another_validator_does(seed: int) -> None:
    maker = ObjectMaker(seed)
    schema = maker.schema(3)
    try:
        matcher = json_matcher(enforceable_schema(schema))
    except GrammarError:
        json_matcher(loosened_schema(schema).schema)
        return
    for value in [maker.value(3) for _ in range(20)]:
        accepted = any(accepts_text(matcher, json.dumps(one)) for one in every_order(value))
        assert accepted == Draft202012Validator(schema).is_valid(value), (schema, value)


# The page


def test_the_page_has_the_score() -> None:
    refused = [name for name in BY_NAME if isinstance(enforced_feature(name), GrammarError)]
    impossible = [
        name
        for name in refused
        if BY_NAME[name].get("unsatisfiable") or BY_NAME[name].get("broken")
    ]
    rows = {
        "schemas": len(FEATURES),
        "enforced": len(FEATURES) - len(refused),
        "of these, some valid texts are rejected": len(OVERSTRICT),
        "refused": len(refused),
        "of these, nothing satisfies the schema": len(impossible),
        "invalid texts accepted": 0,
    }
    section = PAGE.read_text(encoding="utf-8").partition("## The score")[2].partition("\n## ")[0]
    found = re.findall(r"^\| ([a-z][^|]*) \| (\d+) \|$", section, re.MULTILINE)
    assert {name: int(count) for name, count in found} == rows


def test_the_page_has_all_formats() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in [*FORMATS, *REFUSED_FORMATS]:
        assert f"`{name}`" in page, name


def test_the_page_has_the_limits() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"{STEP_LIMIT:,} steps" in page
    section = page.partition("Some limits hold besides")[2].partition("\n## ")[0]
    found = re.findall(r"^\| [a-z`][^|]* \| ([\d,; ]+) \|$", section, re.MULTILINE)
    limits = [
        f"{documents.NESTING_LIMIT}",
        f"{schema_writer.LEVEL_LIMIT}",
        f"{intersection.PROPERTY_LIMIT:,}; {schema_writer.PROPERTY_LIMIT:,}",
        f"{schema_writer.VALUE_LIMIT:,}",
        f"{schema_writer.CHOICE_LIMIT:,}",
        f"{schema_writer.MULTIPLE_LIMIT:,}",
        f"{keywords.COUNT_LIMIT:,}",
        f"{schema_writer.LENGTH_LIMIT:,}",
        f"{schema_writer.PATTERN_LIMIT}",
        f"{schema_writer.PLACE_LIMIT:,}",
        f"{documents.COPY_LIMIT:,}",
        f"{disjunctive_form.STATE_LIMIT:,}",
        f"{schema_writer.JOIN_LIMIT:,}",
    ]
    assert found == limits
