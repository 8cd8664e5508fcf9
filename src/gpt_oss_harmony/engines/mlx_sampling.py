"""Rows of log-probabilities in MLX to tokens; the counterpart of `torch_sampling`.

mlx-lm computes one step ahead: it calls the sampler of the next token before anybody has seen the
last one. A request without a grammar or penalties never waits for that, so its tokens stay on the
GPU until they are delivered. The others read their last token first.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import mlx.core as mx
import numpy as np

from ..errors import HarmonyError
from .engine import EngineError, SampledToken, Sampling
from .numpy_sampling import likeliest
from .token_sampler import RunningRequest, allowed_row

FEWEST_FORCED = 4
"""Forced tokens that are read at once. Fewer cost less than leaving and joining the batch."""


class MlxRow:
    """The sampler of one request, as mlx-lm calls it, and the tokens that it has chosen.

    `unread` are tokens that a grammar forced: they are part of the completion, and the model has
    yet to read them.
    """

    def __init__(self, request: RunningRequest) -> None:
        self.request = request
        self.problem: EngineError | None = None
        self.unread: deque[int] = deque()
        self._state = request.sampler
        self._ready: list[SampledToken] = []
        self._pending: deque[tuple[Any, Any]] = deque()  # tokens that nobody has seen
        self._logits: Any = None
        self._is_sound: Any = None  # whether the first logits are numbers
        sampling = self._state.sampling
        penalties = sampling.frequency_penalty or sampling.presence_penalty
        self._waits = (
            self._state.matcher is not None
            or bool(penalties)
            or sampling.repetition_penalty != 1
            or sampling.logprobs is not None
        )

    def __call__(self, logprobs: Any) -> Any:
        """Return the next token, in an array with one number."""
        if self._waits:
            mx.async_eval(logprobs)  # the model computes while a grammar does
            self._settle()
        if self.unread:
            # The batching reads several of them at once, and then asks again.
            one = len(self.unread) < FEWEST_FORCED
            return mx.array([self.unread.popleft() if one else self.unread[0]], mx.uint32)
        if self.problem is not None or self._state.is_finished:
            return mx.zeros((1,), mx.uint32)
        sampling = self._state.sampling
        try:
            token = self._choose(logprobs)
        except HarmonyError as error:
            self.problem = EngineError(f"sampling failed: {error}")
            return mx.zeros((1,), mx.uint32)
        if not self._state.length:  # broken logits stay broken, so the first token shows them
            self._is_sound = mx.isfinite(logprobs.max())
            mx.async_eval(token, self._is_sound)  # or it would wait for the step after this one
        self._pending.append((token, None if sampling.logprobs is None else logprobs))
        return token

    @property
    def processors(self) -> list[Any]:
        """What mlx-lm calls with the logits, before it makes log-probabilities of them.

        A penalty for repetition depends on the sign of a logit; all else can do without.
        """
        return [self._keep_logits] if self._state.sampling.repetition_penalty != 1 else []

    def _keep_logits(self, _: Any, logits: Any) -> Any:
        self._logits = logits
        return logits

    def settle_read(self) -> None:
        """Take the token that the model has just read; the one after it may not be computed yet."""
        if not self._waits:
            self._settle()

    def _settle(self) -> None:
        """Take the first of the chosen tokens, so that it can be delivered."""
        if not self._pending or self.problem is not None or self._state.is_finished:
            return
        array, logprobs = self._pending.popleft()
        token = array.item()
        try:
            if self._is_sound is not None and not self._is_sound.item():
                raise EngineError("no token is possible: the model's logits are not numbers")
            self._is_sound = None
            sampled = self._state.take(token, *self._logprobs(token, logprobs))
        except HarmonyError as error:
            self.problem = EngineError(f"sampling failed: {error}")
            return
        self._ready += sampled
        self.unread.extend(item.token for item in sampled[1:])

    def take_ready(self) -> list[SampledToken]:
        """Return the tokens that were not delivered yet."""
        ready, self._ready = self._ready, []
        return ready

    def _choose(self, logprobs: Any) -> Any:
        state = self._state
        ahead = len(self._pending)
        scripted = state.scripted(ahead)
        if scripted is not None:
            return mx.array([scripted], mx.uint32)
        scores = (logprobs if self._logits is None else self._logits).astype(mx.float32)
        if state.has_penalties:
            scores = _penalised(scores, state.counts, state.sampling)
        if state.matcher is not None:
            allowed = allowed_row(state.matcher, scores.shape[-1])
            scores = mx.where(mx.array(allowed)[None], scores, -mx.inf)
        # The key of the random numbers in MLX has 64 bits.
        key = int(state.random(ahead) * 2**53)
        return _sampled(scores, state.sampling, mx.random.key(key))

    def _logprobs(self, token: int, logprobs: Any) -> tuple[Any, ...]:
        count = self._state.sampling.logprobs
        if count is None:
            return ()
        row = np.array(logprobs[0].astype(mx.float32))
        return float(row[token]), likeliest(row, count)


def _penalised(scores: Any, counts: dict[int, int], sampling: Sampling) -> Any:
    """Apply the penalties for earlier tokens."""
    ids = mx.array(list(counts), mx.uint32)[None]
    times = mx.array([list(map(float, counts.values()))])
    old = mx.take_along_axis(scores, ids, axis=-1)
    repetition = sampling.repetition_penalty
    new = mx.where(old > 0, old / repetition, old * repetition)
    new = new - sampling.frequency_penalty * times - sampling.presence_penalty * (times > 0)
    return mx.put_along_axis(scores, ids, new, axis=-1)


def _sampled(scores: Any, sampling: Sampling, key: Any) -> Any:
    """Choose a token: the temperature comes first, then top-k, top-p and min-p."""
    if sampling.temperature == 0 or sampling.top_p == 0 or sampling.top_k == 1:
        return mx.argmax(scores, axis=-1)
    # The largest score is 0, so that no temperature makes it infinite.
    scores = (scores - scores.max(axis=-1, keepdims=True)) / max(sampling.temperature, 1e-30)
    width = scores.shape[-1]
    if sampling.top_p < 1 or 0 < sampling.top_k < width:
        order = mx.argsort(-scores, axis=-1)
        ordered = mx.take_along_axis(scores, order, axis=-1)
        weights = mx.exp(ordered)
        if 0 < sampling.top_k < width:
            weights = weights * (mx.arange(width) < sampling.top_k)
        sums = mx.cumsum(weights, axis=-1)
        is_kept = (sums - weights < sampling.top_p * sums[:, -1:]) & (weights > 0)
        is_kept = is_kept & (weights >= sampling.min_p)
        at = mx.random.categorical(mx.where(is_kept, ordered, -mx.inf), key=key)
        return mx.take_along_axis(order, at[:, None], axis=-1)[:, 0]
    if sampling.min_p:
        scores = mx.where(mx.exp(scores) >= sampling.min_p, scores, -mx.inf)
    return mx.random.categorical(scores, key=key)
