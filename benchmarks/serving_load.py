"""A load on a server: many streams at once, timed from the client's side."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

import httpx2

__all__ = ["API_PATHS", "Load", "StreamTimes", "run_load"]

API_PATHS = {"responses": "/v1/responses", "chat": "/v1/chat/completions"}

_WAIT = 600.0  # seconds for one stream: the slowest server serves them one after the other


@dataclass(frozen=True)
class StreamTimes:
    """One stream: seconds to its first text and to its end, and how many deltas it had."""

    first: float
    total: float
    deltas: int


@dataclass(frozen=True)
class Load:
    """What many streams took together; times in seconds."""

    streams: tuple[StreamTimes, ...]
    total: float

    @property
    def deltas(self) -> int:
        """Pieces of text over all streams."""
        return sum(stream.deltas for stream in self.streams)

    def summary(self) -> dict[str, float]:
        """The numbers of the table: milliseconds, microseconds, pieces a second."""
        first = sorted(stream.first for stream in self.streams)
        last = quantiles(first, n=100)[-1] if len(first) > 1 else first[0]
        return {
            "first text, median, ms": 1e3 * median(first),
            "first text, p99, ms": 1e3 * last,
            "server time per token, µs": 1e6 * self.total / self.deltas,
            "tokens per second": self.deltas / self.total,
        }


async def run_load(url: str, body: Mapping[str, Any], api: str, streams: int) -> Load:
    """Send the same request `streams` times at once and read all answers."""
    limits = httpx2.Limits(max_connections=streams)
    async with httpx2.AsyncClient(base_url=url, timeout=_WAIT, limits=limits) as client:
        begun = time.perf_counter()
        request = {**body, "stream": True}
        times = await asyncio.gather(
            *(_stream(client, API_PATHS[api], request, _IS_DELTA[api]) for _ in range(streams))
        )
        return Load(tuple(times), time.perf_counter() - begun)


async def _stream(
    client: httpx2.AsyncClient,
    path: str,
    body: Mapping[str, Any],
    is_delta: Callable[[Mapping[str, Any]], bool],
) -> StreamTimes:
    begun = time.perf_counter()
    first = None
    deltas = 0
    async with client.stream("POST", path, json=body) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            if is_delta(json.loads(line.removeprefix("data: "))):
                deltas += 1
                first = first or time.perf_counter() - begun
    if first is None:
        raise RuntimeError(f"{path} answered without any text")
    return StreamTimes(first, time.perf_counter() - begun, deltas)


def _is_response_delta(event: Mapping[str, Any]) -> bool:
    return str(event.get("type", "")).endswith(("text.delta", "reasoning.delta"))


def _is_chat_delta(chunk: Mapping[str, Any]) -> bool:
    choices = chunk.get("choices") or [{}]
    delta = choices[0].get("delta") or {}
    return bool(delta.get("content") or delta.get("reasoning"))


_IS_DELTA = {"responses": _is_response_delta, "chat": _is_chat_delta}
