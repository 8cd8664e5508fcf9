"""Loosened schemas: one keyword less, never fewer values, and a report of each."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gpt_oss_harmony import (
    Conversation,
    DeveloperContent,
    Message,
    Role,
    ToolDescription,
    load_harmony_encoding,
)
from gpt_oss_harmony.grammar import (
    GrammarError,
    Matcher,
    TurnOptions,
    enforceable_schema,
    find_violations,
    loosened_schema,
    structural_tag,
    turn_constraint,
    turn_grammar,
)
from support.examples import examples
from support.json_matcher import accepts_text, json_matcher
from support.llguidance_version import is_read_differently

DATA = Path(__file__).parents[1] / "data" / "grammar"
FEATURES = {
    feature["name"]: feature
    for feature in json.loads((DATA / "features.json").read_text(encoding="utf-8"))
}


def accepts(schema: Any, text: str) -> bool:
    return accepts_text(json_matcher(schema), text)


UNIQUE = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}

LISTED = [f"a{letter * 6}" for letter in "bcdefg"]  # too many for a pattern without them
RECURSIVE = {
    "type": "object",
    "properties": {name: {"$ref": "#"} for name in LISTED},
    "patternProperties": {"a": {"type": "object"}},
}

LOOSENED: dict[str, tuple[Any, Any, list[str]]] = {
    # name: schema, what is left, pointers of what is left out
    "nothing": ({"type": "integer"}, {"type": "integer"}, []),
    "a keyword beside others": (
        UNIQUE,
        {"type": "array", "items": {"type": "integer"}},
        ["#/uniqueItems"],
    ),
    "inside of an object": (
        {"type": "object", "properties": {"a": UNIQUE}, "required": ["a"]},
        {
            "type": "object",
            "properties": {"a": {"type": "array", "items": {"type": "integer"}}},
            "required": ["a"],
        },
        ["#/properties/a/uniqueItems"],
    ),
    "oneOf becomes anyOf": (
        {"oneOf": [{"type": "number"}, {"type": "integer"}]},
        {"type": "number"},
        ["#/oneOf"],
    ),
    "several": (
        {"not": {"multipleOf": 2}, "type": "integer", "multipleOf": 10**7},
        {"type": "integer"},
        ["#/not", "#/multipleOf"],
    ),
    "a format": (
        {"type": "string", "format": "regex", "minLength": 1},
        {"type": "string", "minLength": 1},
        ["#/format"],
    ),
    "a pattern": (
        {"type": "string", "pattern": "a(?=a)", "minLength": 1},
        {"type": "string", "minLength": 1},
        ["#/pattern"],
    ),
    "a pattern of names in a closed object": (
        {"patternProperties": {"(?!x)": {"type": "null"}}, "additionalProperties": False},
        {"additionalProperties": {"type": "null"}},
        ["#/patternProperties/(?!x)"],
    ),
    "two patterns of names in a closed object": (
        {
            "patternProperties": {"(?!x)": {"type": "null"}, r"\b": True},
            "additionalProperties": False,
        },
        {},
        ["#/patternProperties/(?!x)", "#/patternProperties/\\b"],
    ),
    "a pattern beside a recursive property in a closed object": (
        {**RECURSIVE, "additionalProperties": False},
        {
            "$defs": {
                "1": {"type": "object"},
                "0": {
                    "type": "object",
                    "properties": {name: {"$ref": "#/$defs/0"} for name in LISTED},
                    "additionalProperties": {"$ref": "#/$defs/1"},
                },
            },
            "type": "object",
            "properties": {name: {"$ref": "#/$defs/0"} for name in LISTED},
            "additionalProperties": {"$ref": "#/$defs/1"},
        },
        ["#/patternProperties"],
    ),
    "a pattern beside a recursive property in an open object": (
        {**RECURSIVE, "additionalProperties": {"type": "null"}},
        {
            "$defs": {
                "0": {
                    "type": "object",
                    "properties": {name: {"$ref": "#/$defs/0"} for name in LISTED},
                }
            },
            "type": "object",
            "properties": {name: {"$ref": "#/$defs/0"} for name in LISTED},
        },
        ["#/patternProperties"],
    ),
    "a bound": (
        {"type": "number", "minimum": 2**63},
        {"type": "number"},
        ["#/minimum"],
    ),
    "a bound below all that the engine writes": (
        {"type": "integer", "maximum": -(2**63) - 1},
        {"type": "integer"},
        ["#/maximum"],
    ),
    "a count of properties": (
        {"type": "object", "minProperties": 3},
        {"type": "object"},
        ["#/minProperties"],
    ),
    "a value": ({"enum": ["\x01", 2]}, {"type": ["number", "string"]}, ["#/enum"]),
    "a reference": (
        {"$ref": "#/nowhere", "type": "string"},
        {"type": "string"},
        ["#/$ref"],
    ),
    "a reference beside what it may evaluate": (
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "$ref": "http://elsewhere/tree.json",
            "unevaluatedProperties": False,
        },
        {"type": "object", "properties": {"a": {"type": "integer"}}},
        ["#/$ref"],
    ),
    "a reference inside of allOf": (
        {
            "type": "array",
            "allOf": [{"$ref": "#/nowhere"}, {"prefixItems": [{"type": "null"}]}],
            "unevaluatedItems": False,
        },
        {"type": "array", "prefixItems": [{"type": "null"}]},
        ["#/allOf/0/$ref"],
    ),
    "an invalid keyword": (
        {"type": "object", "required": True, "properties": {"a": {"minimum": "1"}}},
        {"type": "object", "properties": {"a": True}},
        ["#/required", "#/properties/a/minimum"],
    ),
    "listed values beside a keyword": (
        {"enum": [[1], 2], "not": {"const": [1]}},
        {"anyOf": [{"enum": [2]}, {"enum": [[1]]}]},
        ["#/not"],
    ),
    "what cannot be followed": (
        {"type": "string", "pattern": r"^([a-z]{1,20}[ ]?){1,90}$", "maxLength": 99},
        {"type": "string", "maxLength": 99},
        ["#/pattern"],
    ),
    "a schema that nothing satisfies": (
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": True}, "required": ["a"]},
        ["#"],
    ),
    "false": (False, True, ["#"]),
}


@pytest.mark.parametrize("name", LOOSENED)
def test_one_keyword_is_left_out(name: str) -> None:
    schema, expected, pointers = LOOSENED[name]
    loosened = loosened_schema(schema)
    assert loosened.schema == expected or (expected == {} and loosened.schema is True)
    reported = [error.pointer for error in loosened.unenforced]
    assert sorted(reported) == sorted(pointers)
    assert all(error.problem and error.remedy for error in loosened.unenforced)
    if pointers:
        with pytest.raises(GrammarError) as caught:
            enforceable_schema(schema)
        assert caught.value.pointer in pointers


@pytest.mark.parametrize("name", FEATURES)
def test_nothing_less_is_accepted(name: str) -> None:
    feature = FEATURES[name]
    loosened = loosened_schema(feature["schema"])
    if not loosened.unenforced:
        assert loosened.schema == enforceable_schema(feature["schema"])
        return
    with pytest.raises(GrammarError) as caught:
        enforceable_schema(feature["schema"])
    assert caught.value.pointer in [error.pointer for error in loosened.unenforced]
    for value in feature["valid"]:
        orders = [value, dict(reversed(value.items()))] if isinstance(value, dict) else [value]
        texts = [json.dumps(order, ensure_ascii=False) for order in orders]
        if not re.search(r"\\u|\x7f", texts[0]):  # such characters cannot be written
            accepted = any(accepts(loosened.schema, text) for text in texts)
            assert accepted or is_read_differently(feature["schema"], texts[0]), texts


# What a schema accepts, its loosened schema accepts. An independent validator reads both, so the
# order of properties and the spelling of numbers play no part.

SUITE = json.loads((DATA / "loosened.json").read_text(encoding="utf-8"))
"""The cases of JSON-Schema-Test-Suite whose schemas are loosened; see scripts/schemas."""


@pytest.mark.parametrize("case", SUITE, ids=[case["name"] for case in SUITE])
def test_the_public_suite_is_not_refused_more(case: Any) -> None:
    loosened = loosened_schema(case["schema"])
    assert loosened.unenforced
    validator = jsonschema_rs.validator_for(loosened.schema, validate_formats=False)
    assert [value for value in case["valid"] if not validator.is_valid(value)] == []


names = st.sampled_from(["a", "b", "ab"])
instances = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.sampled_from(["", "a", "ab", "b1", 0.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    listed = st.lists(inner, min_size=1, max_size=3)
    count = st.integers(0, 3)
    types = st.sampled_from(["object", "array", "string", "integer", "number", "null"])
    patterns = st.sampled_from(["^a", "b$", "(?!x)", "a(?=b)", "^.$"])
    found = {
        **dict.fromkeys(["items", "contains", "additionalProperties", "propertyNames"], inner),
        **dict.fromkeys(["not", "if", "then", "else"], inner),
        **dict.fromkeys(["unevaluatedProperties", "unevaluatedItems"], inner),
        **dict.fromkeys(["allOf", "anyOf", "oneOf", "prefixItems"], listed),
        **dict.fromkeys(["minItems", "maxItems", "minContains", "maxContains"], count),
        **dict.fromkeys(["minLength", "maxLength", "minProperties", "maxProperties"], count),
        "type": types,
        "const": instances,
        "enum": st.lists(instances, min_size=1, max_size=3),
        "minimum": st.integers(-2, 5),
        "exclusiveMaximum": st.integers(-2, 5),
        "multipleOf": st.sampled_from([2, 0.5, 10**7]),
        "uniqueItems": st.booleans(),
        "pattern": patterns,
        "properties": st.dictionaries(names, inner, max_size=2),
        "patternProperties": st.dictionaries(patterns, inner, max_size=2),
        "required": st.lists(names, max_size=2, unique=True),
        "dependentRequired": st.dictionaries(names, st.lists(names, max_size=1), max_size=1),
        "dependentSchemas": st.dictionaries(names, inner, max_size=1),
        "$ref": st.sampled_from(["#", "#/$defs/x", "#/$defs/missing"]),
    }
    chosen = st.lists(st.sampled_from(sorted(found)), max_size=4, unique=True)
    return chosen.flatmap(lambda some: st.fixed_dictionaries({name: found[name] for name in some}))


schemas: st.SearchStrategy[Any] = st.recursive(st.just({}), keywords, max_leaves=8)
MISSING: list[Any] = [
    {},
    {"properties": {"a": True, "b": True, "ab": True}, "prefixItems": [True, True, True]},
]
"""What an unreadable reference may stand for."""


@settings(max_examples=examples(300))
@given(schemas, schemas, st.lists(instances, min_size=4, max_size=9))
def test_loosening_only_loosens(root: Any, defined: Any, values: list[Any]) -> None:
    schema = {**root, "$defs": {"x": defined}}
    try:
        loosened = loosened_schema(schema).schema
    except GrammarError:
        return
    allowed = jsonschema_rs.validator_for(loosened)
    for missing in MISSING:
        whole = {**schema, "$defs": {"x": defined, "missing": missing}}
        try:
            original = jsonschema_rs.validator_for(whole)
            valid = [value for value in values if original.is_valid(value)]
        except ValueError:  # the validator cannot read the schema
            continue
        assert [value for value in valid if not allowed.is_valid(value)] == []


NAMES = """
    type not if then oneOf anyOf allOf enum const items required properties patternProperties
    additionalProperties minItems pattern $ref format minimum multipleOf propertyNames a
