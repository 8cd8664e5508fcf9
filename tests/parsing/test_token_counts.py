"""Tokens of messages: a split character, a repair and a cut do not make them wrong."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt_oss_harmony import HarmonyError, Role, StreamableParser, load_harmony_encoding

ENCODING = load_harmony_encoding("HarmonyGptOss")
THINK = "<|channel|>analysis<|message|>Hm 🏰 歪.<|end|>"
CALL = "<|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|call|>"
PIECES = st.sampled_from(
    ["<|start|>", "assistant", "<|channel|>", "analysis", "final", "<|message|>", "🏰", "<|end|>"]
)


def count(text: str) -> int:
    return len(ENCODING.encode(text, allowed_special="all"))


@pytest.mark.parametrize("strict", [True, False])
def test_the_tokens_of_each_message(strict: bool) -> None:
    parser = StreamableParser(ENCODING, Role.ASSISTANT, strict=strict)
    for token in ENCODING.encode(THINK + CALL, allowed_special="all"):
        parser.process(token)
    assert parser.token_counts == [count(THINK), count(CALL)]
    assert parser.reasoning_tokens == count(THINK)
    assert copy.copy(parser).token_counts == parser.token_counts


def test_a_message_that_is_cut_has_its_tokens() -> None:
    parser = StreamableParser(ENCODING, Role.ASSISTANT, strict=False)
    parser.process_many(ENCODING.encode(THINK, allowed_special="all"))
    cut = ENCODING.encode(
        "<|start|>assistant<|channel|>final<|message|>Hel🏰", allowed_special="all"
    )[:-1]
    parser.process_many(cut)
    assert parser.token_counts == [count(THINK)]
    assert parser.process_eos().token_counts == [count(THINK), len(cut)]


@given(st.lists(PIECES, max_size=20).map("".join), st.booleans())
def test_every_token_is_counted_once(text: str, strict: bool) -> None:
    tokens = ENCODING.encode(text, allowed_special="all")
    parser = StreamableParser(ENCODING, Role.ASSISTANT, strict=strict)
    try:
        parser.process_many(tokens)
        parser.process_eos()
    except HarmonyError:
        return
    counts = parser.token_counts
    assert len(counts) == len(parser.messages)
    assert all(number >= 0 for number in counts)
    assert sum(counts) <= len(tokens)
