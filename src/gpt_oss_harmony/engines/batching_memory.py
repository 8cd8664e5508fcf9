"""The memory of a model: its weights, its KV cache, and the peak of a step.

All of this is arithmetic on the figures of a model's ``config.json``. It follows the layout of
Transformers' continuous batching, and adds what its own sizing leaves out: the scores of an
attention that does not stream, and the activations of the experts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from .engine import EngineError

PAGE = 256
"""Tokens in a block of the KV cache."""

USABLE_SHARE = 0.9
"""The share of the free memory that Transformers' batching uses beside a GPU's other memory."""

_SIZE = 2  # bytes of a number in bfloat16
_MXFP4 = 17 / 32  # bytes of a weight: 4 bits each, and a scale of 8 bits for 32 weights
_SCORES = 8
"""Bytes of a score in eager attention at its peak: bfloat16, the float32 softmax of it, and its
copy in bfloat16 are alive at the same time."""

_MOST_BATCH_TOKENS = 8192
_FEWEST_BATCH_TOKENS = 16
_ENOUGH_BATCH_TOKENS = 128
"""The fewest tokens of a step for a default context. With fewer, every prompt takes so many steps
that a shorter context is better."""
_SHORTEST_CONTEXT = 4096


class ModelFigures(NamedTuple):
    """The sizes of a model, from its ``config.json``."""

    kind: str
    layers: int
    full_layers: int
    """Layers whose attention has no sliding window; their cache grows with the context."""
    window: int | None
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    context: int
    experts: int = 0
    experts_per_token: int = 0
    expert_width: int = 0
    is_mxfp4: bool = False
    """Whether the experts are stored as MXFP4."""
    has_tied_head: bool = False

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> ModelFigures:
        """Read a ``config.json``; `EngineError` names a figure that is missing."""
        try:
            layers, heads = config["num_hidden_layers"], config["num_attention_heads"]
            types = config.get("layer_types")
            window = config.get("sliding_window")
            if types is None:
                is_gpt_oss = config["model_type"] == "gpt_oss"
                # gpt-oss alternates; of other models, all layers have the window.
                full = layers // 2 if is_gpt_oss else (0 if window else layers)
            else:
                full = sum(kind == "full_attention" for kind in types)
            quantization = config.get("quantization_config") or {}
            return cls(
                kind=config["model_type"],
                layers=layers,
                full_layers=full,
                window=window,
                hidden=config["hidden_size"],
                heads=heads,
                kv_heads=config.get("num_key_value_heads") or heads,
                head_size=config.get("head_dim") or config["hidden_size"] // heads,
                vocabulary=config["vocab_size"],
                context=config["max_position_embeddings"],
                experts=config.get("num_local_experts") or 0,
                experts_per_token=config.get("num_experts_per_tok") or 0,
                expert_width=config.get("intermediate_size") or 0,
                is_mxfp4=str(quantization.get("quant_method")) == "mxfp4"
                and not quantization.get("dequantize"),
                has_tied_head=bool(config.get("tie_word_embeddings")),
            )
        except KeyError as error:
            raise EngineError(f"the model's config.json has no {error}") from error

    @property
    def expert_weights(self) -> int:
        """How many weights the experts of all layers have, without their biases."""
        return self.layers * self.experts * 3 * self.hidden * self.expert_width

    @property
    def other_weights(self) -> int:
        """How many weights gpt-oss has beside those of `expert_weights`."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        attention = 2 * self.hidden * queries + 2 * self.hidden * keys  # the four matrices
        attention += queries + 2 * keys + self.hidden + self.heads  # biases and sinks
        router = self.experts * (self.hidden + 1)
        biases = self.experts * (2 * self.expert_width + self.hidden)
        of_layer = attention + router + biases + 2 * self.hidden  # two norms
        vocabulary = (1 if self.has_tied_head else 2) * self.vocabulary * self.hidden
        return self.layers * of_layer + vocabulary + self.hidden

    def weight_bytes(self, *, is_mxfp4: bool, processes: int = 1) -> int:
        """Return the memory of gpt-oss's weights in each of several processes.

        The processes share the experts and the head. Each has the rest.
        """
        experts = self.expert_weights * (_MXFP4 if is_mxfp4 else _SIZE) / processes
        others = self.other_weights * _SIZE
        if not self.has_tied_head:
            head = self.vocabulary * self.hidden * _SIZE
            others -= head - head // processes
        return round(experts) + others


def _published(layers: int, experts: int) -> dict[str, Any]:
    return {
        "model_type": "gpt_oss",
        "num_hidden_layers": layers,
        "num_local_experts": experts,
        "num_experts_per_tok": 4,
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "vocab_size": 201_088,
        "sliding_window": 128,
        "max_position_embeddings": 131_072,
        "tie_word_embeddings": False,
        "quantization_config": {"quant_method": "mxfp4"},
    }


PUBLISHED_FIGURES: dict[str, dict[str, Any]] = {
    "openai/gpt-oss-20b": _published(24, 32),
    "openai/gpt-oss-120b": _published(36, 128),
}
"""The fields of the published models' ``config.json`` that `ModelFigures.of` reads."""


class MemoryPlan(NamedTuple):
    """How a GPU's memory is used; sizes are in bytes."""

    weights: int
    cache: int
    step: int
    """The peak of a step, with the logits."""
    context_length: int
    batch_tokens: int
    """The most tokens of a step; a longer prompt takes several."""
    cached_tokens: int
    """How many tokens fit into the cache, of all requests together."""
    blocks: int
    """The size of the cache in blocks of `PAGE` tokens of all layers."""

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return self.weights + self.cache + self.step


