"""Rows of logits in PyTorch to tokens: all requests of a step, each with its own settings.

Operations on whole rows are the main cost of sampling. So the likeliest token and the sampled token
are searched by blocks: first the block, by its largest weight or its sum, then the token in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch.nn.functional import pad

from ..errors import HarmonyError
from .engine import EngineError, SampledToken
from .token_sampler import RunningRequest, TokenSampler, allowed_tokens, deliver


def sample_next(logits: torch.Tensor, requests: Sequence[RunningRequest]) -> list[list[int]]:
    """Sample the next token of each request and deliver it, with the tokens that it forces.

    Returns the tokens by request; none for one that failed. `logits` have the type float32; they
    are overwritten.
    """
    try:
        chosen = choose_tokens(logits, [request.sampler for request in requests])
    except Exception as error:  # noqa: BLE001 - it would end the thread and all requests
        chosen = [EngineError(f"sampling failed: {error}")] * len(requests)
    return deliver(requests, chosen)


def choose_tokens(
    logits: torch.Tensor, samplers: Sequence[TokenSampler]
) -> list[list[SampledToken] | EngineError]:
    """Sample the next token of each completion and the tokens that it forces, or return an error.

    `logits` have the shape (completions, vocabulary) and the type float32; they are overwritten.
    """
    # First, because penalties and grammars overwrite the logits, and these are the model's own.
    table = _LogprobTable(logits, samplers)
    _penalise(logits, samplers)
    problems = _apply_grammars(logits, samplers)
    tokens = _sample(logits, samplers)
    for row, sampler in enumerate(samplers):
        if (scripted := sampler.scripted()) is not None:
            tokens[row] = scripted
    chosen: list[list[SampledToken] | EngineError] = []
    columns = samplers, tokens.tolist(), table.of(tokens)
    for row, (sampler, token, logprobs) in enumerate(zip(*columns, strict=True)):
        try:
            if row in problems:
                raise problems[row]
            if token < 0:
                raise EngineError(
                    "no token is possible: the model's logits are NaN or infinite, or the grammar "
                    "allows no token of the model"
                )
            chosen.append(sampler.take(token, *logprobs))
        except HarmonyError as error:
            chosen.append(EngineError(f"sampling failed: {error}"))
    return chosen


_Logprobs: TypeAlias = "tuple[float, tuple[tuple[int, float], ...]] | tuple[None, None]"


class _LogprobTable:
    """The log-probabilities of a step for the rows that request them."""

    def __init__(self, logits: torch.Tensor, samplers: Sequence[TokenSampler]) -> None:
        counts = [sampler.sampling.logprobs for sampler in samplers]
        self._counts = counts
        self._rows = [row for row, count in enumerate(counts) if count is not None]
        if not self._rows:
            return
        self._logprobs = _padded(_rows_of(logits, self._rows).log_softmax(-1))
        most = max(1, *(count or 0 for count in counts))
        self._largest = _largest(self._logprobs, min(most, logits.shape[1]))

    def of(self, tokens: torch.Tensor) -> list[_Logprobs]:
        """Return the log-probability of each row's token, and those of the likeliest."""
        logprobs: list[_Logprobs] = [(None, None)] * len(tokens)
        if self._rows:
            # A row without a possible token has -1, which is no index.
            chosen = tokens[self._rows].clamp_min(0).unsqueeze(-1)
            own = self._logprobs.gather(1, chosen).squeeze(-1).tolist()
            columns = own, *(best.tolist() for best in self._largest)
            for row, logprob, values, ids in zip(self._rows, *columns, strict=True):
                top = tuple(zip(ids, values, strict=True))
                logprobs[row] = logprob, top[: self._counts[row]]
        return logprobs


def _rows_of(matrix: torch.Tensor, rows: list[int]) -> torch.Tensor:
    """Return some rows; if they are all rows, do not copy them."""
    return matrix if len(rows) == len(matrix) else matrix[rows]


