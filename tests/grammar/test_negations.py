"""What a schema excludes: `not`, `if`, dependencies, `oneOf` that overlaps, items that differ."""

from __future__ import annotations

import itertools
import json
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from gpt_oss_harmony.grammar.errors import GrammarError
from gpt_oss_harmony.grammar.json_schema import (
    enforceable_schema,
    loosened_schema,
)
from gpt_oss_harmony.grammar.json_schema.formats import FORMATS, JOINT_PATTERNS
from gpt_oss_harmony.grammar.json_schema.pattern_automata import (
    plain_patterns,
    select_texts,
    share_a_text,
    texts_but,
)
from gpt_oss_harmony.grammar.json_schema.pattern_starts import start_apart
from gpt_oss_harmony.grammar.json_schema.patterns import pattern_accepts
from support.examples import examples
from support.json_matcher import accepts_value, json_matcher
from support.llguidance_version import is_read_differently
from support.random_schemas import VALUES, SchemaMaker, orders

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


TAGGED = {
    "type": "object",
    "properties": {"kind": {"enum": ["a", "b", "c"]}, "x": {"type": "integer"}, "y": {}},
}
MEANINGS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    # name: schema, values that it allows, values that it does not
    "not a type": ({"not": {"type": ["string", "null"]}}, [1, [], {}, True], ["", None]),
    "not a constant": ({"type": "string", "not": {"const": "ab"}}, ["", "a", "abc", "b"], ["ab"]),
    "not a number": ({"type": "integer", "not": {"enum": [0, 2]}}, [-1, 1, 3], [0, 2]),
    "not true": ({"type": "boolean", "not": {"const": True}}, [False], [True]),
    "not in a range": (
        {"type": "number", "not": {"minimum": 1, "exclusiveMaximum": 3}},
        [0, 0.5, 3],
        [1, 2.5],
    ),
    "not a pattern": ({"type": "string", "not": {"pattern": "//"}}, ["", "/a/"], ["//", "a//b"]),
    "not a length": ({"type": "string", "not": {"maxLength": 2}}, ["abc"], ["", "ab"]),
    "not a name": (
        {"type": "object", "not": {"required": ["a"]}},
        [{}, {"b": 1}],
        [{"a": 1}, {"b": 1, "a": 2}],
    ),
    "not two names": (
        {"type": "object", "not": {"required": ["a", "b"]}},
        [{}, {"a": 1}, {"b": 1}],
        [{"a": 1, "b": 1}],
    ),
    "not any of names": (
        {"type": "object", "not": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}},
        [{}, {"c": 1}],
        [{"a": 1}, {"b": 1}],
    ),
    "not all of": (
        {"not": {"allOf": [{"type": "string"}, {"minLength": 2}]}},
        ["a", 1],
        ["ab"],
    ),
    "not one of": (
        {"type": "string", "not": {"oneOf": [{"minLength": 2}, {"pattern": "^a"}]}},
        ["b", "ab"],
        ["bb", "a"],
    ),
    "not not": ({"not": {"not": {"type": "string"}}}, ["a"], [1]),
    "not an item": (
        {"type": "array", "not": {"prefixItems": [{"const": 1}]}},
        [[2], [2, 1], ["a"]],
        [[], [1], [1, 2]],
    ),
    "not closed": (
        {**closed(a={}, b={}), "not": closed(a={})},
        [{"b": 1}, {"a": 1, "b": 1}],
        [{}, {"a": 1}],
    ),
    "not a reference": (
        {"$defs": {"s": {"type": "string"}}, "not": {"$ref": "#/$defs/s"}},
        [1, None],
        ["a"],
    ),
    "not what needs itself": (
        {
            "$defs": {
                "n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}},
            },
            "type": "object",
            "not": {"$ref": "#/$defs/n"},
        },
        [{"n": 1}, {"n": {"n": []}}],
        [{}, {"n": {}}, {"n": {"n": {}}}],
    ),
    "if with both": (
        {
            **TAGGED,
            "if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]},
            "then": {"required": ["x"]},
            "else": {"required": ["y"]},
        },
        [{"kind": "a", "x": 1}, {"kind": "b", "y": 1}, {"y": 1}],
        [{"kind": "a", "y": 1}, {"kind": "b", "x": 1}, {}, {"x": 1}],
    ),
    "if without then": (
        {**TAGGED, "if": {"required": ["x"]}, "else": {"required": ["y"]}},
        [{"x": 1}, {"y": 1}, {"x": 1, "y": 1}],
        [{}, {"kind": "a"}],
    ),
    "if without then, whose condition has no negation": (
        {"type": "array", "if": {"items": {"type": "null"}}, "else": {"minItems": 3}},
        [[], [None], [1, 2, 3], [None, None, 1]],
        [[1], [None, 1]],
    ),
    "if without else": (
        {**TAGGED, "if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["x"]}},
        [{"kind": "b"}, {"kind": "a", "x": 1}, {"x": 1}],
        [{"kind": "a"}, {}],
    ),
    "several ifs": (
        {
            **TAGGED,
            "required": ["kind"],
            "allOf": [
                {"if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["x"]}},
                {"if": {"properties": {"kind": {"const": "b"}}}, "then": {"required": ["y"]}},
            ],
        },
        [{"kind": "a", "x": 1}, {"kind": "b", "y": 1}, {"kind": "c"}],
        [{"kind": "a"}, {"kind": "b", "x": 1}, {}],
    ),
    "dependentRequired": (
        {"type": "object", "dependentRequired": {"b": ["a"]}},
        [{}, {"a": 1}, {"a": 1, "b": 1}],
        [{"b": 1}, {"b": 1, "c": 1}],
    ),
    "dependentSchemas": (
        {
            "type": "object",
            "properties": {"a": {}, "b": {}},
            "dependentSchemas": {"b": {"properties": {"a": {"type": "string"}}, "required": ["a"]}},
        },
        [{"a": 1}, {"a": "", "b": 1}],
        [{"b": 1}, {"a": 1, "b": 1}],
    ),
    "dependencies of both kinds": (
        {
            "type": ["object", "null"],
            "dependencies": {"b": ["a"], "d": {"maxProperties": 1}, "e": True, "f": False},
            "additionalProperties": False,
            "properties": {"a": {}, "b": {}, "d": {}, "e": {}, "f": {}},
        },
        [None, {}, {"a": 1, "b": 1}, {"d": 1}, {"e": 1}],
        [{"b": 1}, {"a": 1, "d": 1}, {"f": 1}],
    ),
    "one of names": (
        {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{"a": 1}, {"b": 1, "c": 1}],
        [{}, {"a": 1, "b": 1}],
    ),
    "one of names of which one is always there": (
        {
            "type": "object",
            "required": ["a"],
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}, {"required": ["c"]}],
        },
        [{"a": 1}],
        [{"a": 1, "b": 1}, {"b": 1}],
    ),
    "one of closed objects": (
        {"oneOf": [closed(a={}), closed(b={})]},
        [{"a": 1}, {"b": 1}],
        [{}, {"a": 1, "b": 1}],
    ),
    "one of tags that may be missing": (
        {
            "oneOf": [
                {"type": "object", "properties": {"k": {"const": "a"}}},
                {"type": "object", "properties": {"k": {"const": "b"}}},
            ]
        },
        [{"k": "a"}, {"k": "b"}],
        [{}, {"k": "c"}, {"x": 1}],
    ),
    "one of what is the same": (
        {"properties": {"a": {"oneOf": [{"const": 1}, {"const": 1.0}]}}, "type": "object"},
        [{}, {"b": 1}],
        [{"a": 1}],
    ),
    "one of ranges that touch": (
        {"oneOf": [{"type": "number", "maximum": 1}, {"type": "number", "minimum": 1}]},
        [0, 2],
        [1],
    ),
    "one of anything and text": ({"oneOf": [{}, {"type": "string"}]}, [1, None], ["a"]),
    "one of patterns": (
        {"type": "string", "oneOf": [{"pattern": "a"}, {"pattern": "b"}]},
        ["a", "xb"],
        ["", "ab"],
    ),
    "one of tags that share a value": (
        {
            "oneOf": [
                {"type": "object", "properties": {"k": {"enum": ["a", "b"]}}, "required": ["k"]},
                {"type": "object", "properties": {"k": {"enum": ["b", "c"]}}, "required": ["k"]},
            ]
        },
        [{"k": "a"}, {"k": "c"}],
        [{"k": "b"}, {}],
    ),
    "one of where a type is missing": (
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{"a": 1}, {"b": 1}],
        [1, "a", {}, {"a": 1, "b": 1}],
    ),
    "items that differ": (
        {"type": "array", "items": {"enum": ["a", "b", 1]}, "uniqueItems": True},
        [[], ["a"], ["b", "a"], [1, "a", "b"]],
        [["a", "a"], ["a", "b", "a"], [2]],
    ),
    "few items that differ": (
        {"items": {"enum": list("abcdefgh")}, "uniqueItems": True, "maxItems": 2, "minItems": 1},
        [["a"], ["h", "a"], 1, {}],
        [[], ["a", "a"], ["a", "b", "c"]],
    ),
    "small integers that differ": (
        {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 3}}
        | {"uniqueItems": True},
        [[1, 3, 2], []],
        [[1, 1], [4]],
    ),
    "booleans that differ": (
        {"type": "array", "items": {"type": ["boolean", "null"]}, "uniqueItems": True},
        [[True, None, False]],
        [[True, True], [None, None]],
    ),
    "a tuple of types that differ": (
        {
            "type": "array",
            "prefixItems": [{"type": "string"}, {"type": "integer"}],
            "items": False,
            "uniqueItems": True,
        },
        [["a", 1], []],
        [[1, 1]],
    ),
    "listed arrays that differ": (
        {"enum": [[1, 1], [1, 2], "a"], "uniqueItems": True},
        [[1, 2], "a"],
        [[1, 1]],
    ),
    "a listed object and not": (
        {"enum": [{"a": 1}, {"b": 1}], "not": {"required": ["b"]}},
        [{"a": 1}],
        [{"b": 1}],
    ),
    "patterns of names that overlap": (
        {
            "type": "object",
            "patternProperties": {"a": {"type": "string"}, "b": {"maxLength": 1}},
            "additionalProperties": {"type": "null"},
        },
        [{"a": "xx"}, {"b": "x"}, {"b": 1}, {"ab": "x"}, {"c": None}],
        [{"a": 1}, {"b": "xx"}, {"ab": "xx"}, {"ba": 1}, {"c": 1}],
    ),
    "a pattern of all names": (
        {"patternProperties": {".*": {"type": "string"}, "^x": {"const": "x"}}, "type": "object"},
        [{"a": "b"}, {"x": "x"}],
        [{"a": 1}, {"x": "b"}],
    ),
    "look-ahead": (
        {"type": "string", "pattern": "^(?=.*[A-Z])(?=.*\\d)(?!.*x)[^ ]{3,}$"},
        ["aB1", "1AA"],
        ["ab1", "aB", "xB1", "a B1"],
    ),
    "names with a look-ahead": (
        {"patternProperties": {"^(?!id$)": {"type": "string"}}, "type": "object"},
        [{"id": 1}, {"ids": "a"}],
        [{"ids": 1}, {"i": 1}],
    ),
    "integers of 64 bits": (
        {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
        [2**63 - 1, 2**63 - 2, 0, -(2**63) + 1024],
        [2**63, -(2**63) - 1, 2**64],
    ),
    "template": (
        {"type": "string", "format": "uri-template"},
        ["/a/{b}{?c,d*}", "", "{+x:3}"],
        ["{", "{}", "a b", "{x:0}"],
    ),
    "draft 7, beside a reference": (
        {
            "$schema": DRAFT_7,
            "definitions": {"a": {"type": "array"}},
            "properties": {"x": {"$ref": "#/definitions/a", "maxItems": 1}},
            "type": "object",
        },
        [{"x": [1, 2]}],
        [{"x": 1}],
    ),
    "draft 7, an anchor": (
        {
            "$schema": DRAFT_7,
            "definitions": {"a": {"$id": "#one", "type": "null"}},
            "items": {"$ref": "#one"},
            "type": "array",
        },
        [[None]],
        [[1]],
    ),
    "draft 7, beside a reference stays reachable": (
        {
            "$schema": DRAFT_7,
            "$ref": "#/definitions/a",
            "definitions": {"a": {"type": "null"}},
        },
        [None],
        [1],
    ),
    "draft 7, base64": (
        {"$schema": DRAFT_7, "contentEncoding": "base64", "type": "string"},
        ["", "YQ==", "YWI=", "YWJj"],
        ["a", "YQ=", "Y%=="],
    ),
    "content is an annotation later": (
        {"contentEncoding": "base64", "contentMediaType": "application/json", "type": "string"},
        ["a"],
        [1],
    ),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_a_schema_keeps_its_meaning(name: str) -> None:
    schema, valid, invalid = MEANINGS[name]
    made = json_matcher(enforceable_schema(schema))
    assert [value for value in valid if not accepts_value(made, value)] == []
    assert [value for value in invalid if accepts_value(made, value)] == []


def tag(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"kind": {"const": name, "default": name}, **more}}


