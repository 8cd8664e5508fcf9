"""A turn in pieces: however its tokens come in, vLLM is told the same messages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony_vllm.turn import Piece, TurnFollower
from support.vectors import cases

ENCODING = load_harmony_encoding("HarmonyGptOss")
DAMAGED: list[dict[str, Any]] = [
    {
        "id": case["id"],
        "completion": case["input"]["text"],
        "tools": case["input"]["tools"],
        "messages": case["expected"]["messages"],
        "may_call": "unmarked-call" not in case["expected"]["recoveries"],
    }
    for case in cases("recovery", "parse")
    if "note" not in case  # of a known gap
]
FOR_EVERYONE = {"assistant", "user", "all", "developer", "system", "tool"}


def encoded(text: str) -> list[int]:
    return ENCODING.encode(text, allowed_special="all")


def followed(tokens: list[int], tools: list[str], at_once: int) -> tuple[list[Piece], int]:
    turn = TurnFollower(tools)
    pieces = []
    for start in range(0, len(tokens), at_once):
        pieces += turn.take(tokens[start : start + at_once])
    return pieces + turn.end(), turn.reasoning_tokens


def told(pieces: list[Piece]) -> list[tuple[str | None, str | None, str]]:
    """Join the text of each message; at its end the message itself says the same."""
    messages, text = [], ""
    for piece in pieces:
        text += piece.delta
        if piece.completed_message is not None:
            assert piece.delta == ""
            assert piece.completed_message.text == text
            assert piece.completed_message.channel == piece.channel
            assert piece.completed_message.recipient == piece.recipient
            messages.append((piece.channel, piece.recipient, text))
            text = ""
    assert text == "", "every text belongs to a message that ends"
    return messages


def meant(
    messages: list[dict[str, Any]], *, may_call: bool = True
) -> list[tuple[str | None, str | None, str]]:
    """What the messages of a vector are to vLLM: every text has a channel that it shows.

    Without `may_call`, the turn has no special tokens, and nothing in it is a call.
    """
    expected: list[tuple[str | None, str | None, str]] = []
    for message in messages:
        if message["role"] != "assistant":
            continue
        channel, recipient = message.get("channel"), message.get("recipient")
        text = message["content"]
        if recipient in FOR_EVERYONE or not may_call:
            recipient = None
        if recipient is None and channel not in ("analysis", "commentary"):
            channel = "final"
        if (recipient or "").startswith("functions.") and not text.strip():
            text += "{}"
        expected.append((channel, recipient, text))
    return expected


@pytest.mark.parametrize("damaged", DAMAGED, ids=lambda damaged: damaged["id"])
def test_every_damaged_turn_is_told_as_it_was_meant(damaged: dict[str, Any]) -> None:
    tokens, tools = encoded(damaged["completion"]), damaged.get("tools", [])
    pieces, reasoning_tokens = followed(tokens, tools, at_once=1)
    assert told(pieces) == meant(damaged["messages"], may_call=damaged["may_call"])
    for at_once in (3, max(len(tokens), 1)):
        later, count = followed(tokens, tools, at_once)
        assert told(later) == told(pieces)
        assert count == reasoning_tokens


WORDS = [
    *("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>"),
    *("<|constrain|>", "assistant", "tool", "analysis", "commentary", "final", " to=functions.now"),
    *(" to=user", " json", "{}", "Hello", " ", "\n", "é", "🙂", "<|endofprompt|>"),
]


@given(st.lists(st.sampled_from(WORDS), max_size=24), st.integers(1, 7))
def test_no_text_depends_on_how_the_tokens_come_in(words: list[str], at_once: int) -> None:
    tokens = encoded("".join(words))
    whole, count = followed(tokens, ["functions.now"], max(len(tokens), 1))
    parts, same_count = followed(tokens, ["functions.now"], at_once)
    assert told(parts) == told(whole)
    assert same_count == count


@given(st.lists(st.integers(199_990, 200_020) | st.integers(0, 300), max_size=40))
def test_any_tokens_are_read(tokens: list[int]) -> None:
    told(followed(tokens, [], at_once=1)[0])


def test_a_call_is_told_of_before_it_has_text() -> None:
    pieces, _ = followed(encoded("<|channel|>commentary to=functions.now<|message|>"), [], 1)
    assert pieces[0] == Piece("commentary", "functions.now", "")


def test_what_others_are_made_to_say_is_left_out() -> None:
    text = (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>functions.now to=assistant"
        "<|channel|>commentary<|message|>12:00<|end|><|start|>assistant<|channel|>final"
        "<|message|>Noon.<|return|>"
    )
    pieces, _ = followed(encoded(text), ["functions.now"], 1)
    assert told(pieces) == [("analysis", None, "Hm."), ("final", None, "Noon.")]
