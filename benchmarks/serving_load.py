"""A load on a server: many streams at once, timed from the client's side, and what they cost it.

The client does as little as it can, since it runs on the same cores: it counts pieces of text in
the bytes that come, and reads no JSON.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

import psutil

__all__ = ["API_PATHS", "Load", "StreamTimes", "run_load"]

API_PATHS = {"responses": "/v1/responses", "chat": "/v1/chat/completions"}

_WAIT = 600.0  # seconds for one stream: the slowest server serves them one after the other
_LOOK = 0.02  # seconds between looks at the memory
_PIECES = {"responses": b'text.delta"', "chat": b'"delta":{"'}
"""What stands once in each event with a piece of text."""


@dataclass(frozen=True)
class StreamTimes:
    """One stream: seconds to its first text and to its end, and how many deltas it had."""

    first: float
    total: float
    deltas: int


@dataclass(frozen=True)
class Load:
    """What many streams took together.

    `total` is in seconds, and so is `cpu`, the processor's time of the server. `memory` is in
    bytes: how much more the server had than before, at most.
    """

    streams: tuple[StreamTimes, ...]
    total: float
    cpu: float
    memory: int

    @property
    def deltas(self) -> int:
        """Pieces of text over all streams."""
        return sum(stream.deltas for stream in self.streams)

    def summary(self) -> dict[str, float]:
        """The numbers of the table: milliseconds, microseconds, pieces a second, KiB."""
        first = sorted(stream.first for stream in self.streams)
        last = quantiles(first, n=100)[-1] if len(first) > 1 else first[0]
        return {
            "first text, median, ms": 1e3 * median(first),
            "first text, p99, ms": 1e3 * last,
            "time per token, µs": 1e6 * self.total / self.deltas,
            "server's processor time per token, µs": 1e6 * self.cpu / self.deltas,
            "tokens per second": self.deltas / self.total,
            "memory per stream, KiB": self.memory / 1024 / len(self.streams),
        }


async def run_load(port: int, pid: int, body: Mapping[str, Any], api: str, streams: int) -> Load:
    """Send the same request `streams` times at once to a server, and read all answers."""
    server = psutil.Process(pid)
    processes = [server, *server.children(recursive=True)]
    before, begun, used = _memory(processes), time.perf_counter(), _processor_time(processes)
    memory = before

    async def watch() -> None:
        nonlocal memory
        while True:
            memory = max(memory, _memory(processes))
            await asyncio.sleep(_LOOK)

    watching = asyncio.ensure_future(watch())
    request = {**body, "stream": True}
    try:
        times = await asyncio.wait_for(
            asyncio.gather(*(_stream(port, request, api) for _ in range(streams))), _WAIT
        )
    finally:
        watching.cancel()
    total = time.perf_counter() - begun
    return Load(tuple(times), total, _processor_time(processes) - used, memory - before)


def _memory(processes: list[psutil.Process]) -> int:
    return sum(process.memory_info().rss for process in processes)


def _processor_time(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


async def _stream(port: int, body: Mapping[str, Any], api: str) -> StreamTimes:
    begun = time.perf_counter()
    first = None
    deltas = 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data, mark = json.dumps(body).encode(), _PIECES[api]
    head = (
        f"POST {API_PATHS[api]} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    writer.write(head.encode() + data)
    rest = b""
    while chunk := await reader.read(1 << 16):
        chunk = rest + chunk
        deltas += chunk.count(mark)
        rest = chunk[1 - len(mark) :]  # in which a mark may have begun, but not ended
        if deltas and first is None:
            first = time.perf_counter() - begun
    writer.close()
    if first is None:
        raise RuntimeError(f"{API_PATHS[api]} answered without any text: {chunk!r}")
    return StreamTimes(first, time.perf_counter() - begun, deltas)
