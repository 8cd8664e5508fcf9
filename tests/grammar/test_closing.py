"""A turn ends within its tokens: calls and JSON are whole, whatever a model samples."""

from __future__ import annotations

import functools
import json
import os
import random
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from gpt_oss_harmony import Conversation, Role, TextContent, load_harmony_encoding
from gpt_oss_harmony.grammar import (
    BITMASK_WORDS,
    ClosingMatcher,
    GrammarError,
    Matcher,
    TurnOptions,
    fill_bitmasks,
    turn_grammar,
    way_to_the_end,
)
from gpt_oss_harmony.grammar.closing import WAY_LIMIT
from gpt_oss_harmony.grammar.json_schema.formats import FORMATS
from gpt_oss_harmony.tokens.vocabulary import load_vocabulary
from support.noise_sampler import sampled
from support.tool_schemas import tool_schema
from support.turns import TOOLS

ENCODING = load_harmony_encoding("HarmonyGptOss")
NOTHING = Conversation.from_messages([])
FINAL = "<|channel|>final<|message|>"


def grammar_of(schema: Any, **options: Any) -> str:
    wanted = {"type": "json_schema", "schema": schema}
    return turn_grammar(NOTHING, TurnOptions(response_format=wanted, **options))


SCHEMAS: dict[str, Any] = {
    "an open object": {"type": "object"},
    "required names": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "array", "minItems": 2}},
        "required": ["a", "b"],
    },
    "a number before a required name": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"enum": ["long", "longer"]}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
    "a multiple": {"type": "number", "multipleOf": 2},
    "a list of records": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 10}},
            "required": ["name", "age"],
            "additionalProperties": False,
        },
    },
    "a tree": {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "next": {"$ref": "#"}},
        "required": ["value"],
        "additionalProperties": False,
    },
    "a long text": {"type": "string", "minLength": 60},
    "texts in formats": {
        "type": "object",
        "properties": {
            "day": {"format": "date", "type": "string"},
            "id": {"format": "uuid", "type": "string"},
        },
        "required": ["day", "id"],
    },
    "a pattern": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}/[a-z]+$"},
}

WAYS = [
    # begun, the most tokens to the end
    ('{"a": [1, {"b": "c', 3),
    ('{"a', 5),
    ("{", 2),
    ('{"a": 12', 2),
]


@pytest.mark.parametrize(("begun", "most"), WAYS)
def test_a_short_way_is_found(begun: str, most: int) -> None:
    matcher = Matcher(grammar_of({"type": "object"}))
    tokens = ENCODING.encode(FINAL + begun, allowed_special="all")
    assert matcher.accept_all(tokens) == len(tokens)
    found = way_to_the_end(matcher)
    assert found is not None
    assert len(found) <= most
    json.loads(ENCODING.decode([*tokens, *found]).removeprefix(FINAL).removesuffix("<|return|>"))
    assert matcher.accept_all(found) == len(found)
    assert matcher.is_finished
    assert way_to_the_end(matcher) == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_noise_ends_in_time(name: str) -> None:
    limit = 70
    matcher = ClosingMatcher(grammar_of(SCHEMAS[name]), limit)
    assert matcher.closes
    tokens = sampled(matcher, seed=limit)
    assert len(tokens) <= limit
    assert matcher.closes
    *_, answer = ENCODING.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
    [content] = answer.content
    assert isinstance(content, TextContent)
    value = json.loads(content.text)
    assert not list(Draft202012Validator(SCHEMAS[name]).iter_errors(value))


def test_a_required_call_is_whole() -> None:
    matcher = ClosingMatcher(turn_grammar(TOOLS, TurnOptions(tool_choice="required")), 90)
    tokens = sampled(matcher, seed=3)
    assert len(tokens) <= 90
    *_, call = ENCODING.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
    assert call.recipient is not None


@pytest.mark.parametrize("begun", ["", "<|channel|>", " to=functions.now<|channel|>"])
def test_a_call_is_closed_where_the_model_was_trained_to_call(begun: str) -> None:
    matcher = Matcher(turn_grammar(TOOLS, TurnOptions(tool_choice="required")))
    tokens = ENCODING.encode(begun, allowed_special="all")
    assert matcher.accept_all(tokens) == len(tokens)
    way = way_to_the_end(matcher)
    assert way is not None
    *_, call = ENCODING.parse_messages_from_completion_tokens([*tokens, *way], Role.ASSISTANT)
    assert call.channel == "commentary"


def test_too_few_tokens_are_reported() -> None:
    grammar = grammar_of({"type": "string", "minLength": 500})
    assert not ClosingMatcher(grammar, 5).closes
    assert ClosingMatcher(grammar, 1_000).closes


def test_the_grammar_is_free_before_the_end_is_near() -> None:
    grammar = grammar_of({"type": "object"})
    closing, plain = ClosingMatcher(grammar, 1_000), Matcher(grammar)
    for token in ENCODING.encode(FINAL + '{"a": [1, 2', allowed_special="all"):
        assert closing.bitmask() == plain.bitmask()
        assert closing.accept(token)
        assert plain.accept(token)
    assert not closing.accept(0)
    assert not closing.is_closing


