"""The constraint inside `generate`: beams, batches, drafts, second calls, and clear errors."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import torch

from gpt_oss_harmony import Conversation, Message, Role, load_harmony_encoding
from gpt_oss_harmony.grammar import (
    GrammarError,
    GrammarLogitsProcessor,
    Matcher,
    TurnOptions,
    turn_grammar,
)
from gpt_oss_harmony.installation import requirement
from gpt_oss_harmony.tokens.special_tokens import CALL, RETURN
from support.noise_model import PAD, noise_model, padded

ENCODING = load_harmony_encoding("HarmonyGptOss")
WIDTH = 201_088


def prompt(text: str) -> list[int]:
    conversation = Conversation.from_messages([Message.from_role_and_content(Role.USER, text)])
    return ENCODING.render_conversation_for_completion(conversation, Role.ASSISTANT)


def grammar(schema: dict[str, Any] | None = None, **options: Any) -> str:
    if schema is not None:
        wanted = {"type": "json_schema", "json_schema": {"schema": schema}}
        options = {"response_format": wanted, "reasoning": False, "preambles": False, **options}
    options = {"text_tokens": 3, "reasoning_tokens": 3, **options}
    return turn_grammar(Conversation.from_messages([]), TurnOptions(**options))


def tokens(text: str) -> list[int]:
    return ENCODING.encode(text, allowed_special="all")


BOOLEAN = grammar({"type": "boolean"})
NAMES = grammar({"enum": ["Ada", "Grace", "Barbara"]})
SHORT = grammar({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
FREE = grammar(reasoning_messages=1)


def completions(sequences: torch.Tensor, prompt_length: int) -> list[list[int]]:
    """Return each row's tokens up to its stop token; only padding may follow."""
    found = []
    for row in sequences[:, prompt_length:].tolist():
        end = next(at for at, token in enumerate(row) if token in (RETURN, CALL)) + 1
        assert set(row[end:]) <= {PAD}
        found.append(row[:end])
    return found


def generate(
    grammars: str | list[str], prompts: list[list[int]], **options: Any
) -> list[list[int]]:
    inputs = padded(prompts)
    length = inputs["input_ids"].shape[1]
    processor = GrammarLogitsProcessor(grammars, length)
    options = {"max_new_tokens": 200, "do_sample": True, "top_k": 0, **options}
    torch.manual_seed(1)
    sequences = noise_model().generate(**inputs, logits_processor=[processor], **options)
    return completions(sequences, length)


def is_whole(grammar: str, completion: list[int]) -> bool:
    matcher = Matcher(grammar)
    return matcher.accept_all(completion) == len(completion) and matcher.is_finished


@pytest.mark.parametrize("do_sample", [True, False], ids=["sampling", "greedy"])
def test_each_prompt_has_its_grammar(do_sample: bool) -> None:
    grammars = [BOOLEAN, FREE, NAMES, SHORT]
    prompts = [prompt("x" * length) for length in (1, 40, 5, 20)]
    found = generate(grammars, prompts, do_sample=do_sample)
    assert all(map(is_whole, grammars, found))


@pytest.mark.parametrize("do_sample", [True, False], ids=["sampling", "greedy"])
def test_beams(do_sample: bool) -> None:
    grammars = [FREE, NAMES]
    prompts = [prompt("hi"), prompt("hello there")]
    found = generate(grammars, prompts, num_beams=3, do_sample=do_sample, num_return_sequences=2)
    assert len(found) == 4
    assert all(map(is_whole, [FREE, FREE, NAMES, NAMES], found))


def test_several_sequences_for_a_prompt() -> None:
    found = generate([BOOLEAN, SHORT], [prompt("hi"), prompt("you")], num_return_sequences=3)
    assert all(map(is_whole, [BOOLEAN] * 3 + [SHORT] * 3, found))


def test_rows_end_within_the_limit() -> None:
    nested: dict[str, Any] = {"type": "array", "items": {"$ref": "#"}, "minItems": 1}
    wanted = grammar({"anyOf": [nested, {"type": "string", "minLength": 20}]})
    inputs = padded([prompt("hi"), prompt("you")])
    length = inputs["input_ids"].shape[1]
    processor = GrammarLogitsProcessor(wanted, length, max_new_tokens=60)
    torch.manual_seed(1)
    options: dict[str, Any] = {"max_new_tokens": 60, "do_sample": True, "top_k": 0}
    sequences = noise_model().generate(**inputs, logits_processor=[processor], **options)
    assert all(is_whole(wanted, found) for found in completions(sequences, length))


def test_drafts_are_taken_and_taken_back() -> None:
    for extra in ({"prompt_lookup_num_tokens": 4}, {"assistant_model": noise_model()}):
        for do_sample in (False, True):
            (found,) = generate(FREE, [prompt("hi hi hi")], do_sample=do_sample, **extra)
            assert is_whole(FREE, found)


def test_greedy_with_a_draft_is_greedy() -> None:
    one, other = (
        generate(SHORT, [prompt("hi hi")], do_sample=False, **extra)
        for extra in ({}, {"prompt_lookup_num_tokens": 4})
    )
    assert one == other


def test_a_processor_serves_many_calls() -> None:
    processor = GrammarLogitsProcessor(FREE, len(prompt("hi")))
    for prompts in ([prompt("hi")], [prompt("hi")] * 2, [prompt("hi")], [prompt("longer, much")]):
        inputs = padded(prompts)
        processor.prompt_length = inputs["input_ids"].shape[1]
        sequences = noise_model().generate(
            **inputs, logits_processor=[processor], do_sample=True, max_new_tokens=200
        )
        found = completions(sequences, processor.prompt_length)
        assert all(is_whole(FREE, one) for one in found)


