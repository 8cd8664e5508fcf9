"""The memory of a model on a person's own computer: what fits beside the weights.

llama.cpp and MLX give each request a cache of its own. A computer that holds the weights may not
hold sixteen whole contexts, so the plan lowers what was not asked for: first long contexts, then
the number of requests, then short contexts.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

from .batching_memory import ModelFigures, gigabytes
from .engine import EngineError, check_context
from .parallel import available_memory

_NUMBER = 2  # bytes of a cached number: float16 or bfloat16
_STEP = 512  # tokens that are computed at once; llama.cpp's default
_LONG, _SHORT, _SHORTEST = 32_768, 8_192, 4_096  # tokens of context
_SEVERAL = 4  # requests


def machine_memory() -> int | None:
    """Return the free memory of this machine; on a Mac all of it, and None where it is unknown."""
    free = available_memory()
    if free is None and sys.platform == "darwin":
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return free


class LocalPlan(NamedTuple):
    """The memory of a model in bytes; `free` is that of the machine, None if it is unknown."""

    context_length: int
    max_requests: int
    weights: int
    cache: int
    step: int
    free: int | None
    longest: int
    """The context of the model."""

    @property
    def needed(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.step

    @property
    def fits(self) -> bool:
        """Whether the machine has that much, as far as it is known."""
        return self.free is None or self.needed <= self.free

    def __str__(self) -> str:
        has = "an unknown amount is" if self.free is None else f"{gigabytes(self.free)} are"
        return (
            f"{gigabytes(self.weights)} of weights, {gigabytes(self.cache)} of cache for "
            f"{self.max_requests} requests of {self.context_length:,} tokens, "
            f"{gigabytes(self.step)} for a step; {has} free"
        )

    def report(self, log: logging.Logger, context_length: int | None, max_requests: int) -> None:
        """Log the plan, and what it lowered below the wishes that it began with."""
        log.info("%s", self)
        if self.max_requests < max_requests:
            log.warning(
                "%d requests run at once, not %d, as their caches do not fit into the memory",
                self.max_requests,
                max_requests,
            )
        if context_length is None and self.context_length < self.longest:
            log.warning(
                "the context is %d tokens, not %d, as it does not fit into the memory",
                self.context_length,
                self.longest,
            )


def plan_local_memory(
    model: str,
    figures: ModelFigures,
    weights: int,
    free: int | None,
    context_length: int | None,
    max_requests: int,
) -> LocalPlan:
    """Choose the context and the number of requests of a model whose weights have so many bytes.

    A `context_length` that is given is kept. Raises `EngineError`, with the sizes, if one request
    of it does not fit, and for more tokens than the model has.
    """
    check_context(model, context_length, figures.context)
    last = None
    for context, requests in _choices(context_length, figures.context, max_requests):
        last = LocalPlan(
            context,
            requests,
            weights,
            _cache(figures, context, requests),
            _step(figures),
            free,
            figures.context,
        )
        if last.fits:
            return last
    raise EngineError(
        f"{model} does not fit into the memory: {last}; end other programs, lower context_length "
        "(--context-length), or choose a smaller file"
    )


def _choices(given: int | None, longest: int, requests: int) -> Iterator[tuple[int, int]]:
    """Yield contexts and numbers of requests, from the most wanted on."""
    context = given or longest
    yield context, requests
    for least_context, least_requests in ((_LONG, _SEVERAL), (_SHORT, 1), (_SHORTEST, 1)):
        while given is None and context // 2 >= least_context:
            context //= 2
            yield context, requests
        while requests // 2 >= least_requests:
            requests //= 2
            yield context, requests


def _cache(figures: ModelFigures, context: int, requests: int) -> int:
    of_token = 2 * _NUMBER * figures.kv_heads * figures.head_size
    # Beside the window, llama.cpp keeps room for the tokens of a step.
    windowed = min(context, (figures.window or context) + _STEP)
    sliding = figures.layers - figures.full_layers
    return requests * of_token * (figures.full_layers * context + sliding * windowed)


def _step(figures: ModelFigures) -> int:
    # The logits, and the activations, which are small beside them.
    return 4 * _STEP * (figures.vocabulary + 8 * figures.hidden)
