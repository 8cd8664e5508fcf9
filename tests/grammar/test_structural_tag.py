"""The structural tag for xgrammar: its shape, without xgrammar; `make xgrammar` runs it there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gpt_oss_harmony import Conversation, DeveloperContent, Message, Role, ToolDescription
from gpt_oss_harmony.grammar import GrammarError, TurnOptions, enforceable_schema, structural_tag
from gpt_oss_harmony.grammar.xgrammar_schema import xgrammar_schema
from gpt_oss_harmony.tokens.special_tokens import CALL, CHANNEL, MESSAGE, RETURN, SPECIAL_TEXTS
from support.turns import ANSWER, BOTH, CHOICES, FORMAT, PLAIN, TOOLS

FIELDS = {
    "const_string": {"value"},
    "token": {"token"},
    "any_text": {"excludes"},
    "json_schema": {"json_schema"},
    "sequence": {"elements"},
    "or": {"elements"},
    "optional": {"content"},
    "star": {"content"},
    "repeat": {"min", "max", "content"},
}
"""The documented fields of the formats that we use."""


def formats(tag: dict[str, Any]) -> Iterator[dict[str, Any]]:
    waiting = [tag["format"]]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += found.get("elements", [])
        waiting += [found["content"]] if "content" in found else []


def texts(tag: dict[str, Any]) -> set[str]:
    return {found["value"] for found in formats(tag) if found["type"] == "const_string"}


def bounds(tag: dict[str, Any]) -> list[int]:
    return sorted(found["max_tokens"] for found in formats(tag) if "max_tokens" in found)


SPELLED = [
    *(f"<|{name}|>" for name in ("startoftext", "endoftext", "return", "constrain", "channel")),
    *(f"<|{name}|>" for name in ("start", "end", "message", "call")),
    "<|reserved_",
]


def test_each_special_token_is_excluded_from_text() -> None:
    for text in SPECIAL_TEXTS.values():
        assert any(spelled in text for spelled in SPELLED), text


OPTIONS = [
    TurnOptions(),
    TurnOptions(reasoning=False),
    TurnOptions(preambles=False),
    TurnOptions(reasoning_messages=2),
    TurnOptions(reasoning_messages=2, preambles=False),
    TurnOptions(reasoning=False, preambles=False),
    TurnOptions(reasoning_tokens=5, text_tokens=7),
    TurnOptions(message_limits=(5, 3)),
    TurnOptions(message_limits=(5, 3), preambles=False),
    TurnOptions(response_format={"type": "json_object"}),
]


@pytest.mark.parametrize("chat", [PLAIN, TOOLS, FORMAT, BOTH])
@pytest.mark.parametrize("options", OPTIONS)
def test_a_tag_is_json_of_documented_formats(chat: Conversation, options: TurnOptions) -> None:
    tag = structural_tag(chat, options)
    assert json.loads(json.dumps(tag)) == tag
    assert tag.keys() == {"type", "format"}
    assert tag["type"] == "structural_tag"
    for found in formats(tag):
        assert found.keys() - {"max_tokens"} == {"type"} | FIELDS[found["type"]], found


def test_the_smallest_turn() -> None:
    tag = structural_tag(PLAIN, TurnOptions(reasoning=False, preambles=False))
    assert tag["format"]["elements"] == [
        {"type": "token", "token": CHANNEL},
        {"type": "const_string", "value": "final"},
        {"type": "token", "token": MESSAGE},
        {"type": "any_text", "excludes": SPELLED},
        {"type": "optional", "content": {"type": "token", "token": RETURN}},
    ]


@pytest.mark.parametrize(("choice", "allowed"), CHOICES, ids=[str(c) for c, _ in CHOICES])
def test_recipients_are_those_of_the_tool_choice(choice: Any, allowed: set[str]) -> None:
    written = texts(structural_tag(TOOLS, TurnOptions(tool_choice=choice)))
    for name in ("functions.get_weather", "functions.now", "python", "browser.find"):
        assert (f" to={name}" in written) == any(f" to={name}" in turn for turn in allowed)
    assert ("final" in written) == any("final" in turn for turn in allowed)


def test_a_stop_token_may_be_missing() -> None:
    tag = structural_tag(TOOLS)
    stops = [found for found in formats(tag) if found.get("token") in (CALL, RETURN)]
    optional = [
        found["content"]
        for found in formats(tag)
        if found["type"] == "optional" and found["content"]["type"] == "token"
    ]
    assert stops
    assert all(stop in optional for stop in stops)


def test_texts_and_messages_are_bounded() -> None:
    assert bounds(structural_tag(TOOLS)) == []
    tag = structural_tag(TOOLS, TurnOptions(reasoning_tokens=5, text_tokens=7))
    assert bounds(tag) == [5, 7, 7, 7]  # reasoning; preamble, answer and code
    tag = structural_tag(TOOLS, TurnOptions(reasoning_messages=3))
    repeated = [found for found in formats(tag) if found["type"] == "repeat"]
    assert [(found["min"], found["max"]) for found in repeated] == [(0, 3)]
    tag = structural_tag(TOOLS, TurnOptions(message_limits=(5, 3), text_tokens=4))
    assert bounds(tag) == [3, 3, 4, 4, 4, 5]  # each place; answer and code


def test_what_turn_grammar_refuses_is_refused() -> None:
    tool = ToolDescription.new("f", "", {"properties": {"a": {"uniqueItems": True}}})
    content = DeveloperContent.new().with_function_tools([tool])
    chat = Conversation.from_messages([Message.from_role_and_content(Role.DEVELOPER, content)])
    with pytest.raises(GrammarError) as caught:
        structural_tag(chat)
    assert caught.value.pointer == "tools/functions.f#/properties/a/uniqueItems"
    for options in (
        TurnOptions(tool_choice="required"),
        TurnOptions(tool_choice={"type": "function", "name": "g"}),
        TurnOptions(response_format={"type": "xml"}),
    ):
        with pytest.raises(GrammarError):
            structural_tag(PLAIN, options)


def test_schemas_are_those_of_tools_and_formats() -> None:
    found = [one["json_schema"] for one in formats(structural_tag(BOTH)) if "json_schema" in one]
    assert xgrammar_schema(enforceable_schema(ANSWER)) in found
    assert {"type": "object", "additionalProperties": False} in found


SCHEMAS: list[tuple[str, Any, Any]] = [
    ("open objects", {"type": "object"}, {"type": "object", "additionalProperties": True}),
    ("open arrays", {"type": "array"}, {"type": "array", "items": True}),
    (
        "several types",
        {"type": ["integer", "string"], "minimum": 1, "minLength": 2},
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "minLength": 2}]},
    ),
    (
        "a short tuple",
        {"type": "array", "prefixItems": [{"type": "null"}, {"type": "null"}], "maxItems": 1},
        {"type": "array", "prefixItems": [{"type": "null"}], "items": False},
    ),
    (
        "a tuple of anything",
        {"type": "array", "prefixItems": [True, {"type": "null"}]},
        {"type": "array", "prefixItems": [{}, {"type": "null"}], "items": True},
    ),
    (
        "no tuple",
        {"type": "array", "prefixItems": [False]},
        {"type": "array", "items": False},
    ),
    (
        "no items",
        {"type": "array", "maxItems": 0},
        {"type": "array", "maxItems": 0, "items": False},
    ),
    (
        "a part of the text",
        {"type": "string", "pattern": "a-b"},
        {"type": "string", "pattern": r"[\s\S]*(?:a\u{2d}b)[\s\S]*"},
    ),
    ("categories", {"type": "string", "pattern": r"^\p{L}$"}, {"type": "string"}),
    ("inner edges", {"type": "string", "pattern": "^a$|^b"}, {"type": "string"}),
    (
        "listed arrays and objects",
        {"enum": [1, [2], {"a": []}]},
        {
            "anyOf": [
                {"enum": [1]},
                {
                    "type": "array",
                    "prefixItems": [{"enum": [2]}],
                    "items": False,
                    "minItems": 1,
                },
                {
                    "type": "object",
                    "properties": {"a": {"type": "array", "maxItems": 0}},
                    "required": ["a"],
                    "additionalProperties": False,
                },
            ]
        },
    ),
    (
        "a multiple, which xgrammar ignores beside bounds",
        {"type": "number", "multipleOf": 2},
        {"type": "integer", "multipleOf": 2},
    ),
    (
        "a multiple with a bound of its own",
        {"type": "integer", "multipleOf": 3, "minimum": 0},
        {"type": "integer", "multipleOf": 3, "minimum": 0},
    ),
    (
        "names that are forbidden",
        {"type": "object", "properties": {"a": False}},
        {"type": "object", "properties": {}, "additionalProperties": True},
    ),
    (
        "names by a pattern, closed",
        {"type": "object", "patternProperties": {"^a": True}, "additionalProperties": False},
        {
            "type": "object",
            "patternProperties": {r"(?:a)[\s\S]*": True},
            "additionalProperties": False,
        },
    ),
    (
        "names by a pattern, open",
        {"type": "object", "patternProperties": {"^a": {"type": "null"}}},
        {"type": "object", "additionalProperties": {"anyOf": [{"type": "null"}, True]}},
    ),
]


@pytest.mark.parametrize(
    ("schema", "written"), [row[1:] for row in SCHEMAS], ids=[row[0] for row in SCHEMAS]
)
def test_schemas_are_written_for_xgrammar(schema: Any, written: Any) -> None:
    assert xgrammar_schema(enforceable_schema(schema)) == written


def test_a_recursive_schema_keeps_its_references() -> None:
    tree = {"type": "object", "properties": {"c": {"$ref": "#"}}, "additionalProperties": False}
    written = xgrammar_schema(enforceable_schema(tree))
    assert isinstance(written, dict)
    assert "$defs" in written
    assert json.dumps(written).count('"$ref"') >= 1
