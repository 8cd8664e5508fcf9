"""The loop in `scripts/reinforcement`: its questions, and the step of GRPO on a tiny model."""

from __future__ import annotations

import runpy
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.training import IGNORED, TokenSequence
from support.training_conversations import conversation, result

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
GRPO = runpy.run_path(str(ROOT / "scripts" / "reinforcement" / "grpo.py"))
EPISODES = runpy.run_path(str(ROOT / "scripts" / "reinforcement" / "episodes.py"))
ENCODING = load_harmony_encoding("HarmonyGptOss")
SIZE = 201_088


class Tiny(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Predicts from the token before alone."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = torch.nn.Embedding(SIZE, 4)
        self.lm_head = torch.nn.Linear(4, SIZE, bias=False)

    def model(self, input_ids: Any, attention_mask: Any) -> Any:
        assert (attention_mask.sum(1) > 0).all()
        return SimpleNamespace(last_hidden_state=self.embedding(input_ids))


def sampled(*texts: str) -> TokenSequence:
    sequence = TokenSequence.of_prompt(conversation("u"))
    for number, text in enumerate(texts):
        if number:
            sequence = sequence.extend([result()])
        tokens = ENCODING.encode(text, allowed_special="all")
        sequence = sequence.add_sampled(tokens, [-1.0] * len(tokens))
    return sequence


CALL = "<|channel|>commentary to=functions.f<|message|>{}<|call|>"
ANSWER = "<|channel|>final<|message|>4<|return|>"
SEQUENCES = [sampled(ANSWER), sampled(CALL, ANSWER)]


def expected(model: Tiny, sequence: TokenSequence) -> list[float]:
    """The log-probabilities of the sampled tokens, each by itself."""
    made: list[float] = []
    for index, label in enumerate(sequence.labels):
        if label != IGNORED:
            logits = model.lm_head(model.embedding(torch.tensor(sequence.input_ids[index - 1])))
            made.append(torch.log_softmax(logits, 0)[label].item())
    return made


def test_logprobs_are_those_of_the_sampled_tokens() -> None:
    model = Tiny()
    made = GRPO["sampled_logprobs"](model, SEQUENCES)
    for sequence, logprobs in zip(SEQUENCES, made, strict=True):
        assert logprobs.tolist() == pytest.approx(expected(model, sequence), abs=1e-4)


@pytest.mark.parametrize(
    ("rewards", "advantages"),
    [([1.0, 0.0], [1.0, -1.0]), ([1.0, 1.0], [0.0, 0.0]), ([3.0, 0.0, 0.0], [2**0.5, -(0.5**0.5)])],
)
def test_advantages(rewards: list[float], advantages: list[float]) -> None:
    assert GRPO["advantages"](rewards)[: len(advantages)] == pytest.approx(advantages)


def test_a_step_makes_what_was_rewarded_likelier() -> None:
    model = Tiny()
    before = [sum(expected(model, sequence)) for sequence in SEQUENCES]
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    # The engine's log-probabilities are the model's, as after loading the same weights.
    on_policy = [
        TokenSequence(
            sequence.input_ids,
            sequence.labels,
            _placed(sequence, expected(model, sequence)),
        )
        for sequence in SEQUENCES
    ]
    group = list(zip(on_policy, (0.0, 1.0), strict=True))
    assert GRPO["policy_step"](model, optimizer, [group]) < 1e-3
    after = [sum(expected(model, sequence)) for sequence in SEQUENCES]
    assert after[1] > before[1]
    assert after[0] - before[0] < after[1] - before[1]
    # Equal rewards teach nothing.
    unchanged = [parameter.clone() for parameter in model.parameters()]
    assert GRPO["policy_step"](model, optimizer, [[(s, 1.0) for s in on_policy]]) is None
    pairs = zip(unchanged, model.parameters(), strict=True)
    assert all(torch.equal(old, new) for old, new in pairs)


def test_without_log_probabilities_the_models_own_stand_for_the_engines() -> None:
    gradients = []
    for logprobs_of in (expected, lambda _, sequence: [float("nan")] * len(sequence.labels)):
        model = Tiny()
        sequences = [
            TokenSequence(s.input_ids, s.labels, _placed(s, logprobs_of(model, s)))
            for s in SEQUENCES
        ]
        GRPO["add_gradient"](model, [list(zip(sequences, (0.0, 1.0), strict=True))])
        gradients.append(model.embedding.weight.grad)
    assert float(gradients[0].abs().max()) > 0
    assert torch.allclose(*gradients, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "differing"),
    [
        (CALL, 0),
        (CALL.replace("{}", "{ }").replace(" <|constrain|>json", ""), 0),
        ("<|channel|>final<|message|>4", 1),  # cut: no stop was sampled
        ("<|channel|>final<|message|>4<|end|>", 1),
        ("<|channel|>final code<|message|>4<|return|>", 0),
    ],
)
def test_tokens_of_rendered_messages_may_differ_from_those_that_were_sampled(
    text: str, differing: int
) -> None:
    sequence = sampled(text)
    again = EPISODES["rerendered"](sequence)
    assert EPISODES["differing_tokens"](sequence, again) == differing


def test_another_spelling_of_the_same_text_is_rendered_otherwise() -> None:
    prompt = TokenSequence.of_prompt(conversation("u"))
    letters = [token for letter in "hello" for token in ENCODING.encode(letter)]
    opening = ENCODING.encode("<|channel|>final<|message|>", allowed_special="all")
    stop = ENCODING.encode("<|return|>", allowed_special="all")
    sequence = prompt.add_sampled([*opening, *letters, *stop])
    again = EPISODES["rerendered"](sequence)
    assert ENCODING.decode(again.input_ids) == ENCODING.decode(sequence.input_ids)
    assert EPISODES["differing_tokens"](sequence, again) == 6  # five letters, and the stop's place


def test_what_is_held_out_is_never_trained_on() -> None:
    questions = EPISODES["questions"]
    pairs = [
        {(q.first, q.second) for q in questions(Random(1), 2000, held_out=held_out)}
        for held_out in (False, True)
    ]
    assert all(pairs)
    assert pairs[0].isdisjoint(pairs[1])


def _placed(sequence: TokenSequence, logprobs: list[float]) -> list[float]:
    left = iter(logprobs)
    return [next(left) if label != IGNORED else 0.0 for label in sequence.labels]
