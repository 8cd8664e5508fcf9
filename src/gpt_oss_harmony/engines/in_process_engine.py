"""What the engines in this process share: checked prompts, queues of tokens, scores, cancelling.

The event loop makes a `RunningRequest` and reads its queue. A `Batching` owns the thread that runs
the model, and ends what the other side has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from .engine import (
    ContextLengthError,
    Engine,
    EngineError,
    Health,
    SampledToken,
    Sampling,
    SamplingError,
)
from .running_requests import RunningRequest
from .token_sampler import TokenSampler

__all__ = ["Batching", "InProcessEngine"]


class Batching(Protocol):
    """The thread that runs a model, and takes its requests by name from the engine's table."""

    @property
    def is_running(self) -> bool:
        """Return whether the thread is alive."""

    @property
    def problem(self) -> str:
        """The error that ended the thread."""

    @property
    def cached_tokens(self) -> int | None:
        """The cached tokens of every prompt, unless its request has a number of its own."""

    def add(self, name: str, prompt: list[int], max_tokens: int) -> bool:
        """Start a request; return False if the thread has stopped."""

    def cancel(self, name: str) -> None:
        """End a request early."""

    def stop(self) -> None:
        """Stop the thread and wait for its end."""


class InProcessEngine(Engine):
    """Runs a model in a thread of this process.

    A subclass opens a `Batching` over `_requests`, and stores it in `_batching`.
    """

    closes_in_time = True
    _batching: Batching

    def __init__(self, model: str, vocabulary_size: int) -> None:
        self.model = model
        self._vocabulary = vocabulary_size
        self._requests: dict[str, RunningRequest] = {}
        self._names = map("request-{}".format, itertools.count())

    async def score(self, tokens: Sequence[int], logprobs: int = 0) -> list[SampledToken]:
        """Return the log-probability of each token; it takes one step of the model for each."""
        if not tokens:
            return []
        ContextLengthError.check(len(tokens) - 1, self.context_length)
        SamplingError.check_tokens(tokens, self._vocabulary)
        first, *rest = tokens
        scored = [SampledToken(first)]
        if rest:
            sampling = Sampling(temperature=0, logprobs=logprobs, stop_tokens=frozenset())
            stream = self._generate([first], sampling, len(rest), script=rest)
            async with contextlib.aclosing(stream):
                async for token in stream:
                    scored.append(token)
        return scored

    async def _generate(
        self,
        prompt: list[int],
        sampling: Sampling,
        max_tokens: int,
        *,
        script: Sequence[int] = (),
    ) -> AsyncGenerator[SampledToken, None]:
        SamplingError.check_tokens(prompt, self._vocabulary)
        # Compiling a grammar would block the event loop for too long.
        sampler = await asyncio.to_thread(
            TokenSampler, prompt, sampling, max_tokens, self._vocabulary, script
        )
        forced = sampler.take_forced()
        request = RunningRequest(sampler, forced)
        name = next(self._names)
        self._requests[name] = request
        try:
            if not request.is_finished:
                prompt = prompt + [sampled.token for sampled in forced]
                if not self._batching.add(name, prompt, max_tokens - len(forced)):
                    problem = self._batching.problem
                    raise EngineError(
                        f"the engine is closed, or its model failed ({problem}); open it again"
                    )
            while True:
                item = await request.items.get()
                if isinstance(item, EngineError):
                    raise item
                if item.finish_reason is not None:
                    own = request.cached_tokens
                    cached = self._batching.cached_tokens if own is None else own
                    yield item._replace(cached_tokens=cached)
                    break
                yield item
        finally:
            if not request.is_finished:
                request.is_finished = True
                self._batching.cancel(name)
            self._requests.pop(name, None)

    async def health(self) -> Health:
        """Return whether the thread that runs the model is alive."""
        running = self._batching.is_running
        detail = "" if running else f"the model has stopped: {self._batching.problem}"
        return Health(running, len(self._requests), detail)

    async def close(self) -> None:
        """Stop the thread; running requests end with an error."""
        for request in list(self._requests.values()):
            request.fail("the engine was closed")
        await asyncio.to_thread(self._batching.stop)
