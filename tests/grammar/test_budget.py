"""Schemas have a price with a limit, and a grammar that was written never fails later."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import pytest
from llguidance import LLMatcher, LLParserLimits

from gpt_oss_harmony import Conversation, load_harmony_encoding
from gpt_oss_harmony.grammar import (
    GrammarError,
    Matcher,
    TurnOptions,
    enforceable_schema,
    loosened_schema,
    matcher,
    turn_grammar,
)
from gpt_oss_harmony.grammar.engine_trial import ENGINE_FUEL, TRIAL_FUEL, try_schema
from gpt_oss_harmony.grammar.errors import raise_error
from gpt_oss_harmony.grammar.json_schema import loosening
from gpt_oss_harmony.grammar.json_schema.budget import STEP_LIMIT, Budget, budget_of, cached, spend
from gpt_oss_harmony.grammar.json_schema.documents import plain_schema
from gpt_oss_harmony.grammar.json_schema.formats import FORMATS
from gpt_oss_harmony.grammar.json_schema.pattern_automata import texts_but
from gpt_oss_harmony.grammar.json_schema.patterns import (
    has_counts,
    needs_trial,
    pattern_accepts,
    rust_pattern,
)
from gpt_oss_harmony.grammar.json_spelling import JSON_OPTIONS
from gpt_oss_harmony.grammar.token_table import token_table
from gpt_oss_harmony.tokens.vocabulary import load_vocabulary
from support.growing_schemas import SHAPES

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
    "names of up to 256 characters": {"type": "object", "patternProperties": {"^.{1,256}$": {}}},
    "a text without spaces at its ends": {
        "type": "string",
        "pattern": r"^\S.{0,198}\S$",
        "maxLength": 200,
    },
    "words up to a length": {"type": "string", "pattern": r"^([a-z]{1,20} ?){1,30}$"},
    "a bounded address": {"type": "string", "format": "email", "minLength": 10},
    "addresses, hosts and words": {
        "anyOf": [
            {"type": "string", "format": "email"},
            {"type": "string", "format": "hostname"},
            {"type": "string", "pattern": "^(?:[a-z]{1,20} ?){1,5}$"},
        ]
    },
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
        "patternProperties": {r"^(\w{0,99},?){1,99}\d$": {}},
    },
    "#/anyOf": {
        "anyOf": [
            {"type": "string", "pattern": rf"^([a-{last}]{{1,{17 + n}}} ?){{1,{27 + n}}}$"}
            for n, last in enumerate("wxyz")
        ]
    },
}


NAMES = '{"type": "object", "patternProperties": {%s: {}}}'


@pytest.mark.parametrize(("pattern", "written"), FREE_ENDS)
def test_counts_at_a_free_end_are_dropped(pattern: str, written: str) -> None:
    assert rust_pattern(pattern, "#") == written
    for text in ("", "a", "b", "bb", "aab", "ac", "zc", "ba", "aaaaaaaaaab", "caaaaaaaaaa"):
        assert pattern_accepts(pattern, text) == pattern_accepts(written or "(?:)", text), text


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_be_followed(name: str) -> None:
    schema = enforceable_schema({"type": "string", "format": name})
    assert try_schema(json.dumps(schema)).succeeds


@pytest.mark.slow
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
    with pytest.raises(GrammarError, match="the engine") as caught:
        enforceable_schema(TOO_COSTLY[pointer])
    assert caught.value.pointer == pointer


def test_a_schema_fails_the_trial_if_the_engine_gives_it_up() -> None:
    assert not try_schema('{"type": "string", "pattern": "^(\\\\w{0,99},?){1,99}[0-9]$"}').succeeds
    assert ENGINE_FUEL > TRIAL_FUEL


def test_long_patterns_are_tried_even_without_counts() -> None:
    assert has_counts("|".join(f"word{number}" for number in range(100)))
    assert not has_counts("^[a-z]+|a{2,}$".replace("{2,}", "*"))


@pytest.mark.parametrize("form", ['{"type": "string", "pattern": %s}', NAMES])
@pytest.mark.parametrize("pattern", ["^7777.*z.{5}$", "^.*[^a](?:.b?){2}$", "^(?:.?z){2}$"])
def test_small_patterns_need_no_trial(form: str, pattern: str) -> None:
    assert not has_counts(pattern)
    assert try_schema(form % json.dumps(pattern)).succeeds


ONE_WAY = [
    "^[a-z]{1,1000}$",
    "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
    "^(?:[a-z]{1,30}, ){0,40}[A-Z]{20}$",
    "^(?:a{3,9}b|c{3}d?){0,50}e{1,99}f",
    "^(?:https?|ftp)://[a-z]{3,60}(?:/[a-z]{0,30}){0,20}$",
    texts_but(tuple(f"word{number}" for number in range(300))),
    "^[^]{0,1000}$",
]
SEVERAL_WAYS = [
    "^[ab]{2,50}b$",
    "^(?:[a-z]{1,30} ?){1,9}$",
    "a{9}b{9}",
    "^(?:a{2,9}|ab{3}|[^b]){4}$",
]


@pytest.mark.parametrize("pattern", ONE_WAY)
def test_a_pattern_needs_no_trial_where_each_character_leads_to_one_place(pattern: str) -> None:
    assert has_counts(pattern)
    assert not needs_trial(pattern)
    schema = {"type": "string", "pattern": rust_pattern(pattern, ""), "maxLength": 500}
    assert try_schema(json.dumps(schema)).succeeds


@pytest.mark.parametrize("pattern", SEVERAL_WAYS)
def test_other_patterns_with_counts_are_tried(pattern: str) -> None:
    assert needs_trial(pattern)


# The budget


LISTED = SHAPES["listed values beside a pattern"](1000)
GROWING = {
    # shape: some sizes, and the most by which the price grows when the size doubles
    "texts with a pattern each": ((50, 100, 200), 2.2),
    "oneOf of objects with a constant": ((50, 100, 200), 2.2),
    "listed values beside a pattern": ((50, 100, 200), 2.2),
    "oneOf of open objects": ((5, 10, 20), 4.5),  # each is compared with each
    "excluded patterns": ((10, 20, 40), 4.5),
}


def price(schema: Any, limit: int | None = None) -> int:
    with budget_of(limit, "#") as budget:
        try:
            loosening._rewritten(plain_schema(schema, "#"), "#", raise_error, budget)
        except GrammarError:
            assert limit is not None
        return budget.spent


@pytest.mark.parametrize("shape", GROWING)
def test_the_price_grows_with_the_size(shape: str) -> None:
    counts, most = GROWING[shape]
    prices = [price(SHAPES[shape](count), STEP_LIMIT) for count in counts]
    for smaller, larger in pairwise(prices):
        assert smaller < larger < most * smaller
    assert prices[-1] < STEP_LIMIT / 4


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [3, 30, 180])
def test_no_schema_takes_more_than_its_budget(shape: str, count: int) -> None:
    limit = 200_000
    assert price(SHAPES[shape](count), limit) <= 1.1 * limit


@pytest.mark.parametrize("shape", SHAPES)
def test_loosened_schemas_keep_the_names(shape: str) -> None:
    schema = SHAPES[shape](40)
    loosened: Any = loosened_schema(schema, steps=30_000).schema
    names = schema.get("properties", {})
    if names and loosened is not True:
        assert loosened["properties"].keys() == names.keys()


def test_a_comparison_beyond_the_budget_leaves_enough_to_write_an_any_of() -> None:
    objects = [
        {
            "type": "object",
            "properties": {
                f"p{index}": {"type": "string", "pattern": f"^{chr(97 + index)}+x*"},
                "k": {"type": "string", "minLength": index},
            },
            "required": [f"p{index}"],
        }
        for index in range(10)
    ]
    schema: Any
    schema, unenforced, _ = loosened_schema({"oneOf": objects}, steps=30_000)
    assert len(schema["anyOf"]) == len(objects)
    assert [error.pointer for error in unenforced] == ["#/oneOf"]


def test_the_price_does_not_depend_on_what_is_cached() -> None:
    for shape in ("excluded patterns", "texts with a counted pattern each"):
        assert price(SHAPES[shape](4)) == price(SHAPES[shape](4))


def test_a_schema_beyond_its_budget_is_refused_with_its_pointer() -> None:
    with pytest.raises(GrammarError, match="more than 900 steps") as caught:
        enforceable_schema(LISTED, "tools/f#", steps=900)
    assert caught.value.pointer == "tools/f#"


def test_the_budget_of_a_turn_is_an_option() -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": LISTED}}
    chat = Conversation.from_messages([])
    assert turn_grammar(chat, TurnOptions(response_format=wanted))
    with pytest.raises(GrammarError, match="more than 900 steps"):
        turn_grammar(chat, TurnOptions(response_format=wanted, schema_steps=900))
    with pytest.raises(GrammarError, match="schema_steps: expected a positive integer"):
        TurnOptions(schema_steps=0)


def test_a_spent_budget_stays_spent() -> None:
    budget = Budget(100, "#")
    with budget.share(0.5):
        budget.spend(50)
        with pytest.raises(GrammarError):
            budget.spend(1)
    budget.spend(49)
    for _ in range(2):
        with pytest.raises(GrammarError, match="more than 100 steps"):
            budget.spend(1)


def test_a_cached_result_is_paid_once_by_each_schema() -> None:
    calls: list[int] = []

    @cached(maxsize=4)
    def double(number: int) -> int:
        calls.append(number)
        spend(7)
        return 2 * number

    for _ in range(2):
        with budget_of(None, "#") as budget:
            assert [double(4), double(4)] == [8, 8]
            assert budget.spent == 7
    assert calls == [4]


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
