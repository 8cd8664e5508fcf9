"""Running requests of a model in this process: sampled in its thread, read in event loops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from .engine import EngineError, SampledToken
from .token_sampler import TokenSampler, choose_tokens

__all__ = ["RunningRequest", "sample_next"]


class RunningRequest:
    """A running request: its sampler, and the queue of its event loop that gets its tokens.

    Either side may end it by setting `is_finished`: the thread when it delivers the last token, the
    event loop when nobody reads the request any more.
    """

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
            self.is_finished = True
            _deliver([(self, EngineError(problem))])


def sample_next(logits: torch.Tensor, requests: Sequence[RunningRequest]) -> list[list[int]]:
    """Sample the next token of each request and deliver it, with the tokens that it forces.

    Returns the tokens by request. A request that failed has none, and like one that got its last
    token, it is finished. `logits` have the type float32; they are overwritten.
    """
    try:
        chosen = choose_tokens(logits, [request.sampler for request in requests])
    except Exception as error:  # noqa: BLE001 - it would end the thread and all requests
        chosen = [EngineError(f"sampling failed: {error}")] * len(requests)
    items: list[tuple[RunningRequest, SampledToken | EngineError]] = []
    tokens: list[list[int]] = []
    for request, sampled in zip(requests, chosen, strict=True):
        if isinstance(sampled, EngineError):
            request.is_finished = True
            items.append((request, sampled))
            tokens.append([])
        else:
            request.is_finished |= sampled[-1].finish_reason is not None
            items += ((request, item) for item in sampled)
            tokens.append([item.token for item in sampled])
    _deliver(items)
    return tokens


def _deliver(items: Iterable[tuple[RunningRequest, SampledToken | EngineError]]) -> None:
    """Put items into the queues of their requests; each event loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Queue[Any], Any]]] = {}
    for request, item in items:
        by_loop.setdefault(request.loop, []).append((request.items, item))
    for loop, puts in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing reads the queue
            loop.call_soon_threadsafe(_put_all, puts)


def _put_all(puts: list[tuple[asyncio.Queue[Any], Any]]) -> None:
    for queue, item in puts:
        queue.put_nowait(item)
