"""A row of logits in NumPy to a token; the readable twin of `torch_sampling`.

Both draw with the random number of the token's place, in the order of the token ids or of their
weights. So the same seed gives the same tokens in both, up to the rounding of logits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import HarmonyError
from .engine import EngineError, SampledToken, Sampling
from .safetensors_file import Array
from .token_sampler import TokenSampler, allowed_row

_BLOCK = 128
"""Sums and maxima are searched first by block, then in the block, as whole rows take long."""

_SIZES = (64, 1024)
"""How many of the likeliest tokens are sorted first, before all tokens are sorted."""


def choose_token(logits: Array, sampler: TokenSampler) -> list[SampledToken] | EngineError:
    """Sample the next token of a completion and the tokens that it forces, or return an error."""
    try:
        token = sampler.scripted()
        if token is None:
            token = _sampled(_allowed(logits, sampler), sampler)
        count = sampler.sampling.logprobs
        if count is None:
            return sampler.take(token)
        shifted = logits - logits.max()
        logprobs = shifted - np.log(np.exp(shifted).sum(dtype=np.float64)).astype(np.float32)
        return sampler.take(token, float(logprobs[token]), likeliest(logprobs, count))
    except HarmonyError as error:
        return EngineError(f"sampling failed: {error}")


def likeliest(scores: Array, count: int) -> tuple[tuple[int, float], ...]:
    """Return the tokens with the largest scores, the largest first, and their scores."""
    tokens = _largest(scores, min(count, scores.size)) if count else np.empty(0, np.intp)
    return tuple(zip(tokens.tolist(), scores[tokens].tolist(), strict=True))


def _allowed(logits: Array, sampler: TokenSampler) -> Array:
    """Return the scores after the penalties for earlier tokens, and where the grammar allows."""
    scores = logits
    if sampler.has_penalties:
        scores = logits.copy()
        ids = np.fromiter(sampler.counts, np.intp)
        times = np.fromiter(sampler.counts.values(), np.float32)
        old, s = scores[ids], sampler.sampling
        repeated = np.where(old > 0, old / s.repetition_penalty, old * s.repetition_penalty)
        scores[ids] = repeated - s.frequency_penalty * times - s.presence_penalty * (times > 0)
    if sampler.matcher is not None:
        return np.where(allowed_row(sampler.matcher, scores.size), scores, np.float32(-np.inf))
    return scores


def _sampled(scores: Array, sampler: TokenSampler) -> int:
    best = scores.argmax()  # the first that is not a number, if there is one
    if not np.isfinite(scores[best]):
        raise EngineError("no token is possible: the model's logits are NaN or infinite")
    s = sampler.sampling
    if s.temperature == 0 or s.top_p == 0 or s.top_k == 1:
        return int(best)
    weights = np.exp((scores - scores[best]) / np.float32(max(s.temperature, 1e-30)))
    if s.top_p < 1 or 0 < s.top_k < scores.size:
        return _drawn_among_largest(weights, s, sampler.random())
    if s.min_p:
        weights *= weights >= s.min_p
    blocks = _in_blocks(weights, 0)
    block, random = _draw(blocks.sum(axis=1, dtype=np.float32), sampler.random())
    return block * _BLOCK + _draw(blocks[block], random)[0]


def _drawn_among_largest(weights: Array, sampling: Sampling, random: float) -> int:
    """Draw from the largest weights that top-k, top-p and min-p keep."""
    width = weights.size
    count = sampling.top_k or width
    for size in (*(size for size in _SIZES if size < width), width):
        tokens = _largest(weights, size)
        values = weights[tokens].astype(np.float64)
        sums = values.cumsum()
        total = sums[count - 1] if count <= size else weights.sum(dtype=np.float64)
        kept = (sums - values < sampling.top_p * total) & (values >= sampling.min_p)
        kept[count:] = False
        # Otherwise tokens beyond these may have to be kept as well.
        if count <= size or (count >= width and not kept[-1]):
            break
    return int(tokens[_draw(values * kept, random)[0]])


def _in_blocks(row: Array, filler: float) -> Array:
    """Return the row as blocks, filled up; the row of gpt-oss is not copied for it."""
    missing = -row.size % _BLOCK
    whole = np.concatenate([row, np.full(missing, filler, row.dtype)]) if missing else row
    return whole.reshape(-1, _BLOCK)


def _largest(row: Array, size: int) -> npt.NDArray[np.intp]:
    """Return the places of the largest numbers, the largest first."""
    places = np.arange(row.size)
    if size * _BLOCK * 4 <= row.size:  # the blocks with the largest maxima contain all of them
        maxima = _in_blocks(row, -np.inf).max(axis=1)
        blocks = np.sort(np.argpartition(-maxima, size - 1)[:size])
        places = (blocks[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
        places = places[places < row.size]
    numbers = -row[places]
    # By id first, so that the stable sort leaves equal numbers in the order of their ids.
    first = np.sort(np.argpartition(numbers, size - 1)[:size])
    return places[first[np.argsort(numbers[first], kind="stable")]]


def _draw(weights: npt.NDArray[np.floating], random: float) -> tuple[int, float]:
    """Choose a place, with a probability in proportion to its weight.

    Also returns the rest of the random number: its place within the chosen weight, from 0 to 1.
    """
    sums = weights.cumsum(dtype=np.float64)
    # The rest of a first draw, which is used for a second, may be 1.
    at = min(random * sums[-1], np.nextafter(sums[-1], 0))
    index = int(np.searchsorted(sums, at, side="right"))
    begin = sums[index - 1] if index else 0.0
    return index, float((at - begin) / (sums[index] - begin))
