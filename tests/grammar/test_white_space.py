"""White space in JSON means the same in every version of llguidance, and does no harm elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpt_oss_harmony import Conversation, load_harmony_encoding
from gpt_oss_harmony.grammar import (
    GrammarError,
    Matcher,
    TurnOptions,
    turn_gbnf,
    turn_grammar,
)
from gpt_oss_harmony.grammar.json_spelling import (
    JSON_OPTIONS,
    for_llguidance_1_0,
    with_any_spelling,
)
from support.llguidance_version import BEFORE_1_8, is_read_differently

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "array"}},
    "required": ["a"],
}
FORMAT = {"type": "json_schema", "schema": SCHEMA}
NOTHING = Conversation.from_messages([])
GRAMMAR = turn_grammar(NOTHING, TurnOptions(response_format=FORMAT))
CANONICAL = turn_grammar(NOTHING, TurnOptions(response_format=FORMAT, canonical=True))

ALLOWED = ['{"a":1}', '{"a": 1}', '{"a": 1, "b": [1,2]}', '{"a": 1,\n  "b": [1,\r\n\t2]}']
ANYWHERE = [
    '{"a": 1, "\\u00e9": 2}',
    '{ "a": 1}',
    '{"a":  1}',
    '{"a": 1\n}',
    '{\n  "a": 1,\n  "b": [\n    1\n  ]\n}',
]
WRONG = ['{"b": 1}', '{"a": "1"}', '{"a"\xa0: 1}', '{"a": 1}}']


def accepts(grammar: str, answer: str) -> bool:
    turn = f"<|channel|>final<|message|>{answer}<|return|>"
    tokens = load_harmony_encoding("HarmonyGptOss").encode(turn, allowed_special="all")
    return Matcher(grammar).accept_all(tokens) == len(tokens)


@pytest.mark.parametrize("answer", ALLOWED)
def test_it_follows_separators(answer: str) -> None:
    assert accepts(GRAMMAR, answer)
    assert accepts(with_any_spelling(GRAMMAR), answer)


@pytest.mark.parametrize("answer", [*ALLOWED, '{"a":1,"b":[1,{"c":null}]}'])
def test_canonical_json_has_none(answer: str) -> None:
    is_compact = not any(space in answer for space in " \n\t")
    assert accepts(CANONICAL, answer) == is_compact
    assert accepts(for_llguidance_1_0(CANONICAL), answer) == is_compact
    assert accepts(for_llguidance_1_0(GRAMMAR), answer) == is_compact
    assert accepts(with_any_spelling(CANONICAL), answer)


@pytest.mark.parametrize("answer", ANYWHERE)
def test_it_is_judged_more_leniently_than_it_is_sampled(answer: str) -> None:
    assert not accepts(GRAMMAR, answer) or is_read_differently(SCHEMA, answer)
    assert accepts(with_any_spelling(GRAMMAR), answer)


@pytest.mark.parametrize("answer", WRONG)
def test_what_is_wrong_stays_wrong(answer: str) -> None:
    assert not accepts(GRAMMAR, answer)
    assert not accepts(with_any_spelling(GRAMMAR), answer)


def test_no_option_is_used_that_old_versions_ignore() -> None:
    assert "whitespace_pattern" not in JSON_OPTIONS
    assert GRAMMAR.count('"whitespace_flexible": false') == 1
    assert "whitespace_flexible" not in with_any_spelling(GRAMMAR)
    assert "json_allowed_escapes" not in for_llguidance_1_0(GRAMMAR)


# The option

VALUE = {"a": 1, "b": [1, {"x": [], "y": {}}], "c": {"k": "v", "l": None}}
COMPACT = json.dumps(VALUE, separators=(",", ":"))
PRINTED = [json.dumps(VALUE, indent=indent) for indent in (0, 2, 4, "\t")]
ODD = ['{ "a" : 1 , "b" : [ ] }', '{\r\n\r\n"a":1}', '{"a":\n    1\n}']
ENDLESS = [
    '{"a":' + " " * 9 + "1}",
    '{\n\n\n"a":1}',
    "{" + "\n      " * 3 + '"a":1}',
    '{"a":1 \n \n \n}',
    '{"a":1}\n',
    ' {"a":1}',
]
TAKEN = {
    "separators": [COMPACT, json.dumps(VALUE)],
    "compact": [COMPACT],
    "flexible": [COMPACT, json.dumps(VALUE), *PRINTED, *ODD],
    "indented": PRINTED,
}


@pytest.mark.parametrize("whitespace", TAKEN)
def test_white_space_is_an_option(whitespace: Any) -> None:
    grammar = turn_grammar(NOTHING, TurnOptions(response_format=FORMAT, whitespace=whitespace))
    texts = [COMPACT, json.dumps(VALUE), *PRINTED, *ODD, *ENDLESS]
    if BEFORE_1_8 and "whitespace_pattern" in grammar:  # it repeats the pattern
        texts = [*TAKEN[whitespace], *ENDLESS[-2:]]
    assert [text for text in texts if accepts(grammar, text)] == TAKEN[whitespace]
    assert all(accepts(with_any_spelling(grammar), text) for text in texts[: -len(ENDLESS)])
    assert accepts(for_llguidance_1_0(grammar), COMPACT)


def test_canonical_json_is_compact_whatever_the_option() -> None:
    options = TurnOptions(response_format=FORMAT, whitespace="indented", canonical=True)
    assert turn_grammar(NOTHING, options) == CANONICAL


def test_unknown_white_space_is_refused() -> None:
    with pytest.raises(GrammarError, match="use one of separators, compact, flexible, indented"):
        TurnOptions(whitespace="pretty")  # type: ignore[arg-type]


def test_gbnf_has_no_white_space_anywhere() -> None:
    grammar = turn_grammar(NOTHING, TurnOptions(response_format=FORMAT, whitespace="flexible"))
    with pytest.raises(GrammarError, match="white space anywhere"):
        turn_gbnf(grammar)
