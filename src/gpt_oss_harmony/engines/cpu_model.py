"""gpt-oss on the CPU under continuous batching.

Without a GPU, Transformers computes the attention of a step as one matrix, the tokens of all
requests times the cached tokens of all requests, and a mask hides nearly all of it. Here each
request attends only to its own tokens, which saves the memory and the time of the mask.

A small step spends most of its time on reading the head's weights. Weights that were stored in
bfloat16 fit into float16, so for few rows the head reads a second copy of half the size. The
computation stays in float32.

The logits of many requests are so large that the allocator frees their memory after each step, and
the kernel clears it for the next one. So the head writes into the same memory each time.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

FEW_ROWS = 8
"""The most rows of logits for which the head spends its time on reading its weights."""

_ATTENTION = "harmony_flash"
"""The name of the attention: Transformers builds no masks for names with "flash"."""


def prepare_for_cpu(model: Any, max_requests: int, *, is_batched: bool = True) -> bool:
    """Make a gpt-oss model compute on the CPU as this module describes, and return True.

    Without continuous batching (`is_batched`), it keeps its attention. Other models are not
    changed.
    """
    if model.config.model_type != "gpt_oss":
        return False
    if is_batched:
        model.config._attn_implementation = _ATTENTION
    head = model.lm_head
    if (
        type(head) is nn.Linear
        and type(head.weight) is nn.Parameter
        and "forward" not in vars(head)
    ):
        head.forward = _Head(head.weight, max_requests)  # type: ignore[assignment]
    return True


class _Head:
    """Computes few logits from weights of half the size, and many into memory that is reused."""

    def __init__(self, weight: torch.Tensor, max_requests: int) -> None:
        self._weight = weight.T
        self._logits = torch.empty(max_requests, len(weight), dtype=weight.dtype)
        self._halved = None
        # PyTorch has the library that multiplies float32 by float16 only on x86.
        if torch.backends.quantized.engine in ("fbgemm", "x86") and _fits_float16(weight):
            self._halved = torch.ops.quantized.linear_prepack_fp16(weight, None)

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        rows = hidden.flatten(0, -2)
        logits: torch.Tensor
        if self._halved is not None and len(rows) <= FEW_ROWS:
            logits = torch.ops.quantized.linear_dynamic_fp16(rows, self._halved)
        elif len(rows) > len(self._logits):
            return hidden @ self._weight
        else:
            logits = self._logits[: len(rows)]
            torch.mm(rows, self._weight, out=logits)
        return logits.view(*hidden.shape[:-1], -1)


def _fits_float16(weight: torch.Tensor) -> bool:
    """Return whether float16 changes each weight less than float32 rounds the row's largest."""
    if weight.dtype != torch.float32:
        return False
    rounding = torch.finfo(torch.float32).eps
    return all(
        bool(((part.half() - part).abs().amax(1) <= rounding * part.abs().amax(1)).all())
        for part in weight.detach().chunk(16)  # all at once would take as much memory again
    )


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    *,
    scaling: float,
    sliding_window: int | None = None,
    s_aux: torch.Tensor,
    cache: Any = None,
    **batch: Any,
) -> tuple[torch.Tensor, None]:
    """Attend within each request, with the arguments and result of Transformers' flash attention.

    The tokens of all requests follow each other in `query`, of the shape (1, heads, tokens, size);
    `s_aux` are the sinks. From 5.24 on, the model itself has updated the cache before.
    """
    starts = batch["cu_seq_lens_q"].tolist()
    keys, values = key, value
    if cache is not None:
        keys, values = cache.update(key, value, module.layer_idx, batch)  # also changes `batch`
    key_starts = batch["cu_seq_lens_k"].tolist()
    heads, tokens, size = query.shape[1:]
    groups = keys.shape[1]
    # The heads of a group share keys and values: (groups, heads of a group, tokens, size).
    query = query.view(groups, heads // groups, tokens, size) * scaling
    keys, values = keys[0], values[0]
    sinks = s_aux.view(groups, heads // groups, 1, 1)
    if tokens == len(starts) - 1:
        output = _attend_from_last(query, keys, values, sinks, key_starts, sliding_window)
    else:
        output = torch.empty_like(query)
        ranges = zip(pairwise(starts), pairwise(key_starts), strict=True)
        for (first, last), (key_first, key_last) in ranges:
            output[:, :, first:last] = _attend_causally(
                query[:, :, first:last],
                keys[:, key_first:key_last],
                values[:, key_first:key_last],
                sinks,
                sliding_window,
            )
    return output.view(1, heads, tokens, size).transpose(1, 2), None


def _attend_from_last(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    sinks: torch.Tensor,
    starts: list[int],
    sliding_window: int | None,
) -> torch.Tensor:
    """Attend from the last token of each request to all its keys within the window."""
    # The keys of a single request are together already.
    if len(starts) == 2:
        if sliding_window is not None:
            keys, values = keys[:, -sliding_window:], values[:, -sliding_window:]
        return _weighted(query @ keys.transpose(1, 2).unsqueeze(1), sinks) @ values.unsqueeze(1)
    end = torch.tensor(starts[1:]).unsqueeze(-1)
    first = torch.tensor(starts[:-1]).unsqueeze(-1)
    if sliding_window is not None:
        first = torch.maximum(first, end - sliding_window)
    lengths = end - first
    at = torch.arange(int(lengths.max()))
    is_own = at < lengths  # (requests, keys)
    # Shorter requests are padded with any keys: `is_own` hides their scores.
    index = (first + at).clamp_max(keys.shape[1] - 1).flatten()

    def by_request(of_all: torch.Tensor) -> torch.Tensor:
        """Return keys or values in the shape (groups, requests, keys, size)."""
        return of_all.index_select(1, index).view(len(of_all), *is_own.shape, -1)

    # (groups, requests, heads of a group, keys)
    scores = query.transpose(1, 2) @ by_request(keys).transpose(2, 3)
    scores = scores.masked_fill(~is_own.unsqueeze(1), -torch.inf)
    weights = _weighted(scores, sinks.transpose(1, 2))
    return (weights @ by_request(values)).transpose(1, 2).contiguous()


def _attend_causally(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    sinks: torch.Tensor,
    sliding_window: int | None,
) -> torch.Tensor:
    """Attend from the last tokens of a request to the tokens before them and to themselves."""
    tokens, length = query.shape[2], keys.shape[1]
    scores = query @ keys.transpose(1, 2).unsqueeze(1)
    distance = torch.arange(length - tokens, length).unsqueeze(-1) - torch.arange(length)
    is_hidden = distance < 0
    if sliding_window is not None:
        is_hidden |= distance >= sliding_window
    weights = _weighted(scores.masked_fill_(is_hidden, -torch.inf), sinks)
    return weights @ values.unsqueeze(1)


def _weighted(scores: torch.Tensor, sinks: torch.Tensor) -> torch.Tensor:
    """Return the softmax of scores and a sink, which takes a part of the weight."""
    dtype = scores.dtype
    sinks = sinks.expand(*scores.shape[:-1], 1)
    weights: torch.Tensor = torch.cat([scores, sinks], -1).softmax(-1, dtype=torch.float32)
    return weights[..., :-1].to(dtype)


def _no_mask(*_: Any, **__: Any) -> None:
    return None


AttentionInterface.register(_ATTENTION, _attend)
AttentionMaskInterface.register(_ATTENTION, _no_mask)
