"""A model that runs in circles: what each further round costs does not grow with those before it.

The cost is the number of calls of the library's functions, which is the same on every machine.
"""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path
from typing import Any

import pytest

import gpt_oss_harmony
from gpt_oss_harmony import Role, StreamableParser, load_harmony_encoding
from support.examples import examples

ENCODING = load_harmony_encoding("HarmonyGptOss")
SOURCES = str(Path(gpt_oss_harmony.__file__).parent)
CALL = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"
BEGINNINGS = (
    "",
    "<|channel|>analysis<|message|>",
    "<|channel|>commentary to=functions.f",
    "<|channel|>final<|message|>",
    CALL,
)
PIECES = (
    *("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>"),
    *("<|call|>", "assistant", "analysis", "final", "commentary to=functions.f", "json", '{"a"'),
    *(" x", "\n", "user", "tool", "functions", "<|im_end|>", "é"),
)
FEW, MANY = 30, 240


def tokens_of(text: str) -> list[int]:
    return ENCODING.encode(text, allowed_special="all")


def calls(tokens: list[int], *, at_once: bool) -> int:
    """Count the calls of the library's functions that it takes to read tokens."""
    count = 0

    def note(frame: Any, event: str, _: object) -> None:
        nonlocal count
        if event == "call" and frame.f_code.co_filename.startswith(SOURCES):
            count += 1

    parser = StreamableParser(ENCODING, Role.ASSISTANT, strict=False, tools=["functions.f"])
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        if at_once:
            parser.process_many(tokens)
        else:
            for token in tokens:
                parser.process(token)
        parser.process_eos()
    finally:
        sys.setprofile(before)
    return count


def check(beginning: str, unit: str, *, at_once: bool) -> None:
    begun, round_ = tokens_of(beginning), tokens_of(unit)
    few, many = (calls(begun + round_ * rounds, at_once=at_once) for rounds in (FEW, MANY))
    # Eight times the rounds: if it were quadratic, they would cost up to 64 times as much.
    assert many <= 16 * few + 1000, (beginning, unit, few, many)


@pytest.mark.parametrize(
    ("beginning", "unit"),
    [
        ("<|channel|>analysis<|message|>", "<|constrain|><|end|>"),
        ("<|channel|>commentary to=functions.f", "<|end|><|constrain|>json"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_what_was_quadratic(beginning: str, unit: str, at_once: bool) -> None:
    check(beginning, unit, at_once=at_once)


@pytest.mark.slow
def test_each_pair_of_pieces_costs_the_same_in_every_round() -> None:
    for beginning in BEGINNINGS:
        for pair in itertools.product(PIECES, repeat=2):
            check(beginning, "".join(pair), at_once=False)


@pytest.mark.slow
def test_random_rounds_cost_the_same() -> None:
    draw = random.Random(7)
    for _ in range(examples(250)):
        unit = "".join(draw.choices(PIECES, k=draw.randint(3, 6)))
        check(draw.choice(BEGINNINGS), unit, at_once=draw.random() < 0.5)
