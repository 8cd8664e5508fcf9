"""GBNF: as a regular expression it takes the turns that the grammar takes, and no others."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pytest

from gpt_oss_harmony import Conversation
from gpt_oss_harmony.grammar import (
    GrammarError,
    TurnOptions,
    find_mismatch,
    turn_gbnf,
    turn_grammar,
)
from gpt_oss_harmony.tokens.special_tokens import SPECIAL_TEXTS
from support.strategies import tokens_of
from support.turns import TOOLS, WHOLE_TURNS, WRONG_TURNS

_PART = re.compile(
    r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|<\[(\d+)\]>|[A-Za-z][\w-]*|\{[\d,]+\}|\S'
)


def as_pattern(gbnf: str) -> re.Pattern[str]:
    """Expand the rules of a grammar without recursion; any JSON value is a number here."""
    rules = dict(line.split(" ::= ", 1) for line in gbnf.splitlines())
    rules.update({"json-value": "json-number", "json-array": '"[]"', "json-object": '"{}"'})

    def expand(match: re.Match[str]) -> str:
        part = match[0]
        if match[1]:
            return re.escape(SPECIAL_TEXTS[int(match[1])])
        if part.startswith('"'):
            return re.escape(re.sub(r"\\x(..)|\\(.)", unescape, part[1:-1]))
        if part in rules:
            return f"(?:{pattern_of(rules[part])})"
        return "(?:" if part == "(" else part

    def pattern_of(body: str) -> str:
        return "".join(expand(match) for match in _PART.finditer(body))

    return re.compile(pattern_of(rules["root"]))


def unescape(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else str(match[2])


def takes(chat: Conversation, completion: str, options: TurnOptions | None = None) -> bool:
    """Return whether the GBNF of a chat takes a completion; llama.cpp chooses the stop token."""
    text = re.sub(r"<\|(return|call)\|>$", "", completion)
    return bool(as_pattern(turn_gbnf(turn_grammar(chat, options))).fullmatch(text))


@pytest.mark.parametrize(("chat", "completion"), WHOLE_TURNS)
def test_whole_turns(chat: Conversation, completion: str) -> None:
    # White space within JSON is narrower.
    assert takes(chat, completion) or "\n  " in completion


@pytest.mark.parametrize(("chat", "start", "wrong", "rest"), WRONG_TURNS)
def test_wrong_turns(chat: Conversation, start: str, wrong: str, rest: str | None) -> None:
    completion = f"{start}{wrong}{rest or ''}"
    if not re.search(r"<\|(return|call)\|>$", completion):
        assert not takes(chat, completion)


VALUES = (
    *("{}", "[]", "3", "-0.5e3", "01", "--1", "null", "true", "[1, 2]", "[1,2,3]", "[[]]"),
    *('"a"', '"\\n"', '"日本"', '"abc"', '"\t"', '{"a":1}', '{"b":"x"}', '{"a":1,"b":"x"}'),
    *('{"a": 1, "b": "x", "c": 2}', '{"c":2}', '{"b":"x","a":1}', '{"a":1,"a":1}', '{"a":1,}'),
    *('{"a":1,"o":{"a":2,"b":"y"}}', '{"o":{}}', '{"a":1,"o":{"b":"y"}}', '{"o":{"z":3}}'),
)
OPEN = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
"""GBNF is narrower here."""
SCHEMAS: list[Any] = [
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
     "required": ["b"], "additionalProperties": False},
    OPEN,
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "additionalProperties": False},
    {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
    {"type": "array", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"enum": [1, 2, "a", None]}}},
    {"type": "string", "minLength": 1, "maxLength": 2},
    {"type": ["number", "boolean"]},
    {"anyOf": [{"const": "日本"}, {"type": "null"}, {"type": "string", "maxLength": 1}]},
    {"enum": [[], {"a": 1}, 3]},
    {"type": "object", "additionalProperties": False, "properties": {
        "a": {"type": "integer"},
        "o": {"type": "object", "properties": {"a": {"const": 2}, "b": {"const": "y"}},
              "additionalProperties": False}}},
]  # fmt: skip


def answer(schema: Any, **options: Any) -> TurnOptions:
    wanted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    return TurnOptions(response_format=wanted, **options)


@pytest.mark.parametrize("options", [{}, {"whitespace": "compact"}, {"canonical": True}])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_values_of_schemas(schema: Any, options: dict[str, Any]) -> None:
    grammar = turn_grammar(Conversation.from_messages([]), answer(schema, **options))
    pattern = as_pattern(turn_gbnf(grammar))
    for value in VALUES:
        completion = f"<|channel|>final<|message|>{value}"
        is_taken = pattern.fullmatch(completion) is not None
        expected = find_mismatch(grammar, tokens_of(f"{completion}<|return|>")) is None
        if schema is OPEN:
            assert expected or not is_taken, value
        else:
            assert is_taken == expected, value


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (TurnOptions(reasoning_tokens=5), "limits on tokens"),
        (answer({"type": "integer", "minimum": 3}), "minimum"),
        (answer({"type": "string", "pattern": "^a+$"}), "pattern"),
        (answer({"type": "string", "maxLength": 5000}), "repetitions"),
    ],
)
def test_what_gbnf_cannot_express(options: TurnOptions, problem: str) -> None:
    with pytest.raises(GrammarError, match=f"{problem}.*-DLLAMA_LLGUIDANCE=ON"):
        turn_gbnf(turn_grammar(TOOLS, options))


def test_a_copy_of_a_grammar_keeps_its_rules() -> None:
    grammar = turn_grammar(TOOLS)
    for copied in (copy.copy(grammar), copy.deepcopy(grammar), pickle.loads(pickle.dumps(grammar))):
        assert copied == grammar
        assert turn_gbnf(copied) == turn_gbnf(grammar)


def test_plain_text_is_not_translated() -> None:
    grammar = turn_grammar(TOOLS)
    with pytest.raises(GrammarError, match="pass what turn_grammar returned"):
        turn_gbnf(str(grammar))


@pytest.mark.parametrize(
    "wanted",
    [{"type": "regex", "pattern": "[0-9]+"}, {"type": "choice", "choices": ["a", "b"]}],
)
def test_formats_of_text_are_refused(wanted: dict[str, Any]) -> None:
    """A nested grammar of llguidance is no GBNF; it was once copied into the text as it stood."""
    with pytest.raises(GrammarError, match="formats of text"):
        turn_gbnf(turn_grammar(TOOLS, TurnOptions(response_format=wanted)))