def test_a_closing_turn_is_forced() -> None:
    """The way is forced, so an engine needs no step of the model for it; copies are independent."""
    matcher = ClosingMatcher(grammar_of({"type": "object"}), 40)
    begun = ENCODING.encode(FINAL + '{"a": [1, [2, [3, [4, "some text', allowed_special="all")
    assert matcher.accept_all([*begun, 200_000]) == len(begun)
    assert matcher.is_closing
    masks = np.zeros((2, BITMASK_WORDS), np.int32)
    plain = Matcher(grammar_of({"type": "object"}))
    fill_bitmasks([(0, matcher), (1, plain)], masks)
    assert [row.tobytes() for row in masks] == [matcher.bitmask(), plain.bitmask()]
    twin, forced = matcher.copy(), matcher.forced_tokens()
    assert forced == matcher.way
    assert matcher.accept_all(forced) == len(forced)
    assert matcher.is_finished
    assert twin.is_closing
    assert not twin.is_finished


@pytest.mark.parametrize(("tokens", "reserve"), [(0, 1), (1, 0)])
def test_limits_are_positive(tokens: int, reserve: int) -> None:
    with pytest.raises(GrammarError, match="positive"):
        ClosingMatcher(grammar_of(True), tokens, reserve=reserve)


@pytest.mark.parametrize("number", ["0", "4", "-12"])
def test_masks_after_a_multiple(number: str) -> None:
    matcher = Matcher(grammar_of({"type": "number", "multipleOf": 2}))
    tokens = ENCODING.encode(FINAL + number, allowed_special="all")
    assert matcher.accept_all(tokens) == len(tokens)
    assert ENCODING.encode("<|return|>", allowed_special="all")[0] in matcher.allowed_tokens()


PATTERNS_THAT_LED_ASTRAY = [
    *(r"^v\d+\.\d+\.\d+$", r"^.*\.json$", r"\.git$", "xyz", "^[^a-z]+@[^0-9]+$"),
    *(r"^arn:aws:[a-z]+:.*:\d{12}:.+$", r"^\S.*\S$", "https?://.*"),
    *(r"^\p{L}+:\p{L}{5}:x$", r"^[^\p{Lu}x]{2}\p{Lt}\p{Lo}\P{L}\p{Sm}$"),
]


@pytest.mark.parametrize("pattern", PATTERNS_THAT_LED_ASTRAY)
@pytest.mark.parametrize("begun", ["", "7", "x.", "https:/", "v1.", "arn:aws:s3:"])
def test_a_text_with_a_pattern_is_completed(pattern: str, begun: str) -> None:
    matcher = Matcher(grammar_of({"type": "string", "pattern": pattern}))
    tokens = ENCODING.encode(f'{FINAL}"{begun}', allowed_special="all")
    taken = matcher.accept_all(tokens)
    assert taken >= 3
    found = way_to_the_end(matcher)
    assert found is not None
    assert len(found) < 25
    assert matcher.accept_all(found) == len(found)
    assert matcher.is_finished


def test_what_cannot_be_closed_is_given_up_after_a_few_trials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trials: list[int] = []
    count_allowed = Matcher.count_allowed

    def counted(matcher: Matcher, tokens: Sequence[int]) -> int:
        trials.append(len(tokens))
        return count_allowed(matcher, tokens)

    monkeypatch.setattr(Matcher, "count_allowed", counted)
    items = {"type": "string", "pattern": "^[A-Z]{3}-[0-9]$"}
    schema = {"type": "array", "minItems": 500, "items": items}
    assert way_to_the_end(Matcher(grammar_of(schema))) is None
    assert 500 < len(trials) < 2 * (2_000 + WAY_LIMIT)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_text_in_a_format_is_completed(name: str) -> None:
    found = way_to_the_end(Matcher(grammar_of({"type": "string", "format": name})))
    assert found is not None
    assert len(found) < 30


@pytest.mark.parametrize("keyword", [{"format": "email"}, {"pattern": "[0-9]"}])
def test_a_long_text_is_completed_by_its_least_rest(keyword: dict[str, str]) -> None:
    found = way_to_the_end(Matcher(grammar_of({"type": "string", "minLength": 50, **keyword})))
    assert found is not None
    assert len(found) < 20


@functools.cache
def opening_tokens() -> np.ndarray[Any, Any]:
    """Return tokens that open or begin values."""
    texts = enumerate(load_vocabulary())
    return np.array([token for token, text in texts if set(text) & set(b'[{,"')][:800])


def opened(matcher: ClosingMatcher, seed: int) -> list[int]:
    """Sample tokens that open as much as possible, every other time."""
    choices, tokens, openers = random.Random(seed), list[int](), opening_tokens()
    while not matcher.is_finished:
        mask = np.frombuffer(matcher.bitmask(), np.uint8)
        wanted = openers[mask[openers >> 3] >> (openers & 7) & 1 > 0]
        if not wanted.size or choices.random() < 0.5:
            byte = int(choices.choice(np.flatnonzero(mask)))
            wanted = np.array([8 * byte + bit for bit in range(8) if mask[byte] >> bit & 1])
        tokens.append(int(choices.choice(wanted)))
        assert matcher.accept(tokens[-1])
    return tokens


