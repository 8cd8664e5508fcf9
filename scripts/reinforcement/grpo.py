"""GRPO on the sampled tokens: advantages within groups, and one step of the policy's gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from openai_harmony.training import IGNORED, TokenSequence

__all__ = ["advantages", "policy_step", "sampled_logprobs"]

_PADDING = 199999
_ROWS = 256  # of logits at once: the vocabulary is large


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
    rows, chosen = hidden[is_sampled], labels[is_sampled]

    def logprobs_of(part: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        logits = model.lm_head(part).float()
        return torch.gather(logits, 1, tokens[:, None])[:, 0] - torch.logsumexp(logits, 1)

    parts = [
        checkpoint(logprobs_of, part, tokens, use_reentrant=False)
        for part, tokens in zip(torch.split(rows, _ROWS), torch.split(chosen, _ROWS), strict=True)
    ]
    counts: list[int] = is_sampled.sum(1).tolist()
    return list(torch.split(torch.cat(parts), counts))


def policy_step(
    model: Any,
    optimizer: torch.optim.Optimizer,
    groups: Sequence[Sequence[tuple[TokenSequence, float]]],
    batch: int = 16,
) -> float:
    """Take one step on groups of sequences with their rewards.

    Returns the largest difference between log-probabilities of the engine and those of the model,
    which is small where both see the same tokens with the same weights.
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
    optimizer.zero_grad()
    for start in range(0, len(weighted), batch):
        part = weighted[start : start + batch]
        made = sampled_logprobs(model, [sequence for sequence, _ in part])
        loss = torch.zeros(())
        for (sequence, advantage), logprobs in zip(part, made, strict=True):
            pairs = zip(sequence.logprobs, sequence.labels, strict=True)
            engine = torch.tensor([logprob for logprob, label in pairs if label != IGNORED])
            difference = max(difference, float((logprobs.detach() - engine).abs().max()))
            ratio = (logprobs - engine).exp()
            loss = loss - (ratio.clamp(0.8, 1.2) * advantage).minimum(ratio * advantage).sum()
        torch.autograd.backward(loss / count)
    if weighted:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return difference
