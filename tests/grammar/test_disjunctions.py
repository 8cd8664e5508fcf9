"""`contains`, `unevaluated*` and dynamic references: what they allow, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from gpt_oss_harmony.grammar.errors import GrammarError
from gpt_oss_harmony.grammar.json_schema import disjunctions, enforceable_schema, loosened_schema
from support.json_matcher import accepts_value, json_matcher

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
ONE = {"const": 1}
A, B, C = ({"properties": {name: True}, "required": [name]} for name in "abc")

MEANINGS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "contains": (
        {"type": "array", "contains": ONE},
        [[1], [2, 1], [1, 1], [2, 3, 4, 1, 5]],
        [[], [2], [[1]]],
    ),
    "contains, beside other types": ({"contains": ONE}, [{}, "a", [1]], [[], ["a"]]),
    "contains, beside items": (
        {"type": "array", "items": {"multipleOf": 2}, "contains": {"multipleOf": 3}},
        [[6, 12], [2, 6]],
        [[2, 4], [3, 6]],
    ),
    "contains, beside listed arrays": (
        {"enum": [[1], [0] * 20 + [1], [0]], "contains": ONE},
        [[1], [0] * 20 + [1]],
        [[0]],
    ),
    "contains true": (
        {"type": "array", "contains": True, "maxContains": 2},
        [[1]],
        [[], [1, 1, 1]],
    ),
    "contains false": ({"contains": False}, ["a", {}], [[], [1]]),
    "contains false, none needed": ({"contains": False, "minContains": 0}, [[], [1]], []),
    "two": (
        {"type": "array", "contains": ONE, "minContains": 2},
        [[1, 1], [1, 2, 1], [0, 1, 0, 1, 0]],
        [[], [1], [1, 2]],
    ),
    "at most one": (
        {"type": "array", "contains": ONE, "minContains": 0, "maxContains": 1},
        [[], [2], [1], [2, 1, 2]],
        [[1, 1], [1, 2, 1]],
    ),
    "one to three": (
        {"type": "array", "contains": ONE, "maxContains": 3},
        [[1], [0, 1, 1, 1], [1, 0, 1, 0]],
        [[], [0], [1, 1, 1, 1]],
    ),
    "one to ten": (
        {"type": "array", "contains": ONE, "maxContains": 10},
        [[1] * 10, [0, 1]],
        [[0], [1] * 11],
    ),
    "more than at most": (
        {"contains": ONE, "minContains": 3, "maxContains": 1},
        [1],
        [[1], [1, 1]],
    ),
    "more than there is room": ({"contains": ONE, "minContains": 2, "maxItems": 1}, ["a"], [[1]]),
    "no item": ({"type": "array", "not": {"contains": ONE}}, [[], [2, 3]], [[1], [2, 1]]),
    "not one to two": (
        {"type": "array", "not": {"contains": ONE, "maxContains": 2}},
        [[], [2], [1, 1, 1]],
        [[1], [1, 1]],
    ),
    "both": (
        {"type": "array", "allOf": [{"contains": ONE}, {"contains": {"const": "a"}}]},
        [[1, "a"], ["a", 0, 1]],
        [[1], ["a"]],
    ),
    "one contains, or the other": (
        {"type": "array", "oneOf": [{"contains": ONE}, {"contains": {"const": "a"}}]},
        [[1], ["a", 0]],
        [[1, "a"], []],
    ),
    "contains behind what a grammar counts": (
        # Both hold for this array, though the grammar does not write it under the first.
        {
            "oneOf": [
                {"type": "array", "contains": ONE},
                {"type": "array", "prefixItems": [{"const": 0}] * 16, "minItems": 17},
            ]
        },
        [[1], [0] * 17],
        [[0] * 16 + [1]],
    ),
    "draft 7 counts no matches": (
        {"$schema": DRAFT_7, "type": "array", "contains": ONE, "maxContains": 1, "minContains": 0},
        [[1, 1], [1]],
        [[0], []],
    ),
    "draft 7 evaluates nothing": (
        {"$schema": DRAFT_7, "allOf": [A], "unevaluatedProperties": False, "type": "object"},
        [{"a": 1}, {"a": 1, "b": 1}],
        [{}],
    ),
    "unevaluated, all of": (
        {"allOf": [A, {"$ref": "#/$defs/b"}], "unevaluatedProperties": False, "$defs": {"b": B}},
        [{"a": 1, "b": 2}, 1],
        [{"a": 1, "b": 2, "c": 3}],
    ),
    "unevaluated, any of": (
        {"type": "object", "anyOf": [A, B, {"type": "object"}], "unevaluatedProperties": False},
        [{}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}],
        [{"c": 1}, {"a": 1, "c": 1}],
    ),
    "unevaluated, one of": (
        {
            "type": "object",
            "oneOf": [
                {"properties": {"kind": {"const": "a"}, "a": {"type": "integer"}}},
                {"properties": {"kind": {"const": "b"}, "b": {"type": "integer"}}},
            ],
            "required": ["kind"],
            "unevaluatedProperties": False,
        },
        [{"kind": "a", "a": 1}, {"kind": "b", "b": 1}, {"kind": "a"}],
        [{"kind": "a", "b": 1}, {"kind": "b", "a": 1}, {"a": 1}],
    ),
    "unevaluated, one of that overlap": (
        {"type": "object", "oneOf": [A, B], "unevaluatedProperties": {"type": "string"}},
        [{"a": 1}, {"b": 1}, {"a": 1, "c": "x"}],
        [{"a": 1, "b": "x"}, {"a": 1, "c": 2}, {}],
    ),
    "unevaluated, if alone": (
        {"type": "object", "if": A, "unevaluatedProperties": False},
        [{}, {"a": 1}],
        [{"b": 1}, {"a": 1, "b": 1}],
    ),
    "unevaluated, then and else": (
        {"type": "object", "if": A, "then": B, "else": C, "unevaluatedProperties": False},
        [{"a": 1, "b": 1}, {"c": 1}],
        [{"a": 1, "c": 1}, {"b": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}, {}],
    ),
    "unevaluated, else of a condition that holds": (
        {"type": "object", "if": A, "else": C, "unevaluatedProperties": False},
        [{"a": 1}, {"c": 1}],
        [{"a": 1, "c": 1}, {}],
    ),
    "unevaluated, dependent": (
        {
            "type": "object",
            "properties": {"a": True},
            "dependentSchemas": {"a": {"properties": {"b": True}}},
            "unevaluatedProperties": False,
        },
        [{}, {"a": 1}, {"a": 1, "b": 1}],
        [{"b": 1}, {"c": 1}],
    ),
    "unevaluated, patterns": (
        {
            "type": "object",
            "allOf": [{"patternProperties": {"^x": {"type": "integer"}}}],
            "unevaluatedProperties": {"type": "string"},
        },
        [{"x": 1}, {"a": "b"}, {"xa": 2, "y": ""}],
        [{"x": "b"}, {"a": 1}],
    ),
    "unevaluated, not what a cousin has": (
        {
            "type": "object",
            "allOf": [{"properties": {"a": True}}, {"unevaluatedProperties": False}],
        },
        [{}],
        [{"a": 1}],
    ),
    "unevaluated, a cousin that holds as well": (
        # The second schema holds, but its condition does not: it evaluates nothing.
        {
            "type": "object",
            "allOf": [
                {"if": A, "then": {"$ref": "#/$defs/b"}, "unevaluatedProperties": False},
                {"$ref": "#/$defs/b"},
            ],
            "$defs": {"b": {"properties": {"b": True}}},
        },
        [{}, {"a": 1}, {"b": 1, "a": 1}],
        [{"b": 1}],
    ),
    "unevaluated inside of unevaluated": (
        {
            "type": "object",
            "allOf": [{"unevaluatedProperties": {"type": "integer"}}],
            "unevaluatedProperties": False,
        },
        [{}, {"a": 1}],
        [{"a": "b"}],
    ),
    "items that are left": (
        {
            "type": "array",
            "anyOf": [{"prefixItems": [ONE]}, {"prefixItems": [True, {"const": 2}]}],
            "unevaluatedItems": False,
        },
        [[], [1], [0], [1, 2], [0, 2]],
        [[1, 3], [0, 3], [1, 2, 3]],
    ),
    "items that match are evaluated": (
        {"type": "array", "contains": {"type": "string"}, "unevaluatedItems": {"type": "null"}},
        [["a"], [None, "a", None]],
        [[None], ["a", 1]],
    ),
    "items that match were not in 2019": (
        {
            "$schema": DRAFT_2019,
            "type": "array",
            "contains": {"type": "string"},
            "unevaluatedItems": {"const": "a"},
        },
        [["a"], ["a", "a"]],
        [["b"], ["a", "b"], []],
    ),
    "names before those that are joined": (
        {"properties": {"b": True}, "allOf": [{"properties": {"a": True}}], "type": "object"},
        [{"b": 1, "a": 1}],
        [],
    ),
    "names behind those that are joined": (
        {"allOf": [{"properties": {"a": True}}], "properties": {"b": True}, "type": "object"},
        [{"a": 1, "b": 1}],
        [],
    ),
    "a name that is listed, beside a pattern that is not": (
        {
            "type": "object",
            "allOf": [
                {"patternProperties": {"^b": {}, "^c$": {}}},
                {"properties": {"b": {}, "c": {}}, "additionalProperties": {"type": "string"}},
            ],
        },
        [{"b": 1, "c": 1}, {"b": 1, "bb": "a"}, {"a": "a"}],
        [{"bb": 1}, {"a": 1}],
    ),
    "a look-ahead that no name passes": (
        {
            "type": "object",
            "patternProperties": {"^(?=a)b": {"type": "integer"}},
            "additionalProperties": False,
        },
        [{}],
        [{"b": 1}, {"ab": 1}],
    ),
    "a dynamic reference in one resource": (
        {"items": {"$dynamicRef": "#n"}, "$defs": {"n": {"$dynamicAnchor": "n", "type": "null"}}},
        [[None]],
        [[1]],
    ),
    "a dynamic reference to the outermost": (
        {
            "$id": "https://example.com/strict",
            "$dynamicAnchor": "node",
            "$ref": "tree",
            "unevaluatedProperties": False,
            "$defs": {
                "tree": {
                    "$id": "tree",
                    "$dynamicAnchor": "node",
                    "type": "object",
                    "properties": {
                        "data": True,
                        "children": {"type": "array", "items": {"$dynamicRef": "#node"}},
                    },
                }
            },
        },
        [{}, {"data": 1, "children": [{"data": 2, "children": []}]}],
        [{"daat": 1}, {"children": [{"daat": 1}]}, {"children": [1]}],
    ),
    "a dynamic reference with two ways to it": (
        {
            "$id": "https://example.com/lists",
            "properties": {"n": {"$ref": "numbers"}, "s": {"$ref": "texts"}},
            "$defs": {
                "list": {
                    "$id": "list",
                    "type": "array",
                    "items": {"$dynamicRef": "#item"},
                    "$defs": {"any": {"$dynamicAnchor": "item"}},
                },
                "numbers": {
                    "$id": "numbers",
                    "$ref": "list",
                    "$defs": {"item": {"$dynamicAnchor": "item", "type": "number"}},
                },
                "texts": {
                    "$id": "texts",
                    "$ref": "list",
                    "$defs": {"item": {"$dynamicAnchor": "item", "type": "string"}},
                },
            },
        },
        [{"n": [1], "s": ["a"]}, {"s": []}],
        [{"n": ["a"]}, {"s": [1]}],
    ),
    "a recursive reference": (
        {
            "$schema": DRAFT_2019,
            "$id": "https://example.com/strict",
            "$recursiveAnchor": True,
            "$ref": "tree",
            "required": ["a"],
            "$defs": {
                "tree": {
                    "$id": "tree",
                    "$recursiveAnchor": True,
                    "type": "object",
                    "properties": {"a": True, "b": {"$recursiveRef": "#"}},
                }
            },
        },
        [{"a": 1}, {"a": 1, "b": {"a": 1}}],
        [{"a": 1, "b": {}}, {}],
    ),
    "a URN": (
        {
            "$id": "urn:uuid:deadbeef-1234-0000-0000-4321feebdaed",
            "properties": {"a": {"$ref": "#/$defs/b"}},
            "$defs": {"b": {"type": "string"}},
        },
        [{"a": "b"}],
        [{"a": 1}],
    ),
    "draft 4, an excluded bound": (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "type": "integer",
            "minimum": 3,
            "exclusiveMinimum": True,
            "maximum": 9,
            "exclusiveMaximum": False,
        },
        [4, 9],
        [3, 10],
    ),
    "an unsigned integer of 64 bits": (
        {"type": "integer", "minimum": 0, "maximum": 2**64 - 1},
        [0, 2**63 - 1],
        [-1, 2**64, 2**65],
    ),
    "a number beyond 53 bits": (
        {"type": "number", "maximum": 10**18},
        [10**18, 10**18 - 1, 0.5, -1e5],
        [10**18 + 1, 10**19],
    ),
    "a number beyond 64 bits": ({"type": "number", "maximum": 1e308}, [9 * 10**18, 1], []),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_a_schema_keeps_its_meaning(name: str) -> None:
    schema, valid, invalid = MEANINGS[name]
    made = json_matcher(enforceable_schema(schema))
    assert [value for value in valid if not accepts_value(made, value)] == []
    assert [value for value in invalid if accepts_value(made, value)] == []


def test_items_are_counted_among_the_first() -> None:
    made = json_matcher(enforceable_schema({"type": "array", "contains": ONE}))
    last = disjunctions.PLACE_LIMIT - 1
    assert accepts_value(made, [0] * last + [1] + [0] * 10)
    assert not accepts_value(made, [0] * (last + 1) + [1])
    bounded = {"type": "array", "contains": ONE, "minContains": 2, "maxItems": 11}
    made = json_matcher(enforceable_schema(bounded))
    assert accepts_value(made, [1, *[0] * 9, 1])


REFUSED: dict[str, tuple[Any, str]] = {
    "#": ({"type": "object", "not": {"not": A}, "unevaluatedProperties": False}, "no finite"),
    "#/minContains": ({"contains": ONE, "minContains": 17}, "more than 16 items"),
    "#/maxContains": (
        {"contains": {"type": "integer"}, "maxContains": 1},
        "distinguished from the others",
    ),
    "#/contains": ({"contains": 1}, "takes a schema"),
    "#/unevaluatedProperties": (
        {
            "anyOf": [{"properties": {name: True}} for name in "abcdefgh"],
            "unevaluatedProperties": False,
        },
        "too many",
    ),
    "#/items/$dynamicRef": ({"items": {"$dynamicRef": "#a"}}, "leads to no schema"),
    "#/$ref": ({"$schema": DRAFT_7, "$ref": "a.json"}, "#/definitions/NAME"),
    "#/exclusiveMinimum": ({"minimum": 1, "exclusiveMinimum": True}, "draft 4"),
    "#/minimum": ({"type": "integer", "minimum": 2**63}, "64 bits"),
    "#/maximum": ({"type": "integer", "maximum": -(2**63) - 1}, "64 bits"),
    "#/not": ({"type": "string", "not": {"format": "hostname"}}, "distinguished from the others"),
    "#/oneOf": ({"type": "string", "oneOf": [{"format": "time"}, {"pattern": "z$"}]}, "two"),
}


def test_many_contains_beside_each_other_are_refused() -> None:
    twice = [{"contains": {"const": value}, "minContains": 2} for value in range(2)]
    with pytest.raises(GrammarError, match=r"places of prefixItems|more than .* steps") as caught:
        enforceable_schema({"type": "array", "allOf": twice})
    assert caught.value.pointer == "#"
    assert loosened_schema({"type": "array", "allOf": twice}).schema == {"type": "array"}


@pytest.mark.parametrize("pointer", REFUSED)
def test_a_refusal_names_the_keyword(pointer: str) -> None:
    schema, words = REFUSED[pointer]
    with pytest.raises(GrammarError, match=words) as caught:
        enforceable_schema(schema)
    assert caught.value.pointer == pointer
    assert pointer in [error.pointer for error in loosened_schema(schema).unenforced]


def test_copies_of_schemas_in_other_scopes_are_limited() -> None:
    names = [f"n{index}" for index in range(12)]
    definitions = {
        name: {
            "$id": name,
            "$defs": {name: {"$dynamicAnchor": name}, "all": {"$dynamicAnchor": "all"}},
            "properties": {
                **{other: {"$ref": other} for other in names},
                "x": {"$dynamicRef": "#all"},
                **{f"to {other}": {"$ref": f"{other}#{other}"} for other in names},
            },
        }
        for name in names
    }
    twice = {"$id": "twice", "$defs": {name: {"$dynamicAnchor": name} for name in names}}
    schema = {"$id": "https://a/b", "$ref": "n0", "$defs": {**definitions, "twice": twice}}
    with pytest.raises(GrammarError, match=r"dynamicRef.* more than 5,000"):
        enforceable_schema(schema)