class _Costs(NamedTuple):
    """The costs of a step and of the cache in bytes, as Transformers' batching lays them out."""

    sector: int
    """Bytes of the cache's unit, which all kinds of layers share."""
    sector_tokens: int
    block: int
    """Bytes of `PAGE` tokens of all layers."""
    cached_token: int
    """The bytes of each cached token, while a step reads it."""
    pair: int
    """The bytes of each token of a step for each cached token: scores and masks."""
    token: int
    """The bytes of each token of a step."""
    fixed: int

    @classmethod
    def of(cls, figures: ModelFigures, *, streams: bool, max_requests: int) -> _Costs:
        of_page = 2 * figures.kv_heads * figures.head_size * _SIZE * PAGE  # of one layer
        sliding = figures.layers - figures.full_layers
        kinds = [count * of_page for count in (figures.full_layers, sliding) if count]
        sector = math.lcm(*kinds, 128)
        # Without streaming, keys and values are repeated for each head.
        read_heads = 2 * figures.kv_heads if streams else 2 * figures.heads + figures.kv_heads
        masks = 0 if streams else (2 if sliding else 1)
        attention = figures.hidden + (figures.heads + 2 * figures.kv_heads) * figures.head_size
        # The rows of each expert: gate and up, their product, the output, and its weighted sum.
        experts = figures.experts_per_token * (2 * figures.hidden + 3 * figures.expert_width)
        logits = figures.hidden * _SIZE + 2 * 4 * figures.vocabulary  # float32, and a sorted copy
        return cls(
            sector=sector,
            sector_tokens=max(sector // kind for kind in kinds) * PAGE,
            block=figures.layers * of_page,
            cached_token=read_heads * figures.head_size * _SIZE + 8 * len(kinds),
            pair=0 if streams else _SCORES * figures.heads + masks * _SIZE,
            token=(attention + read_heads * figures.head_size + experts) * _SIZE + 128,
            fixed=2 * sector + max_requests * logits,
        )

    def step(self, batch_tokens: int, cached_tokens: int) -> int:
        """Return the peak of a step."""
        pairs = batch_tokens * (cached_tokens + batch_tokens)
        return (
            self.fixed
            + batch_tokens * self.token
            + cached_tokens * self.cached_token
            + pairs * self.pair
        )

    def most_sectors(self, memory: int, batch_tokens: int) -> int:
        """Return how many sectors fit beside the step that reads all of them."""
        of_sector = self.sector + self.sector_tokens * (
            self.cached_token + batch_tokens * self.pair
        )
        return (memory - self.step(batch_tokens, 0)) // of_sector


def plan_memory(
    figures: ModelFigures,
    weights: int,
    free: int,
    *,
    streams: bool,
    max_requests: int,
    context_length: int | None = None,
) -> MemoryPlan:
    """Divide the `free` bytes of a GPU among the weights, the cache and the steps.

    The cache holds at least one request of the whole context. A step that reads it takes at most
    half of the memory beside the weights, if it still has 16 tokens; then the cache gets the rest.
    Without a `context_length`, the context is the model's, halved until it fits and leaves room for
    steps of 128 tokens.

    Raises `EngineError`, with the sizes, if the context does not fit.
    """
    if weights >= free:
        raise EngineError(
            f"the weights need {gigabytes(weights)}, but {gigabytes(free)} are free on the GPU"
        )
    usable = int((free - weights) * USABLE_SHARE)
    costs = _Costs.of(figures, streams=streams, max_requests=max_requests)
    context = context_length or figures.context
    while True:
        pages = -(-context // PAGE) + 1
        # Each request has a ring of pages in layers with a sliding window.
        rings = max_requests * 2 if figures.full_layers < figures.layers else 0
        least = -(-pages * PAGE // costs.sector_tokens) + rings
        tokens = least * costs.sector_tokens
        batch = _MOST_BATCH_TOKENS
        while batch > _FEWEST_BATCH_TOKENS and costs.step(batch, tokens) > usable / 2:
            batch //= 2
        batch = max(batch, min(max_requests, _MOST_BATCH_TOKENS))
        sectors = costs.most_sectors(usable, batch)
        is_fixed = context_length is not None or context <= _SHORTEST_CONTEXT
        if sectors >= least and (is_fixed or batch >= _ENOUGH_BATCH_TOKENS):
            break
        if is_fixed:
            needed = weights + int(
                (least * costs.sector + costs.step(batch, tokens)) / USABLE_SHARE
            )
            raise EngineError(
                f"the model needs {gigabytes(needed)} with a context of {context:,} tokens "
                f"({gigabytes(weights)} of weights, {gigabytes(least * costs.sector)} of cache, "
                f"{gigabytes(costs.step(batch, tokens))} for a step), but {gigabytes(free)} are "
                "free: lower context_length (--context-length) or max_requests (--max-running)"
            )
        context //= 2
    wanted = -(-max_requests * pages * PAGE // costs.sector_tokens) + rings
    sectors = min(sectors, wanted)  # more can never be used
    return MemoryPlan(
        weights=weights,
        # Two sectors at the beginning of Transformers' cache are never given to a request.
        cache=(sectors + 2) * costs.sector,
        step=costs.step(batch, sectors * costs.sector_tokens) - 2 * costs.sector,
        context_length=context,
        batch_tokens=batch,
        cached_tokens=sectors * costs.sector_tokens,
        blocks=sectors * costs.sector // costs.block,
    )


def gigabytes(size: int) -> str:
    """Write a size for people.

    >>> gigabytes(13_750_000_000)
    '13.8 GB'
    """
    return f"{size / 1e9:.1f} GB"
