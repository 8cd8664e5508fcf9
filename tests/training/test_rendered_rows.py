"""Rendered harmony is read back: the same labels as the row that it was rendered from."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from gpt_oss_harmony import ConversationError, RenderConversationConfig, load_harmony_encoding
from gpt_oss_harmony.training import IGNORED, RejectedRow, row_examples
from gpt_oss_harmony.training.trainers import unpaired_preference_example
from support.training_oracle import DATE, WRITERS, random_talk, write_chat

ENCODING = load_harmony_encoding("HarmonyGptOss")
ASKED = "<|start|>user<|message|>hi<|end|>"
SAID = "<|start|>assistant<|channel|>final<|message|>ho<|return|>"


def learned(row: dict[str, Any]) -> list[tuple[list[int], list[int]]]:
    made = row_examples(row, start_date=DATE, reject=())[1].examples
    return [(example.input_ids, example.labels) for example in made]


@pytest.mark.parametrize("seed", range(40))
def test_a_rendered_row_teaches_what_the_row_does(seed: int) -> None:
    """Every text that a trainer would have learned whole has the labels of its messages."""
    talk = random_talk(random.Random(seed), turns=3, instructions="first")
    # A body that spells a special token cannot be told from one that has it: none is here.
    row = json.loads(json.dumps(write_chat(talk)).replace("<|", "<"))
    row.pop("weight", None)
    for message in row["messages"]:
        message.pop("weight", None)
    read, _ = row_examples(row, start_date=DATE, reject=())
    options = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")
    tokens = ENCODING.render_conversation_for_training(read.conversation, options)
    for name in ("text", "prompt"):
        assert learned({name: ENCODING.decode(tokens)}) == learned(row)


@pytest.mark.parametrize(
    "row",
    [
        {"text": ASKED + SAID},
        {"prompt": ASKED + "<|start|>assistant", "completion": "<|channel|>final"},
        {"text": f"  {ASKED}{SAID}\n"},
    ],
)
def test_only_what_the_model_samples_is_learned(row: dict[str, Any]) -> None:
    if "completion" in row:
        row = {**row, "completion": SAID.removeprefix("<|start|>assistant")}
        row["prompt"] = ASKED + "<|start|>assistant"
    read, made = row_examples(row)
    (example,) = made.examples
    text = ENCODING.decode([label for label in example.labels if label != IGNORED])
    assert (read.form, text) == ("rendered", "<|channel|>final<|message|>ho<|return|>")
    assert (read.unused, read.repairs, made.findings) == ([], [], [])


def test_a_prompt_with_a_completion_is_not_learned() -> None:
    """As in the form ``completion``, whose answers before the last question are not learned."""
    row = {"prompt": f"{ASKED}{SAID}{ASKED}<|start|>assistant", "completion": SAID[18:]}
    (example,) = row_examples(row)[1].examples
    text = ENCODING.decode([label for label in example.labels if label != IGNORED])
    assert text == "<|channel|>final<|message|>ho<|return|>"
    whole = row_examples({"prompt": row["prompt"] + row["completion"]})[1].examples
    assert sum(one.trainable_tokens for one in whole) == 2 * example.trainable_tokens


BEGUN = f"{ASKED}<|start|>assistant<|channel|>final<|message|>Well, "
NOT_ANSWERED: list[tuple[str, Any, str]] = [
    (ASKED + SAID, "", "completion: no answer is there to learn; write it, or remove the row"),
    (ASKED + SAID, " \n", "completion: no answer is there to learn"),
    (ASKED, "<|start|>assistant", "completion: no answer is there to learn"),
    (ASKED + SAID, [{"role": "assistant", "content": "ho"}], "completion: expected text, found"),
    (f"{ASKED}<|start|>assistant", "ho", "completion: the rendered text ends inside a message"),
    (BEGUN, "yes.<|return|>", r"prompt: .* ends inside .*; move what follows the last <\|start\|>"),
    (BEGUN, "", "prompt: .* ends inside a message"),
    (BEGUN.removesuffix("Well, "), "ho<|return|>", "prompt: .* ends inside a message"),
]


@pytest.mark.parametrize(("prompt", "completion", "problem"), NOT_ANSWERED)
@pytest.mark.parametrize("make", [row_examples, unpaired_preference_example])
def test_an_answer_stands_whole_in_the_completion(
    make: Callable[..., object], prompt: str, completion: Any, problem: str
) -> None:
    row = {"prompt": prompt, "completion": completion, "label": True}
    with pytest.raises(ConversationError, match=problem):
        make(row)


def test_damage_is_counted_by_kind_and_may_be_refused() -> None:
    row = {"text": f"{ASKED}<|end|>{SAID}", "source": "hub"}
    read, made = row_examples(row)
    assert [finding.kind for finding in made.findings] == ["damaged"]
    assert (read.repairs, read.unused) == (["extra-stop"], ["source"])
    with pytest.raises(RejectedRow, match=r"damaged \(extra-stop\)"):
        row_examples(row, reject={"damaged"})


@pytest.mark.parametrize("cut", [ASKED + SAID.removesuffix("<|return|>"), ASKED + "<|start|>ass"])
def test_a_cut_text_is_refused(cut: str) -> None:
    with pytest.raises(ConversationError, match="text: the rendered text ends inside a message"):
        row_examples({"text": cut})


def test_plain_text_is_still_refused() -> None:
    with pytest.raises(ConversationError, match="plain text for pre-training"):
        row_examples({"text": f"It begins with {ASKED}"})
    assert "rendered" not in WRITERS
