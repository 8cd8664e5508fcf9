"""A grammar that was written never fails while it is followed."""

from __future__ import annotations

import json
import random

import pytest
from llguidance import LLMatcher, LLParserLimits

from gpt_oss_harmony import Conversation, load_harmony_encoding
from gpt_oss_harmony.grammar import (
    GrammarError,
    Matcher,
    TurnOptions,
    enforceable_schema,
    matcher,
    turn_grammar,
)
from gpt_oss_harmony.grammar.json_schema.formats import FORMATS
from gpt_oss_harmony.grammar.json_schema.patterns import has_counts, pattern_accepts, rust_pattern
from gpt_oss_harmony.grammar.token_table import (
    COST_LIMIT,
    ENGINE_FUEL,
    JSON_OPTIONS,
    step_cost,
    token_table,
)
from gpt_oss_harmony.tokens.vocabulary import load_vocabulary

VOCABULARY = load_vocabulary()
ENCODING = load_harmony_encoding("HarmonyGptOss")

FREE_ENDS = [
    ("[a-z]{1,100}", "[a-z]"),
    ("[a-z]{1,100}c", "[a-z]c"),
    ("a*b{2,9}", "b{2,2}"),
    ("x?", ""),
    ("^a{1,9}", "^a"),
    ("a{1,9}$", "a$"),
    ("ca{1,9}$", "ca{1,9}$"),
    ("^a{1,9}$", "^a{1,9}$"),
    ("(a{1,9}|^b{1,9}$)", "(?:a|^b{1,9}$)"),
]

FOLLOWED = {
    "names by a free pattern": {
        "type": "object",
        "patternProperties": {"[a-z]{1,100}": {"type": "string"}},
    },
    "names with many signs": {
        "type": "object",
        "patternProperties": {"[A-Za-z0-9-_.:]{1,255}": {"type": "string", "format": "uri"}},
    },
    "a hundred words": {"type": "string", "pattern": r"^(?:\S+\s+){0,99}\S+$"},
    "a bounded address": {"type": "string", "format": "email", "minLength": 10},
    "all formats but two": {
        "anyOf": [
            {"type": "string", "format": name}
            for name in FORMATS
            if name not in ("email", "hostname")
        ]
    },
}

TOO_COSTLY = {
    "#/pattern": {"type": "string", "pattern": r"^([a-z]{1,20}[ ]?){1,90}$"},
    "#/properties/a/pattern": {"properties": {"a": {"pattern": r"^(\w{0,99},?){1,99}\d$"}}},
    "#/patternProperties": {
        "type": "object",
        "patternProperties": {r"^([a-z]{1,20} ?){1,30}$": {}},
    },
    "#/anyOf": {
        "anyOf": [
            {"type": "string", "format": "email"},
            {"type": "string", "format": "hostname"},
            {"type": "string", "pattern": "^(?:[a-z]{1,20} ?){1,5}$"},
        ]
    },
}


@pytest.mark.parametrize(("pattern", "written"), FREE_ENDS)
def test_counts_at_a_free_end_are_dropped(pattern: str, written: str) -> None:
    assert rust_pattern(pattern, "#") == written
    for text in ("", "a", "b", "bb", "aab", "ac", "zc", "ba", "aaaaaaaaaab", "caaaaaaaaaa"):
        assert pattern_accepts(pattern, text) == pattern_accepts(written or "(?:)", text), text


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_be_followed(name: str) -> None:
    schema = enforceable_schema({"type": "string", "format": name})
    assert step_cost(json.dumps(schema)) < COST_LIMIT


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_is_enforced_is_followed_with_the_fuel_of_engines(name: str) -> None:
    schema = enforceable_schema(FOLLOWED[name])
    assert isinstance(schema, dict)
    grammar = f"start: %json {json.dumps({**schema, 'x-guidance': JSON_OPTIONS})}\n"
    start = LLMatcher(token_table(), grammar, log_level=0)
    choices = random.Random(name)
    for _ in range(2):
        engine = start.deep_copy()
        for _ in range(15):
            mask = engine.compute_bitmask()
            assert not engine.is_error(), engine.get_error()
            if engine.is_accepting():
                break
            allowed = [8 * i + b for i, byte in enumerate(mask) for b in range(8) if byte >> b & 1]
            allowed = [token for token in allowed if token < len(VOCABULARY)]
            tokens = choices.sample(allowed, min(5, len(allowed)))
            token = max(tokens, key=lambda token: len(VOCABULARY[token]))
            assert engine.try_consume_tokens([token]) == 1


@pytest.mark.parametrize("pointer", TOO_COSTLY)
def test_what_the_engine_cannot_follow_is_refused_with_its_pointer(pointer: str) -> None:
    with pytest.raises(GrammarError, match="takes too long to follow") as caught:
        enforceable_schema(TOO_COSTLY[pointer])
    assert caught.value.pointer == pointer


def test_a_schema_that_the_engine_gives_up_costs_more_than_the_limit() -> None:
    assert step_cost('{"type": "string", "pattern": "^(\\\\w{0,99},?){1,99}[0-9]$"}') == ENGINE_FUEL
    assert ENGINE_FUEL > COST_LIMIT


def test_long_patterns_are_tried_even_without_counts() -> None:
    assert has_counts("|".join(f"word{number}" for number in range(100)))
    assert not has_counts("^[a-z]+|a{2,}$".replace("{2,}", "*"))


# Engines that give up


HARD = "start: <|channel|> /(.*[a-z]){1,90}[0-9]([a-z]{1,20}[ ]?){1,90}x/ <|return|>\n"
HARD_TOKENS = ENCODING.encode("<|channel|>abc abc abc", allowed_special="all")


def test_a_grammar_that_fails_says_so_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher, "_LIMITS", LLParserLimits(step_lexer_fuel=2_000))
    for _ in range(2):
        with pytest.raises(GrammarError, match="cannot follow the grammar any further") as caught:
            follow(Matcher(HARD + "// at every call\n"))
        assert "\n" not in str(caught.value)
        assert "<state>" not in str(caught.value)
        assert "turn_grammar" in caught.value.remedy


def follow(made: Matcher) -> None:
    for token in HARD_TOKENS:
        made.bitmask()
        assert made.accept(token)


def test_a_new_matcher_does_not_share_what_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = HARD + "// shared\n"
    with monkeypatch.context() as context:
        context.setattr(matcher, "_LIMITS", LLParserLimits(step_lexer_fuel=2_000))
        first, second = Matcher(grammar), Matcher(grammar)
        with pytest.raises(GrammarError):
            follow(first)
    follow(Matcher(grammar))  # the cache has dropped the broken one
    follow(second)  # compiles it anew
    second.rollback(1)
    assert second.accept_all(HARD_TOKENS[-1:]) == 1


def test_fewer_tokens_are_taken_only_where_one_is_not_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grammar = HARD + "// short\n"
    with monkeypatch.context() as context:
        context.setattr(matcher, "_LIMITS", LLParserLimits(step_lexer_fuel=2_000))
        broken = Matcher(grammar)
        twin = broken.copy()
        with pytest.raises(GrammarError):
            follow(broken)
    assert twin.accept_all(HARD_TOKENS) == len(HARD_TOKENS)


def test_the_pattern_of_a_turn_is_named() -> None:
    schema = TOO_COSTLY["#/pattern"]
    options = TurnOptions(
        response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    )
    with pytest.raises(GrammarError) as caught:
        turn_grammar(Conversation.from_messages([]), options)
    assert caught.value.pointer == "response_format#/pattern"