def _penalise(scores: torch.Tensor, samplers: Sequence[TokenSampler]) -> None:
    """Apply the penalties for earlier tokens, in place."""
    rows: list[int] = []
    ids: list[int] = []
    values: list[tuple[float, float, float]] = []
    for row, sampler in enumerate(samplers):
        if sampler.has_penalties:
            sampling = sampler.sampling
            rows += [row] * len(sampler.counts)
            ids += sampler.counts
            values += (
                (
                    sampling.repetition_penalty,
                    sampling.frequency_penalty * count,
                    sampling.presence_penalty if count else 0,
                )
                for count in sampler.counts.values()
            )
    if not rows:
        return
    at = tuple(torch.tensor([rows, ids], device=scores.device))
    repetition, frequency, presence = torch.tensor(values, device=scores.device).unbind(1)
    old = scores[at]
    repeated = torch.where(old > 0, old / repetition, old * repetition)
    scores[at] = repeated - (frequency + presence)


def _apply_grammars(
    scores: torch.Tensor, samplers: Sequence[TokenSampler]
) -> dict[int, HarmonyError]:
    """Mask the tokens that grammars forbid, in place; return the errors of rows."""
    matchers = {row: s.matcher for row, s in enumerate(samplers) if s.matcher is not None}
    if not matchers:
        return {}
    bits, problems = allowed_tokens(matchers)
    # Infinity for tokens that are allowed, minus infinity for all others. Several vector operations
    # are much faster than one with a condition for each token.
    limits = torch.from_numpy(bits).to(scores.device, torch.float32).sub_(0.5).mul_(torch.inf)
    shared = min(scores.shape[1], limits.shape[1])
    if len(matchers) == len(samplers):
        torch.minimum(scores[:, :shared], limits[:, :shared], out=scores[:, :shared])
        # A model may have more rows than the encoding has tokens; no grammar allows those.
        scores[:, shared:] = -torch.inf
    else:
        for row, limit in zip(matchers, limits, strict=True):
            torch.minimum(scores[row, :shared], limit[:shared], out=scores[row, :shared])
            scores[row, shared:] = -torch.inf
    return problems


class _Settings(NamedTuple):
    """The settings of several rows, one column vector each."""

    temperature: torch.Tensor
    top_p: torch.Tensor
    top_k: torch.Tensor
    min_p: torch.Tensor
    random: torch.Tensor

    @classmethod
    def of(cls, samplers: Iterable[TokenSampler], device: torch.device) -> _Settings:
        rows = [
            (s.temperature, s.top_p, s.top_k, s.min_p, sampler.random())
            for sampler in samplers
            for s in (sampler.sampling,)
        ]
        # The random numbers have 53 bits, which float32 would round.
        columns = torch.tensor(rows, dtype=torch.float64, device=device)
        return cls(*columns.T.unsqueeze(-1))


def _sample(scores: torch.Tensor, samplers: Sequence[TokenSampler]) -> torch.Tensor:
    """Choose a token for each row; -1 if the scores are not numbers."""
    width = scores.shape[1]
    scores = _padded(scores)
    groups: dict[Callable[[torch.Tensor, _Settings], torch.Tensor], list[int]] = {}
    for row, sampler in enumerate(samplers):
        s = sampler.sampling
        if s.temperature == 0 or s.top_p == 0 or s.top_k == 1:
            groups.setdefault(_likeliest, []).append(row)
        elif s.top_p < 1 or 0 < s.top_k < width:
            groups.setdefault(_sample_among_largest, []).append(row)
        else:
            groups.setdefault(_sample_among_all, []).append(row)
    tokens = torch.empty(len(samplers), dtype=torch.int64, device=scores.device)
    for choose, rows in groups.items():
        settings = _Settings.of((samplers[row] for row in rows), scores.device)
        tokens[rows] = choose(_rows_of(scores, rows), settings).squeeze(-1)
    return tokens


_BLOCK = 128
"""The number of tokens in a block; the vocabulary of gpt-oss has 1,571 blocks."""

_SIZES = (64, 1024)
"""How many of the likeliest tokens are sorted first, before all tokens are sorted."""


def _padded(rows: torch.Tensor) -> torch.Tensor:
    """Return rows padded to whole blocks; the rows of gpt-oss need no padding and no copy."""
    missing = -rows.shape[1] % _BLOCK
    return pad(rows, (0, missing), value=-torch.inf) if missing else rows


def _in_blocks(rows: torch.Tensor) -> torch.Tensor:
    return rows.view(len(rows), -1, _BLOCK)


