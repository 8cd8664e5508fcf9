"""Every number under a grammar is one that readers can hold, unless an option allows any."""

from __future__ import annotations

import json
import math
import pickle
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony import Conversation, load_harmony_encoding
from gpt_oss_harmony.grammar import (
    BITMASK_WORDS,
    ClosingMatcher,
    GrammarError,
    Matcher,
    TurnOptions,
    fill_bitmasks,
    find_mismatch,
    turn_grammar,
    way_to_the_end,
)
from gpt_oss_harmony.grammar.number_limits import open_text
from support.turns import TOOLS

ENCODING = load_harmony_encoding("HarmonyGptOss")
FINAL = "<|channel|>final<|message|>"
SCHEMAS: dict[str, Any] = {
    "a number": {"type": "number"},
    "an integer": {"type": "integer"},
    "a large integer": {"type": "integer", "minimum": 10**17},
    "a negative integer": {"type": "integer", "maximum": -3},
    "a number from a bound": {"type": "number", "minimum": 0.5},
    "a multiple": {"type": "integer", "multipleOf": 3},
    "numbers and texts": {
        "type": "array",
        "items": {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^[0-9]+$"}]},
    },
    "any value": True,
    "an open object": {"type": "object"},
}
PIECES = [ENCODING.encode(text)[0] for text in ("9", "99", "999", "0", "000", "1", "e", "E", "-")]
LIKELY = [*PIECES, *(ENCODING.encode(text)[0] for text in ("+", ".", "[", "[-", "1"))]


def grammar_of(schema: Any, **options: Any) -> str:
    wanted = {"type": "json_schema", "schema": schema}
    return turn_grammar(
        Conversation.from_messages([]),
        TurnOptions(response_format=wanted, reasoning=False, preambles=False, **options),
    )


def begun(grammar: str, text: str) -> Matcher:
    matcher = Matcher(grammar)
    tokens = ENCODING.encode(FINAL, allowed_special="all") + ENCODING.encode(text)
    assert matcher.accept_all(tokens) == len(tokens)
    return matcher


def walked(grammar: str, seed: int, most: int = 150) -> str:
    """Write an answer in which numbers are as large as the grammar allows."""
    rng = random.Random(seed)
    matcher, taken = ClosingMatcher(grammar, most), list[int]()
    while not matcher.is_finished:
        mask = matcher.bitmask()
        likely = [token for token in LIKELY if mask[token >> 3] >> (token & 7) & 1]
        if likely and rng.random() < 0.97:
            token = rng.choice(likely)
        else:
            bits = np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")
            token = int(rng.choice(np.flatnonzero(bits)))
        assert matcher.accept(token)
        taken.append(token)
    return ENCODING.decode(taken).partition("<|message|>")[2].removesuffix("<|return|>")


def too_large(text: str) -> list[str]:
    """Return the numbers of a JSON text that a reader cannot hold."""
    found: list[str] = []

    def read_integer(number: str) -> int:
        if not -(2**63) <= int(number) < 2**63:
            found.append(number)
        return 0

    def read_float(number: str) -> float:
        if math.isinf(float(number)):
            found.append(number)
        return 0.0

    json.loads(text, parse_int=read_integer, parse_float=read_float)
    return found


@settings(deadline=None, max_examples=40)
@given(name=st.sampled_from([*SCHEMAS]), seed=st.integers(0, 10**6))
def test_every_number_of_every_walk_can_be_held(name: str, seed: int) -> None:
    text = walked(grammar_of(SCHEMAS[name]), seed)
    assert too_large(text) == [], text


def test_walks_are_large_enough_to_find_numbers_that_nobody_can_hold() -> None:
    found = [too_large(walked(grammar_of(True, numbers="any"), seed)) for seed in range(20)]
    assert sum(map(bool, found)) > 5


@pytest.mark.parametrize(
    "number",
    ["9223372036854775807", "-9223372036854775808", "6.02e23", "1.7976931348623157e308", "1e-400"],
)
def test_what_can_be_held_can_be_written(number: str) -> None:
    whole = ENCODING.encode(f"{FINAL}{number}<|return|>", allowed_special="all")
    assert find_mismatch(grammar_of({"type": "number"}), whole) is None


@pytest.mark.parametrize("number", ["9223372036854775808", "1e999", "-1e309", "1" * 400])
def test_a_larger_number_needs_the_option(number: str) -> None:
    whole = ENCODING.encode(f"{FINAL}{number}<|return|>", allowed_special="all")
    for wanted in ({"type": "number"}, True):
        assert find_mismatch(grammar_of(wanted), whole) is not None
        assert find_mismatch(grammar_of(wanted, numbers="any"), whole) is None
    with pytest.raises(GrammarError, match="numbers"):
        TurnOptions(numbers="32-bit")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["1e", "[1, 922337203685477580", '{"a": -1.5e30', "0." + "3" * 999]
)
def test_all_ways_to_ask_agree(text: str) -> None:
    matcher = begun(grammar_of(True), text)
    mask = matcher.bitmask()
    rows = np.zeros((2, BITMASK_WORDS), np.int32)
    fill_bitmasks([(0, matcher)], rows)
    assert rows[0].tobytes() == mask
    refused = 0
    for token in PIECES:
        is_allowed = bool(mask[token >> 3] >> (token & 7) & 1)
        assert matcher.count_allowed([token]) == is_allowed
        assert matcher.copy().accept_all([token]) == is_allowed
        assert matcher.fill_draft([token], rows) == is_allowed
        refused += not is_allowed
    assert refused > 0


