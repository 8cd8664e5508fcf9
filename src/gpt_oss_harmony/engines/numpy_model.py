"""gpt-oss in NumPy, to be read: token ids and earlier keys and values in, logits out.

This is the whole architecture, in the order in which a token passes through it, in float32 and
without any library of models. It is fast enough for the demo model, and the oracle for engines that
are faster: on the same weights they must find the same tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .engine import EngineError
from .safetensors_file import Array


class _Layer(NamedTuple):
    """The weights of a layer, turned so that rows of tokens are multiplied from the left."""

    window: int | None
    """How many tokens a token sees, itself included; None for all before it."""

    attention_norm: Array
    qkv: Array
    qkv_bias: Array
    sinks: Array
    out: Array
    out_bias: Array
    experts_norm: Array
    router: Array
    router_bias: Array
    gate_up: Array
    gate_up_bias: Array
    down: Array
    down_bias: Array


class KeyValueCache:
    """The keys and values of one sequence in all layers; `length` tokens have been read."""

    def __init__(self, layers: int, heads: int, head_size: int) -> None:
        self.length = 0
        self._room = 256
        self._shape = layers, heads, head_size
        self._stored = [self._empty(), self._empty()]

    def _empty(self) -> Array:
        layers, heads, size = self._shape
        return np.empty((layers, heads, self._room, size), np.float32)

    def reserve(self, length: int) -> None:
        """Make room for so many tokens in all."""
        if length <= self._room:
            return
        self._room = max(length, 2 * self._room)
        for at, old in enumerate(self._stored):
            self._stored[at] = self._empty()
            self._stored[at][:, :, : self.length] = old[:, :, : self.length]

    def extend(self, layer: int, keys: Array, values: Array, first: int) -> tuple[Array, Array]:
        """Add the keys and values of new tokens; return those from the token `first` on."""
        end = self.length + len(keys)
        for stored, new in zip(self._stored, (keys, values), strict=True):
            stored[layer, :, self.length : end] = new.swapaxes(0, 1)
        both = self._stored
        return both[0][layer, :, first:end], both[1][layer, :, first:end]


class GptOss:
    """A model of the architecture gpt-oss.

    `config` is its ``config.json``. `weights` have the names of Transformers. Where many tokens
    have the same vector, `vectors` has the row of each token in the embedding and the head.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        weights: Mapping[str, Array],
        vectors: npt.NDArray[np.intp] | None = None,
    ) -> None:
        self.context_length = int(config["max_position_embeddings"])
        self.vocabulary_size = int(config["vocab_size"])
        self._heads = int(config["num_key_value_heads"])
        self._queries = int(config["num_attention_heads"]) // self._heads  # of each head
        self._head_size = int(config["head_dim"])
        self._chosen = int(config["num_experts_per_tok"])
        self._limit = float(config.get("swiglu_limit", 7.0))
        self._epsilon = float(config["rms_norm_eps"])
        self._vectors = np.arange(self.vocabulary_size) if vectors is None else vectors
        self._is_whole = vectors is None
        try:
            self._embedding = weights["model.embed_tokens.weight"]
            self._head = weights.get("lm_head.weight", self._embedding)
            self._norm = weights["model.norm.weight"]
            self._layers = [
                _layer(weights, f"model.layers.{number}.", window)
                for number, window in enumerate(_windows(config))
            ]
        except KeyError as error:
            raise EngineError(f"the model has no weights {error}") from error
        self._cosines, self._sines = _rotations(config, self.context_length)

    def new_cache(self) -> KeyValueCache:
        """Return a cache for a sequence that begins."""
        return KeyValueCache(len(self._layers), self._heads, self._head_size)

    def read(self, parts: Sequence[tuple[Sequence[int], KeyValueCache]]) -> Array:
        """Read the next tokens of several sequences; return the vector of each one's last token.

        All tokens pass the weights as the rows of one matrix. Only attention knows of sequences.
        """
        tokens = np.concatenate([np.asarray(part, np.intp) for part, _ in parts])
        starts = np.cumsum([0, *(len(part) for part, _ in parts)])
        spans = [slice(*pair) for pair in pairwise(starts)]
        positions = np.concatenate(
            [np.arange(cache.length, cache.length + len(part)) for part, cache in parts]
        )
        for part, cache in parts:
            cache.reserve(cache.length + len(part))
        rotation = self._cosines[positions, None], self._sines[positions, None]
        rows = self._embedding[self._vectors[tokens]]
        for number, layer in enumerate(self._layers):
            normed = self._normalised(rows, layer.attention_norm)
            rows = rows + self._attention(number, layer, normed, rotation, spans, parts)
            rows = rows + self._experts(layer, self._normalised(rows, layer.experts_norm))
        for part, cache in parts:
            cache.length += len(part)
        return self._normalised(rows[starts[1:] - 1], self._norm)

    def logits(self, vectors: Array) -> Array:
        """Return the logits of all tokens, for each vector that `read` has returned."""
        found: Array = vectors @ self._head.T
        return found if self._is_whole else found[:, self._vectors]

    def _normalised(self, rows: Array, weight: Array) -> Array:
        """Scale each row to the mean square 1 (RMS norm)."""
        squares = np.einsum("rh,rh->r", rows, rows)[:, None] / rows.shape[1]
        normed: Array = rows * (weight / np.sqrt(squares + self._epsilon))
        return normed

    def _attention(
        self,
        number: int,
        layer: _Layer,
        rows: Array,
        rotation: tuple[Array, Array],
        spans: Sequence[slice],
        parts: Sequence[tuple[Sequence[int], KeyValueCache]],
    ) -> Array:
        all_heads = rows @ layer.qkv + layer.qkv_bias
        all_heads = all_heads.reshape(len(rows), -1, self._head_size)
        queries = self._queries * self._heads
        turned = _rotated(all_heads[:, : queries + self._heads], *rotation)
        values = all_heads[:, queries + self._heads :]
        attended = np.empty((len(rows), queries * self._head_size), np.float32)
        for span, (_, cache) in zip(spans, parts, strict=True):
            first = max(0, cache.length - layer.window + 1) if layer.window else 0
            seen = cache.extend(number, turned[span, queries:], values[span], first)
            attended[span] = self._attend(layer, turned[span, :queries], *seen)
        return attended @ layer.out + layer.out_bias

    def _attend(self, layer: _Layer, queries: Array, keys: Array, values: Array) -> Array:
        """Mix the `values` of a sequence for each of its last tokens.

        A head also has a sink: a score that takes a share of the attention and adds no value, so
        that a token need not attend to anything.
        """
        new, seen, size = len(queries), keys.shape[1], self._head_size
        # Several queries share a head of keys, so they are the rows of one matrix.
        grouped = queries.reshape(new, self._heads, self._queries, size).transpose(1, 2, 0, 3)
        flat = grouped.reshape(self._heads, self._queries * new, size)
        scores = flat @ keys.swapaxes(1, 2) / np.float32(math.sqrt(size))
        scores = scores.reshape(self._heads, self._queries, new, seen)
        # A single token sees all keys: `first` has left out those before its window.
        if new > 1:
            distance = np.arange(seen - new, seen)[:, None] - np.arange(seen)
            is_hidden = distance < 0
            if layer.window:
                is_hidden |= distance >= layer.window
            scores[..., is_hidden] = -np.inf
        sinks = layer.sinks.reshape(self._heads, self._queries, 1, 1)
        largest = np.maximum(scores.max(-1, keepdims=True), sinks)
        shares = np.exp(scores - largest)
        shares /= shares.sum(-1, keepdims=True) + np.exp(sinks - largest)
        mixed = shares.reshape((*flat.shape[:2], seen)) @ values
        by_token = mixed.reshape(self._heads, self._queries, new, size).transpose(2, 0, 1, 3)
        rows: Array = by_token.reshape(new, -1)
        return rows

    def _experts(self, layer: _Layer, rows: Array) -> Array:
        """Add up the results of the experts that each row's router scores highest."""
        scores = rows @ layer.router + layer.router_bias
        chosen = np.argpartition(-scores, self._chosen - 1, axis=1)[:, : self._chosen]
        shares = np.exp(_taken(scores, chosen) - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        result = np.zeros_like(rows)
        for expert in set(chosen.ravel().tolist()):
            at, place = np.nonzero(chosen == expert)
            both = rows[at] @ layer.gate_up[expert] + layer.gate_up_bias[expert]
            # The numbers of gate and up projection take turns, as Transformers stores them.
            gate = np.minimum(both[:, ::2], self._limit)
            up = np.clip(both[:, 1::2], -self._limit, self._limit)
            # The sigmoid of 1.702 times the gate, in a form that does not overflow.
            inner = (up + 1) * gate * (0.5 + 0.5 * np.tanh(0.851 * gate))
            outer = inner @ layer.down[expert] + layer.down_bias[expert]
            # No row has an expert twice; NumPy would add only one of two equal indices.
            result[at] += shares[at, place, None] * outer
        return result


def _taken(rows: Array, columns: npt.NDArray[np.intp]) -> Array:
    return np.take_along_axis(rows, columns, axis=1)


def _windows(config: Mapping[str, Any]) -> Iterator[int | None]:
    """Yield the window of each layer; by default every other layer has one."""
    layers = int(config["num_hidden_layers"])
    kinds = config.get("layer_types") or ["sliding_attention", "full_attention"] * layers
    for kind in kinds[:layers]:
        yield int(config["sliding_window"]) if kind == "sliding_attention" else None


def _layer(weights: Mapping[str, Array], prefix: str, window: int | None) -> _Layer:
    """Take the weights of a layer; those of experts are stored as they are multiplied."""

    def of(*names: str) -> Array:
        return np.ascontiguousarray(np.concatenate([weights[prefix + name] for name in names]).T)

    parts = [f"self_attn.{part}_proj" for part in "qkv"]
    experts = f"{prefix}mlp.experts."
    return _Layer(
        window,
        of("input_layernorm.weight"),
        of(*(f"{part}.weight" for part in parts)),
        of(*(f"{part}.bias" for part in parts)),
        of("self_attn.sinks"),
        of("self_attn.o_proj.weight"),
        of("self_attn.o_proj.bias"),
        of("post_attention_layernorm.weight"),
        of("mlp.router.weight"),
        of("mlp.router.bias"),
        *(
            weights[experts + name]
            for name in ("gate_up_proj", "gate_up_proj_bias", "down_proj", "down_proj_bias")
        ),
    )


def _rotations(config: Mapping[str, Any], length: int) -> tuple[Array, Array]:
    """Return the cosines and sines by which each position turns the pairs of a head's numbers.

    YaRN stretches a model's positions to a longer context: pairs that turn slowly are slowed down
    by the factor, quick ones stay, those between are mixed. Scores are sharpened a little for it.
    """
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    base = float(rope.get("rope_theta") or config.get("rope_theta") or 150_000.0)
    size = int(config["head_dim"])
    speeds = base ** (-np.arange(0, size, 2, dtype=np.float32) / np.float32(size))
    scale = 1.0
    if rope.get("rope_type") == "yarn":
        factor = float(rope["factor"])
        trained = float(rope["original_max_position_embeddings"])

        def pair(turns: float) -> float:
            """Return which pair turns so often in the trained context."""
            return size * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

        low, high = pair(rope.get("beta_fast") or 32.0), pair(rope.get("beta_slow") or 1.0)
        if rope.get("truncate", True):
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, size - 1)
        slowed = np.clip((np.arange(size // 2) - low) / max(high - low, 0.001), 0, 1)
        speeds = speeds / factor * slowed + speeds * (1 - slowed)
        scale = 0.1 * math.log(factor) + 1 if factor > 1 else 1.0
    angles = np.arange(length, dtype=np.float32)[:, None] * speeds.astype(np.float32)
    return np.cos(angles) * np.float32(scale), np.sin(angles) * np.float32(scale)


def _rotated(heads: Array, cosines: Array, sines: Array) -> Array:
    """Turn the pairs of numbers: the first half of a head has the first of each pair."""
    half = heads.shape[-1] // 2
    first, second = heads[..., :half], heads[..., half:]
    return np.concatenate(
        (first * cosines - second * sines, second * cosines + first * sines), axis=-1
    )
