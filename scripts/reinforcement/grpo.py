"""GRPO on the sampled tokens: advantages within groups, and one step of the policy's gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from gpt_oss_harmony.training import IGNORED, TokenSequence

__all__ = ["add_gradient", "advantages", "policy_step", "sampled_logprobs"]

_PADDING = 199999
_BATCH = 6
"""Sequences at once: the vocabulary is large, and so are the logits of their sampled tokens."""


def advantages(rewards: Sequence[float]) -> list[float]:
    """Return how much better each episode of a group was than its mean, in standard deviations.

    >>> advantages([1.0, 0.0, 0.0, 1.0]), advantages([1.0, 1.0])
    ([1.0, -1.0, -1.0, 1.0], [0.0, 0.0])
    """
    mean = sum(rewards) / len(rewards)
    deviation = (sum((reward - mean) ** 2 for reward in rewards) / len(rewards)) ** 0.5
    return [(reward - mean) / deviation if deviation else 0.0 for reward in rewards]


def sampled_logprobs(model: Any, sequences: Sequence[TokenSequence]) -> list[torch.Tensor]:
    """Compute the log-probabilities of the sampled tokens of each sequence."""
    longest = max(len(sequence.input_ids) for sequence in sequences)

    def padded(rows: Sequence[list[int]], padding: int) -> torch.Tensor:
        return torch.tensor([row + [padding] * (longest - len(row)) for row in rows])

    ids = padded([sequence.input_ids for sequence in sequences], _PADDING)
    labels = padded([sequence.labels for sequence in sequences], IGNORED)[:, 1:]
    lengths = torch.tensor([len(sequence.input_ids) for sequence in sequences])
    mask = (torch.arange(longest) < lengths[:, None]).long()
    hidden = model.model(input_ids=ids, attention_mask=mask).last_hidden_state[:, :-1]
    is_sampled = labels != IGNORED
    logits = model.lm_head(hidden[is_sampled]).float()
    logprobs = -cross_entropy(logits, labels[is_sampled], reduction="none")
    counts: list[int] = is_sampled.sum(1).tolist()
    return list(torch.split(logprobs, counts))


def add_gradient(
    model: Any, groups: Sequence[Sequence[tuple[TokenSequence, float]]]
) -> float | None:
    """Add the gradient of groups of sequences with their rewards to the model's parameters.

    Where a log-probability is NaN, the model's own takes the place of the engine's. Returns the
    largest difference between the two, which is small where both see the same tokens with the same
    weights; None where all rewards are equal, so that there is nothing to learn.
    """
    weighted = [
        (sequence, advantage)
        for group in groups
        for (sequence, _), advantage in zip(
            group, advantages([reward for _, reward in group]), strict=True
        )
        if advantage
    ]
    weighted.sort(key=lambda item: len(item[0].input_ids))
    count = sum(sum(sequence.sampled_mask()) for sequence, _ in weighted)
    difference = 0.0
    for start in range(0, len(weighted), _BATCH):
        part = weighted[start : start + _BATCH]
        made = sampled_logprobs(model, [sequence for sequence, _ in part])
        loss = torch.zeros(())
        for (sequence, advantage), logprobs in zip(part, made, strict=True):
            pairs = zip(sequence.logprobs, sequence.labels, strict=True)
            engine = torch.tensor([logprob for logprob, label in pairs if label != IGNORED])
            engine = torch.where(engine.isnan(), logprobs.detach(), engine)
            difference = max([difference, *(logprobs.detach() - engine).abs().tolist()])
            ratio = (logprobs - engine).exp()
            loss = loss - (ratio.clamp(0.8, 1.2) * advantage).minimum(ratio * advantage).sum()
        torch.autograd.backward(loss / count)
    return difference if weighted else None


def policy_step(
    model: Any,
    optimizer: torch.optim.Optimizer,
    groups: Sequence[Sequence[tuple[TokenSequence, float]]],
) -> float | None:
    """Take one step on groups of sequences with their rewards; return what `add_gradient` does."""
    optimizer.zero_grad()
    difference = add_gradient(model, groups)
    if difference is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return difference