def closed_in_time(seed: int, limit: int) -> bool:
    """Return whether a random tool's turn can be closed; fail if it is not, although it can."""
    schema = tool_schema(seed)
    grammar = grammar_of(schema, on_unsupported="loosen", reasoning=seed % 2 == 0)
    matcher = ClosingMatcher(grammar, limit)
    if matcher.closes:
        assert len(opened(matcher, seed)) <= limit, (seed, limit)
    return matcher.closes


@pytest.mark.parametrize("limit", [40, 150])
def test_what_is_closable_at_the_start_is_closed_at_the_end(limit: int) -> None:
    assert sum(closed_in_time(seed, limit) for seed in range(9_000, 9_010)) >= 8


ONLY_WHAT_IS_REQUIRED: list[tuple[dict[str, Any], str, str]] = [
    # properties, what was written, the rest
    ({"b": {"type": "integer", "minimum": 1577836800000}}, "{", '"b":1577836800000}'),
    ({"b": {"type": "integer", "maximum": 9, "multipleOf": 10}}, '{"a":true', ',"b":0}'),
    ({"b": {"type": "number", "exclusiveMinimum": 0.5, "maximum": 0.75}}, "{", '"b":0.7}'),
    ({"b": {"type": "object", "properties": {"c": True}, "required": ["c"]}}, "{", '"b":{"c":0}}'),
    ({"b": {"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 2}}, "{", '"b":["x","x"]}'),
    ({"b": {"type": "array", "items": {"const": 12}, "minItems": 2}}, '{"b":[12', ",12]}"),
    # `15` begins the number, but does not end there; behind it, no object may begin.
    (
        {
            "a": {"const": 15},
            "b": {
                "anyOf": [
                    {"type": "integer", "minimum": 1500000000000001},
                    {"type": "object", "properties": {"x": {"type": "null"}}, "required": ["x"]},
                ]
            },
        },
        '{"a":15,"b":',
        '{"x":null}}',
    ),
]


@pytest.mark.parametrize(("properties", "begun", "rest"), ONLY_WHAT_IS_REQUIRED)
def test_the_way_writes_only_what_is_required(
    properties: dict[str, Any], begun: str, rest: str
) -> None:
    listed = {"a": {"type": "boolean"}, **properties, "z": {"type": "string"}}
    matcher = Matcher(grammar_of({"properties": listed, "required": ["b"], "type": "object"}))
    tokens = ENCODING.encode(FINAL + begun, allowed_special="all")
    assert matcher.accept_all(tokens) == len(tokens)
    assert ENCODING.decode(way_to_the_end(matcher) or []) == f"{rest}<|return|>"


@functools.cache
def closing_tokens() -> Any:
    texts = enumerate(load_vocabulary())
    return np.array([token for token, text in texts if re.fullmatch(b'["}\\]]+', text)])


@pytest.mark.parametrize("seed", range(9_000, 9_008))
def test_no_sampled_turn_is_much_shorter_than_the_way(seed: int) -> None:
    grammar = grammar_of(tool_schema(seed), on_unsupported="loosen", reasoning=False)
    way, closers = way_to_the_end(Matcher(grammar)), closing_tokens()
    assert way is not None
    for number in range(8):
        choices, matcher, taken = random.Random(number), Matcher(grammar), 0
        while not matcher.is_finished and taken < len(way):
            mask = np.frombuffer(matcher.bitmask(), np.uint8)
            wanted = closers[mask[closers >> 3] >> (closers & 7) & 1 > 0]
            if not wanted.size or choices.random() < 0.25:
                byte = int(choices.choice(np.flatnonzero(mask)))
                wanted = np.array([8 * byte + bit for bit in range(8) if mask[byte] >> bit & 1])
            assert matcher.accept(int(choices.choice(wanted)))
            taken += 1
        assert not matcher.is_finished or taken >= len(way) - 1


CLOSED_TOOLS = int(os.environ.get("HARMONY_TEST_CLOSED_TOOLS", "28"))
"""How many of 700 tools are tried; `make closing` tries all."""

CLOSED_FROM = int(os.environ.get("HARMONY_TEST_CLOSED_FROM", "9000"))
"""The seed of the first of them; `make closing SEED=31000` tries others."""


@pytest.mark.slow
@pytest.mark.parametrize("limit", [40, 150, 300, 1_000])
@pytest.mark.parametrize("start", range(CLOSED_FROM, CLOSED_FROM + 700, 100))
def test_seven_hundred_tools_are_closed_in_time(start: int, limit: int) -> None:
    seeds = range(start, start + 100, 700 // CLOSED_TOOLS)
    closable = sum(closed_in_time(seed, limit) for seed in seeds)
    assert closable >= int(len(seeds) * (0.9 if limit == 40 else 0.99))