def _likeliest(scores: torch.Tensor, settings: _Settings) -> torch.Tensor:
    blocks = _in_blocks(scores)
    largest = blocks.amax(-1)
    block = largest.argmax(-1, keepdim=True)
    token = blocks.take_along_dim(block.unsqueeze(-1), 1).squeeze(1).argmax(-1, keepdim=True)
    return torch.where(largest.gather(1, block).isfinite(), block * _BLOCK + token, -1)


def _weights(scores: torch.Tensor, settings: _Settings) -> torch.Tensor:
    """Turn scores into weights in proportion to the probabilities, in place: the largest is 1."""
    # A smaller temperature is 0 as float32, and 0 / 0, of the largest score, is not a number.
    temperature = settings.temperature.clamp_min(1e-30).float()
    scores -= _in_blocks(scores).amax(-1).amax(-1, keepdim=True)
    return scores.div_(temperature).exp_()


def _sample_among_all(scores: torch.Tensor, settings: _Settings) -> torch.Tensor:
    weights = _weights(scores, settings)
    if bool((settings.min_p > 0).any()):
        weights *= weights >= settings.min_p
    blocks = _in_blocks(weights)
    sums = blocks.sum(-1).double()
    block, random = _draw(sums, settings.random)
    inside = blocks.take_along_dim(block.unsqueeze(-1), 1).squeeze(1).double()
    token, _ = _draw(inside, random)
    return torch.where(sums.sum(-1, keepdim=True).isfinite(), block * _BLOCK + token, -1)


def _sample_among_largest(scores: torch.Tensor, settings: _Settings) -> torch.Tensor:
    weights = _weights(scores, settings)
    width = weights.shape[1]
    total = _in_blocks(weights).sum(-1).sum(-1, keepdim=True, dtype=torch.float64)
    tokens = torch.full_like(total, -1, dtype=torch.int64)
    left = torch.arange(len(weights), device=weights.device)
    for size in (*(size for size in _SIZES if size < width), width):
        part = _Settings(*(column[left] for column in settings))
        values, ids = _largest(_rows_of(weights, left.tolist()), size)
        values = values.double()
        sums = values.cumsum(-1)
        count = torch.where(part.top_k > 0, part.top_k.clamp_max(width), width).long()
        sum_of_top_k = torch.where(
            count < width, sums.gather(1, (count - 1).clamp_max(size - 1)), total[left]
        )
        kept = torch.arange(size, device=weights.device) < count
        kept &= sums - values < part.top_p * sum_of_top_k
        kept &= values >= part.min_p
        index, _ = _draw(values * kept, part.random)
        # Otherwise tokens beyond these may have to be kept as well.
        is_whole = (count <= size) | (~kept[:, -1:] & (count == width)) | (size == width)
        rows = left[is_whole.squeeze(-1)]
        tokens[rows] = ids.gather(1, index)[is_whole.squeeze(-1)]
        left = left[~is_whole.squeeze(-1)]
        if not len(left):
            break
    return torch.where(total.isfinite(), tokens, -1)


def _largest(weights: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the largest weights of each row in order, and their tokens."""
    # For so many, most blocks would be searched anyway.
    if size * _BLOCK * 4 > weights.shape[1]:
        values, ids = weights.topk(size)
        return values, ids
    # The blocks with the largest maxima contain all of them.
    blocks = _in_blocks(weights)
    best = blocks.amax(-1).topk(size).indices
    values, at = blocks.take_along_dim(best.unsqueeze(-1), 1).flatten(1).topk(size)
    return values, best.gather(1, at // _BLOCK) * _BLOCK + at % _BLOCK


def _draw(weights: torch.Tensor, random: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose an index of each row, with a probability in proportion to its weight.

    Also returns the rest of the random number: its place within the chosen weight, from 0 to 1.
    """
    sums = weights.cumsum(-1)
    total = sums[:, -1:]
    # The rest of a first draw, which is used for a second, may be 1. `total` itself would be
    # behind the last weight, where clamping finds a token of weight 0.
    at = torch.minimum(random * total, torch.nextafter(total, torch.zeros_like(total)))
    index = torch.searchsorted(sums, at, right=True).clamp_max(weights.shape[1] - 1)
    weight = weights.gather(1, index)
    within = (at - (sums.gather(1, index) - weight)) / weight
    return index, within.clamp(0, 1)
