"""Running requests of a model in this process: sampled in its thread, read in event loops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

from .engine import EngineError, SampledToken
from .token_sampler import TokenSampler


class RunningRequest:
    """A running request: its sampler, and the queue of its event loop that gets its tokens.

    Either side may end it by setting `is_finished`: the thread when it delivers the last token, the
    event loop when nobody reads the request any more.
    """

    cached_tokens: int | None = None
    """How many tokens of the prompt came from a cache, if the batching reports it by request."""

    def __init__(self, sampler: TokenSampler, first: Iterable[SampledToken]) -> None:
        self.sampler = sampler
        self.loop = asyncio.get_running_loop()
        self.items: asyncio.Queue[SampledToken | EngineError] = asyncio.Queue()
        self.is_finished = sampler.is_finished
        for sampled in first:
            self.items.put_nowait(sampled)

    def fail(self, problem: str) -> None:
        """End the request with an error."""
        if not self.is_finished:
            deliver([self], [EngineError(problem)])


def deliver(
    requests: Sequence[RunningRequest], chosen: Sequence[list[SampledToken] | EngineError]
) -> list[list[int]]:
    """Put the tokens of a step into the queues of their requests; each event loop is woken once.

    Returns the tokens by request. A request that failed has none, and like one that got its last
    token, it is finished.
    """
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Queue[Any], Any]]] = {}
    tokens: list[list[int]] = []
    for request, sampled in zip(requests, chosen, strict=True):
        puts = by_loop.setdefault(request.loop, [])
        if isinstance(sampled, EngineError):
            request.is_finished = True
            puts.append((request.items, sampled))
            tokens.append([])
        else:
            request.is_finished |= sampled[-1].finish_reason is not None
            puts += ((request.items, item) for item in sampled)
            tokens.append([item.token for item in sampled])
    for loop, puts in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing reads the queue
            loop.call_soon_threadsafe(_put_all, puts)
    return tokens


def _put_all(puts: list[tuple[asyncio.Queue[Any], Any]]) -> None:
    for queue, item in puts:
        queue.put_nowait(item)