def test_a_tag_that_is_its_own_default_is_required() -> None:
    # Without it, a value may satisfy several; what tells them apart otherwise is not always
    # something that a grammar can follow, as the items here.
    schema = {
        "oneOf": [tag("a", x={"items": {"minimum": 1}}), tag("b", x={"items": {"minimum": 2}})]
    }
    made = json_matcher(enforceable_schema(schema))
    assert accepts_value(made, {"kind": "a", "x": [1]})
    assert not accepts_value(made, {"kind": "b", "x": [1]})
    assert not accepts_value(made, {"x": [1]})
    without_default = json.loads(json.dumps(schema).replace('"default"', '"examples"'))
    with pytest.raises(GrammarError) as caught:
        enforceable_schema(without_default)
    assert caught.value.pointer == "#/oneOf"


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: list[int] = []


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    friends: list[Cat] = []


class Home(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    colors: set[Literal["red", "green"]] = set()


def test_a_union_of_pydantic_with_default_tags_is_enforced() -> None:
    made = json_matcher(enforceable_schema(Home))
    assert accepts_value(made, {"pet": {"kind": "cat", "lives": [1]}, "colors": ["green", "red"]})
    assert accepts_value(made, {"pet": {"kind": "dog", "friends": [{"lives": []}]}})
    assert not accepts_value(made, {"pet": {"kind": "dog"}, "colors": ["red", "red"]})
    assert not accepts_value(made, {"pet": {"lives": [1]}})


REFUSED: dict[str, tuple[Any, str]] = {
    # name: schema, pointer
    "not an integer": ({"not": {"type": "integer"}}, "#/not"),
    "not all items": ({"type": "array", "not": {"items": {"type": "string"}}}, "#/not"),
    "not items that differ": ({"type": "array", "not": {"uniqueItems": True}}, "#/not"),
    "not closed, beside open names": (
        {"type": "object", "not": {"properties": {"a": {}}, "additionalProperties": False}},
        "#/not",
    ),
    "if of all items": (
        {"if": {"items": {"type": "string"}}, "then": {"minItems": 1}, "else": {"maxItems": 3}},
        "#/if",
    ),
    "one of numbers": ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "#/oneOf"),
    "inside": (
        {"properties": {"a": {"allOf": [{"not": {"multipleOf": 2}}]}}},
        "#/properties/a/allOf/0/not",
    ),
    "a pattern with a category": ({"not": {"pattern": "^\\p{L}$"}}, "#/not"),
    "many values that differ": (
        {"type": "array", "items": {"enum": list("abcdefgh")}, "uniqueItems": True},
        "#/uniqueItems",
    ),
    "texts that differ": ({"items": {"type": "string"}, "uniqueItems": True}, "#/uniqueItems"),
    "an integer above 64 bits": ({"type": "integer", "minimum": 2**64}, "#/minimum"),
    "JSON in a text of draft 7": (
        {"$schema": DRAFT_7, "contentMediaType": "application/json"},
        "#/contentMediaType",
    ),
    "a look-ahead inside": ({"pattern": "^a(?=b)"}, "#/pattern"),
    "a look-ahead before a choice": ({"pattern": "^(?!a)b|c"}, "#/pattern"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_grammar_can_follow_is_refused_or_loosened(name: str) -> None:
    schema, pointer = REFUSED[name]
    with pytest.raises(GrammarError) as caught:
        enforceable_schema(schema)
    assert caught.value.pointer == pointer
    assert caught.value.remedy
    loosened = loosened_schema(schema)
    assert pointer in [error.pointer for error in loosened.unenforced]
    made = json_matcher(loosened.schema)
    judge = Draft202012Validator({key: schema[key] for key in schema if key != "$schema"})
    for value in ([], ["a"], [1, 2], ["b", "a"], {}, {"b": 1}, 1, 1.5, "a", "b", "7", None):
        assert accepts_value(made, value) or not judge.is_valid(value), value


def test_a_refusal_matters_only_where_such_a_value_can_stand() -> None:
    assert enforceable_schema({"type": "string", "not": {"type": "integer"}}) == {"type": "string"}
    assert enforceable_schema({"type": "integer", "not": {"type": "integer", "minimum": 3}}) == {
        "type": "integer",
        "maximum": 2,
    }


# Patterns


def words(length: int, alphabet: str = "ab/_") -> list[str]:
    return [
        "".join(word) for n in range(length + 1) for word in itertools.product(alphabet, repeat=n)
    ]


PAIRS = [
    # two patterns, and whether a text may match both
    ("^s_", "^i_", False),
    ("^a$", "^ab$", False),
    ("^x[0-9]{2}$", "^x[a-z]", False),
    ("^a", "b$", True),
    ("a", "b", True),
    ("^a+$", "^aa", True),
    ("^a+$", "^a*b", False),
    ("_x$", "^(ab|cd)$", False),
    ("^(a|b)*$", "^[ab]{3}$", True),
    ("^$", "^a*$", True),
    ("a$|^b", "^ca*b$", False),
    # told apart by the first characters, or not
    ("^(GET|PUT)$", "^DELETE$", False),
    ("^a?(b|c)x", "^d", False),
    ("^a?(b|c)?x", "^x$", True),
    ("^(a|b?)", "^c$", True),
    ("^[0-9]{3}-x", "^[0-9]{3}-y", False),
    ("^([0-9]{2,3})x", "^12y", False),
    ("^([0-9]{2,3})x", "^12x", True),
    ("^\\p{L}b", "^\\p{N}b", True),
    ("^(?:)$", "^a", False),
    ("^a|b", "^b", True),
    ("^^ab", "^b", False),
    ("^(a$)?b", "^b", True),
]


@pytest.mark.parametrize(("left", "right", "shared"), PAIRS)
def test_patterns_exclude_each_other(left: str, right: str, shared: bool) -> None:
    assert share_a_text(left, right) is shared
    assert share_a_text(right, left) is shared


def test_patterns_that_start_apart_share_no_text() -> None:
    patterns = ["^b", "^ab", "^(a|b)b", "^a?b$", "^(ab)*$", "^(a|b?)", "^a{2}b", "^(a*|b)a"]
    patterns += ["a", "b|^a", "^[^a]", "^(?:ab|b)", "^(a|b){1,2}a$", "^$", "^(?:)b"]
    texts = {
        pattern: {text for text in words(4, "ab") if pattern_accepts(pattern, text)}
        for pattern in patterns
    }
    apart = [pair for pair in itertools.permutations(patterns, 2) if start_apart(*pair)]
    assert [pair for pair in apart if texts[pair[0]] & texts[pair[1]]] == []
    assert len(apart) > 10


def test_the_two_patterns_of_a_format_share_its_texts() -> None:
    texts = {"email": "ann@example.com", "hostname": "example.com"}
    pairs = {name: frozenset(FORMATS[name].patterns) for name in texts}
    assert set(pairs.values()) == JOINT_PATTERNS
    for name, text in texts.items():
        assert all(pattern_accepts(pattern, text) for pattern in pairs[name])
        assert share_a_text(*pairs[name])


def test_formats_exclude_each_other() -> None:
    pairs = [("ipv4", "ipv6"), ("date", "time"), ("uuid", "ipv4"), ("email", "hostname")]
    for left, right in pairs:
        assert not share_a_text(FORMATS[left].patterns[0], FORMATS[right].patterns[0])
    assert share_a_text(FORMATS["ipv4"].patterns[0], FORMATS["hostname"].patterns[0])
    schema = {"oneOf": [{"type": "string", "format": name} for name in ("ipv4", "ipv6")]}
    made = json_matcher(enforceable_schema(schema))
    assert accepts_value(made, "1.2.3.4")
    assert accepts_value(made, "::1")
    assert not accepts_value(made, "1.2.3")


SELECTIONS = [
    ((), ("a",)),
    ((), ("^a$",)),
    ((), ("^(ab|ba)*$",)),
    ((), ("a|b$",)),
    (("a", "b"), ()),
    (("^a",), ("b$", "//")),
    (("^[ab]*$",), ("aa", "bb")),
    (("_", "^a"), ("/",)),
    (("^.{2,3}$",), ("^a",)),
]


@pytest.mark.parametrize(("wanted", "unwanted"), SELECTIONS)
def test_texts_are_selected(wanted: tuple[str, ...], unwanted: tuple[str, ...]) -> None:
    selected = select_texts(wanted, unwanted)
    assert selected is not None
    for word in words(5):
        expected = all(pattern_accepts(pattern, word) for pattern in wanted)
        expected = expected and not any(pattern_accepts(pattern, word) for pattern in unwanted)
        assert any(pattern_accepts(pattern, word) for pattern in selected) is expected, word


def test_what_would_be_too_large_is_not_selected() -> None:
    assert select_texts((), ("^.{0,500}a.{500}$",)) is None
    assert select_texts((), (r"\p{L}",)) is None


@given(st.lists(st.text("ab/é", max_size=4), min_size=1, max_size=5))
def test_texts_but_some_are_all_others(texts: list[str]) -> None:
    pattern = texts_but(tuple(texts))
    for word in {*texts, *words(3), "é", "aé"}:
        assert pattern_accepts(pattern, word) is (word not in texts)


def test_look_aheads_at_the_start_are_patterns_of_their_own() -> None:
    assert plain_patterns("^(?=a[)])(?=\\)b)c$", "#") == ["^(?:a[)])", "^(?:\\)b)", "^c$"]
    assert plain_patterns("^a(?=b)", "#") == ["^a(?=b)"]
    assert plain_patterns("^(?=a)b|c", "#") == ["^(?=a)b|c"]
    with pytest.raises(GrammarError) as caught:
        plain_patterns("^(?!(?i)a)b", "#/pattern")
    assert caught.value.pointer == "#/pattern"


ADDRESSES = {
    "type": "object",
    "oneOf": [
        {"properties": {"country": country, "state": state, "zip": {"maxLength": most}}}
        for country, state, most in (
            ({"enum": ["A"]}, {"enum": ["x", "y"]}, 2),
            ({"enum": ["B"]}, {"enum": ["y", "z"]}, 2),
            ({"enum": ["C"]}, {"enum": ["w", "x"]}, 2),
            ({"not": {"enum": ["A", "B", "C"]}}, {}, 5),
        )
    ],
}


def test_schemas_with_several_properties_are_set_apart_in_a_few_ways() -> None:
    enforced = enforceable_schema(ADDRESSES)
    assert len(json.dumps(enforced)) < 5_000  # 25,000 with each way to differ
    made, judge = json_matcher(enforced), Draft202012Validator(ADDRESSES)
    choices = {
        "country": [None, "A", "B", "C", "D", "", 1],
        "state": [None, "x", "y", "z", "w", "v", 1],
        "zip": [None, "", "12", "123", "123456", 1],
    }
    for values in itertools.product(*choices.values()):
        pairs = zip(choices, values, strict=True)
        address = {name: value for name, value in pairs if value is not None}
        assert accepts_value(made, address) is judge.is_valid(address), address


# Random schemas


@settings(max_examples=examples(400))
@given(st.integers(0, 2**32))
def test_the_engine_accepts_what_is_valid_and_nothing_else(seed: int) -> None:
    schema = SchemaMaker(seed).document(2)
    judge = jsonschema_rs.Draft202012Validator(schema)
    try:
        made = json_matcher(enforceable_schema(schema))
    except GrammarError as error:
        if "no finite value" in error.problem:
            assert not any(judge.is_valid(value) for value in VALUES)
        return
    for value in VALUES:
        accepted = any(accepts_value(made, ordered) for ordered in orders(value))
        is_known = is_read_differently(schema, json.dumps(value))
        assert accepted is judge.is_valid(value) or is_known, value


@settings(max_examples=examples(200))
@given(st.integers(0, 2**32))
def test_a_loosened_schema_allows_what_is_valid(seed: int) -> None:
    schema = SchemaMaker(seed).document(2)
    judge = jsonschema_rs.Draft202012Validator(schema)
    valid = [value for value in VALUES if judge.is_valid(value)]
    if valid:
        made = json_matcher(loosened_schema(schema).schema)
        for value in valid:
            assert any(accepts_value(made, ordered) for ordered in orders(value)), value