"""
KEYWORDS = st.sampled_from(NAMES.split())
WORDS = st.sampled_from(
    [
        "type",
        "not",
        "if",
        "then",
        "oneOf",
        "anyOf",
        "allOf",
        "enum",
        "const",
        "items",
        "required",
        "properties",
        "patternProperties",
        "additionalProperties",
        "minItems",
        "pattern",
        "$ref",
        "format",
        "minimum",
        "multipleOf",
        "propertyNames",
        "unevaluatedProperties",
        "unevaluatedItems",
        "contains",
        "minContains",
        "maxContains",
        "if",
        "then",
        "anyOf",
        "$dynamicRef",
        "$dynamicAnchor",
        "$id",
        "a",
    ]
)
WORDS = st.sampled_from(["string", "object", "array", "#", "#/items", "^a", "(", "regex", "a"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=examples(300))
@given(json_values)
def test_a_schema_of_any_json_is_loosened_or_refused_with_an_error(schema: Any) -> None:
    try:
        loosened = loosened_schema(schema)
    except GrammarError:
        assert not isinstance(schema, (dict, bool))
    else:
        assert not accepts(loosened.schema, "[")


@pytest.mark.parametrize("schema", [[1], "x", None, 3])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(GrammarError, match="an object or a boolean"):
        loosened_schema(schema)


# Turns

SET = {"type": "object", "properties": {"tags": UNIQUE}, "required": ["tags"]}
LOOSEN = TurnOptions(on_unsupported="loosen")
HEADER = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>"


def conversation() -> Conversation:
    developer = DeveloperContent().with_function_tools([ToolDescription.new("f", "", SET)])
    return Conversation.from_messages([Message.from_role_and_content(Role.DEVELOPER, developer)])


def taken(grammar: str, text: str) -> bool:
    tokens = load_harmony_encoding("HarmonyGptOss").encode(text, allowed_special="all")
    return Matcher(grammar).accept_all(tokens) == len(tokens)


def test_a_turn_is_loosened_and_reported() -> None:
    for _ in range(2):  # the second time from the cache
        constraint = turn_constraint(conversation(), LOOSEN)
        assert [error.pointer for error in constraint.unenforced] == [
            "tools/functions.f#/properties/tags/uniqueItems"
        ]
        assert turn_grammar(conversation(), LOOSEN) == constraint.grammar
        assert taken(constraint.grammar, HEADER + '{"tags": [1, 1]}<|call|>')
        assert not taken(constraint.grammar, HEADER + '{"tags": ["a"')
        assert not taken(constraint.grammar, HEADER + "{}")
    assert structural_tag(conversation(), LOOSEN)
    with pytest.raises(GrammarError):
        turn_grammar(conversation())
    with pytest.raises(GrammarError):
        structural_tag(conversation())


@pytest.mark.parametrize(
    "options",
    [
        TurnOptions(on_unsupported="loosen", strict_tools=frozenset(["functions.f"])),
        TurnOptions(
            on_unsupported="loosen",
            response_format={
                "type": "json_schema",
                "json_schema": {"strict": True, "schema": {"not": {}}},
            },
        ),
    ],
)
def test_what_is_strict_is_not_loosened(options: TurnOptions) -> None:
    with pytest.raises(GrammarError):
        turn_constraint(conversation(), options)


def test_another_way_is_refused() -> None:
    with pytest.raises(GrammarError, match="on_unsupported"):
        TurnOptions(on_unsupported="ignore")  # type: ignore[arg-type]


# Violations


def call(text: str) -> Message:
    message = Message.from_role_and_content(Role.ASSISTANT, text).with_channel("commentary")
    return message.with_recipient("functions.f")


@pytest.mark.parametrize(
    ("text", "pointer", "instance"),
    [
        (
            '{"tags": [1, 2, 1]}',
            "tools/functions.f#/properties/tags/uniqueItems",
            "#/tags",
        ),
        ("{}", "tools/functions.f#/required", "#"),
        ('{"tags": [', "tools/functions.f#", "#"),
    ],
)
def test_a_violation_has_its_place(text: str, pointer: str, instance: str) -> None:
    (violation,) = find_violations([call(text)], conversation())
    assert (violation.pointer, violation.instance) == (pointer, instance)
    assert violation.message


def test_what_is_valid_violates_nothing() -> None:
    thought = Message.from_role_and_content(Role.ASSISTANT, "{").with_channel("analysis")
    assert find_violations([thought, call('{"tags": [1, 2]}')], conversation()) == []


def test_an_answer_follows_one_of_the_formats() -> None:
    options = TurnOptions(response_format={"type": "json_schema", "schema": {"not": {"const": 1}}})
    answer = Message.from_role_and_content(Role.ASSISTANT, "1").with_channel("final")
    (violation,) = find_violations([answer], conversation(), options)
    assert violation.pointer == "response_format#/not"
    assert find_violations([answer], conversation()) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:1/schema.json"},
        {"$ref": "file:///etc/hostname"},
        {"required": True},
        {"$schema": "http://example.com/none"},
    ],
)
def test_a_schema_that_cannot_be_read_is_not_checked_and_nothing_is_fetched(schema: Any) -> None:
    options = TurnOptions(response_format={"type": "json_schema", "schema": schema})
    answer = Message.from_role_and_content(Role.ASSISTANT, "1").with_channel("final")
    assert find_violations([answer], conversation(), options) == []


def test_the_validator_agrees_with_another() -> None:
    for name, feature in FEATURES.items():
        if feature.get("broken") or re.search(
            "format|pattern|dependencies", json.dumps(feature["schema"])
        ):
            continue  # read in different ways
        options = TurnOptions(response_format={"type": "json_schema", "schema": feature["schema"]})
        for value in feature["valid"] + feature["invalid"]:
            answer = Message.from_role_and_content(Role.ASSISTANT, json.dumps(value))
            found = find_violations([answer.with_channel("final")], conversation(), options)
            is_valid = Draft202012Validator(feature["schema"]).is_valid(value)
            assert bool(found) is not is_valid, (name, value)


NARROWED: list[tuple[Any, list[str]]] = [
    ({"type": "integer", "minimum": 0, "maximum": 2**64 - 1}, ["#/maximum"]),
    ({"type": "integer", "exclusiveMaximum": 2**63}, []),
    ({"type": "integer", "minimum": -(2**64)}, ["#/minimum"]),
    ({"type": "number", "maximum": 1e19}, ["#/maximum"]),
    ({"type": "integer", "maximum": 2**53 - 1}, []),
    ({"type": "array", "contains": {"const": 1}}, ["#/contains"]),
    ({"type": "array", "contains": {"const": 1}, "maxItems": 3}, []),
    (
        {"type": "array", "contains": {"const": 1}, "uniqueItems": True},
        ["#/contains"],  # beside what is left out
    ),
]


@pytest.mark.parametrize(("schema", "pointers"), NARROWED)
def test_keywords_that_allow_too_few_values_are_named(schema: Any, pointers: list[str]) -> None:
    assert [error.pointer for error in loosened_schema(schema).narrowed] == pointers
    options = TurnOptions(response_format={"type": "json_schema", "schema": {"anyOf": [schema]}})
    if "uniqueItems" not in schema:  # which a strict schema may not have
        constraint = turn_constraint(Conversation.from_messages([]), options)
        assert len(constraint.narrowed) == len(pointers)
        assert constraint.unenforced == ()
