"""What the samplers of engines must do, one row at a time and one setting after the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpt_oss_harmony.engines import Sampling

Row = NDArray[np.float64]


def probabilities(
    logits: Row,
    sampling: Sampling,
    prompt: list[int],
    completion: list[int],
    allowed: list[int] | None = None,
) -> Row:
    """Return the probability of each token to be sampled next."""
    scores = logits.copy()
    for token in {*prompt, *completion}:
        penalty = sampling.repetition_penalty
        scores[token] = scores[token] / penalty if scores[token] > 0 else scores[token] * penalty
    for token in set(completion):
        scores[token] -= sampling.frequency_penalty * completion.count(token)
        scores[token] -= sampling.presence_penalty
    if allowed is not None:
        forbidden = np.ones(len(scores), bool)
        forbidden[allowed] = False
        scores[forbidden] = -np.inf
    weights: Row = np.zeros_like(scores)
    if sampling.temperature == 0 or sampling.top_p == 0:
        weights[scores.argmax()] = 1
        return weights
    weights = np.exp((scores - scores.max()) / sampling.temperature)
    ranked = np.argsort(-weights, kind="stable")
    if sampling.top_k:
        weights[ranked[sampling.top_k :]] = 0
    weights /= weights.sum()
    kept = weights >= sampling.min_p * weights.max()
    before = np.cumsum(weights[ranked]) - weights[ranked]
    kept[ranked[before >= sampling.top_p]] = False
    weights[~kept] = 0
    weights /= weights.sum()
    return weights