# Step by step


def allowed(processor: GrammarLogitsProcessor, *rows: list[int], width: int = WIDTH) -> list[str]:
    """Return what each row allows, as text; finished rows allow all."""
    scores = torch.zeros(len(rows), width)
    masked = processor(torch.tensor(rows), scores)
    assert not scores.any(), "the scores that came in were changed"
    return [
        "all" if row.isfinite().all() else ENCODING.decode(row.isfinite().nonzero()[:, 0].tolist())
        for row in masked
    ]


HI = prompt("hi")
CHANNEL = tokens("<|channel|>")
TRUE = tokens("<|channel|>final<|message|>true<|return|>")


def test_rows_may_change_places_grow_and_shrink() -> None:
    other = tokens("<|channel|>final json<|message|>false<|return|>")
    processor = GrammarLogitsProcessor(BOOLEAN, len(HI))
    fresh = {
        tuple(turn[:at]): allowed(GrammarLogitsProcessor(BOOLEAN, len(HI)), HI + turn[:at])[0]
        for turn in (TRUE, other)
        for at in range(len(turn) + 1)
    }
    assert fresh[()] == "<|channel|>"
    assert fresh[tuple(TRUE)] == "all"
    steps = [
        (TRUE[:0], TRUE[:0]),
        (TRUE[:3], other[:3]),
        (other[:4], TRUE[:4]),  # swapped
        (TRUE[:5], TRUE[:5]),  # one row is left by both
        (other[:3], TRUE[:3]),
        (other, [*TRUE, *[PAD] * (len(other) - len(TRUE))]),  # finished, one with padding
        (other[:2], TRUE[:2]),
    ]
    for rows in steps:
        expected = [fresh.get(tuple(row), "all") for row in rows]
        assert allowed(processor, *(HI + row for row in rows)) == expected


def test_finished_rows_are_left_alone() -> None:
    processor = GrammarLogitsProcessor([BOOLEAN, SHORT], len(HI))
    other = tokens('<|channel|>final json<|message|>{"n":')
    allowed(processor, HI + TRUE[:-1], HI + other[: len(TRUE) - 1])
    assert allowed(processor, HI + TRUE, HI + other[: len(TRUE)])[0] == "all"
    after = [*TRUE, PAD, 1, RETURN][: len(other)]
    first, second = allowed(processor, HI + after, HI + other)
    assert first == "all"
    assert second.startswith("-0123456789")


def test_padding_of_the_vocabulary_is_never_allowed() -> None:
    processor = GrammarLogitsProcessor(BOOLEAN, len(HI))
    assert allowed(processor, HI, width=WIDTH + 64) == ["<|channel|>"]


def test_a_turn_may_be_begun_in_the_prompt() -> None:
    processor = GrammarLogitsProcessor(BOOLEAN, len(HI))
    assert allowed(processor, HI + TRUE[:-1]) == ["<|return|>"]


def test_a_wrong_token_is_named() -> None:
    processor = GrammarLogitsProcessor(BOOLEAN, len(HI))
    allowed(processor, HI, HI)
    with pytest.raises(GrammarError, match=rf"token {RETURN} \('<\|return\|>'\) at row 0, column"):
        allowed(processor, [*HI, RETURN], [*HI, RETURN])
    processor = GrammarLogitsProcessor(BOOLEAN, len(HI))
    with pytest.raises(GrammarError, match=rf"at row 0, column {len(HI) + 2} of input_ids"):
        allowed(processor, HI + tokens("<|channel|>final!"))


def test_a_wrong_beam_is_left_alone_where_another_is_right() -> None:
    processor = GrammarLogitsProcessor(BOOLEAN, len(HI))
    assert allowed(processor, [*HI, RETURN], HI + CHANNEL)[0] == "all"
    other = prompt("yo")
    assert len(other) == len(HI)
    with pytest.raises(GrammarError, match="at row 1"):
        allowed(processor, HI + CHANNEL, [*other, RETURN])


def test_errors_of_use() -> None:
    with pytest.raises(GrammarError, match="100 logits"):
        allowed(GrammarLogitsProcessor(BOOLEAN, len(HI)), HI, width=100)
    for length in (len(HI) - 1, len(HI) + 1, 0):
        with pytest.raises(GrammarError, match=f"before column {length}"):
            allowed(GrammarLogitsProcessor(BOOLEAN, length), HI)
    with pytest.raises(GrammarError, match="3 rows cannot share 2 grammars"):
        allowed(GrammarLogitsProcessor([BOOLEAN, FREE], len(HI)), HI, HI, HI)
    with pytest.raises(GrammarError, match="does not compile"):
        GrammarLogitsProcessor("start: (", 1)
    with pytest.raises(ValueError, match="found none"):
        GrammarLogitsProcessor([], 1)


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_torch_is_imported_by_the_processor_alone() -> None:
    code = (
        "import json, sys, gpt_oss_harmony.grammar as g; print(json.dumps('torch' in sys.modules))"
    )
    assert json.loads(run(code)) is False


def test_without_torch_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import gpt_oss_harmony.grammar as g\n"
        "try: g.GrammarLogitsProcessor\n"
        "except ImportError as error: print(error)"
    )
    assert f"pip install {requirement('transformers')}" in run(code)


def test_other_names_are_unknown() -> None:
    import gpt_oss_harmony.grammar as package

    with pytest.raises(AttributeError, match="nothing"):
        _ = package.nothing