def test_digits_in_texts_are_free() -> None:
    digits = "123456789" * 5
    for schema, text in (
        ({"type": "string", "pattern": "^[0-9]+$"}, f'"{digits}"'),
        (True, f'{{"{digits}": "{digits}", "b": ["\\"", "{digits}e999"]}}'),
    ):
        whole = ENCODING.encode(f"{FINAL}{text}<|return|>", allowed_special="all")
        assert find_mismatch(grammar_of(schema), whole) is None
    for options in (
        TurnOptions(),
        TurnOptions(response_format={"type": "regex", "pattern": "[0-9]+"}),
    ):
        whole = ENCODING.encode(f"{FINAL}{digits}<|return|>", allowed_special="all")
        assert find_mismatch(turn_grammar(TOOLS, options), whole) is None


def test_a_copied_grammar_keeps_its_limit() -> None:
    for numbers in ("64-bit", "any"):
        grammar = grammar_of(True, numbers=numbers)
        assert pickle.loads(pickle.dumps(grammar)) == grammar


TEXTS = st.text(st.sampled_from('a\\"{:,\n é'), max_size=8)
VALUES = st.recursive(TEXTS | st.integers(), lambda inner: st.dictionaries(TEXTS, inner))


@settings(deadline=None)
@given(value=VALUES, data=st.data())
def test_the_open_text_is_what_follows_the_quote_that_opened_it(value: Any, data: Any) -> None:
    written = json.dumps(value, ensure_ascii=data.draw(st.booleans()))
    cut = written[: data.draw(st.integers(0, len(written)))]
    wanted: str | None = None
    characters = iter(cut)
    for character in characters:
        if wanted is None:
            wanted = "" if character == '"' else None
        elif character == '"':
            wanted = None
        else:
            wanted += character + (next(characters, "") if character == "\\" else "")
    assert open_text(ENCODING.encode(FINAL + cut, allowed_special="all")) == wanted


def test_a_text_with_quotes_is_completed_by_what_its_pattern_needs() -> None:
    schema = {"type": "string", "pattern": "^arn:.*:[0-9]{12}$"}
    matcher = begun(grammar_of(schema), json.dumps('arn:"[\\":"[ "')[:-1])
    assert ENCODING.decode(way_to_the_end(matcher) or []) == ':000000000000"<|return|>'
