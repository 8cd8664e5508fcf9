"""Where our own time goes: shares of the work that the table is about."""

from __future__ import annotations

import cProfile
import gc
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.workloads import TEXT_WORKLOADS, WORKLOADS, Workload, stream, text_completion

PROFILED = ("render 50 turns, never seen", "batch parse, English")
STREAM = "stream, English"
RUNS = 10
LARGEST = 5
REST = "everything else"


def breakdown() -> list[dict[str, Any]]:
    """Shares of the time by part, the largest first, for each of the works."""
    found = {name: profiled((WORKLOADS | TEXT_WORKLOADS)[name]()) for name in PROFILED}
    found[STREAM] = stream_parts()
    return [
        {"work": name, "part": part, "share": share}
        for name, shares in found.items()
        for part, share in shares.items()
    ]


def profiled(workload: Workload) -> dict[str, float]:
    """Shares of modules under cProfile, which makes short functions look a little longer."""
    values = [workload.prepare(run) for run in range(2 + RUNS)]
    for value in values[:2]:
        workload.work(value)
    profile = cProfile.Profile()
    for value in values[2:]:
        gc.collect()
        profile.enable()
        workload.work(value)
        profile.disable()
    times = times_by_module(profile)
    total = sum(times.values())
    named = sorted(times.keys() - {REST}, key=times.__getitem__, reverse=True)
    parts = {name: times[name] / total for name in named[:LARGEST]}
    return {**parts, REST: 1 - sum(parts.values())}


def times_by_module(profile: cProfile.Profile) -> dict[str, float]:
    """Seconds by module; functions in C count for the module that calls them."""
    times: dict[str, float] = {}
    for entry in profile.getstats():
        function = entry.code
        if not isinstance(function, str):
            add(times, module(function.co_filename), entry.inlinetime)
            for call in entry.calls or ():
                if isinstance(call.code, str):
                    name = native(call.code) or module(function.co_filename)
                    add(times, name, call.inlinetime)
    return times


def add(times: dict[str, float], name: str, seconds: float) -> None:
    """Add to the time of a name."""
    times[name] = times.get(name, 0.0) + seconds


def module(file: str) -> str:
    """Name the module of a file, or the package where it is not ours.

    >>> module("/src/gpt_oss_harmony/rendering/renderer.py")
    '`renderer.py`'
    """
    path = Path(file)
    if "gpt_oss_harmony" in path.parts:
        return f"`{path.name}`"
    return "pydantic" if "pydantic" in path.parts else REST


def native(function: str) -> str | None:
    """Name the package of a function in Rust."""
    if "CoreBPE" in function:
        return "tiktoken, in Rust"
    return "pydantic, in Rust" if "pydantic_core" in function else None


class _Empty:
    """A method that does nothing, which the loop of `process` calls."""

    __slots__ = ()

    def process(self, token: int) -> None:
        """Do nothing."""


def stream_parts() -> dict[str, float]:
    """Shares of what streaming is made of, by leaving parts out."""
    tokens = text_completion("English", 12)
    empty = per_token(call_empty, tokens) / per_token(stream, tokens)
    return {
        "the loop and the call of an empty method": empty,
        "what `process` does, and the text of the messages": 1 - empty,
    }


def call_empty(tokens: list[int]) -> int:
    """The loop of `process` with nothing in it."""
    feed = _Empty().process
    for token in tokens:
        feed(token)
    return len(tokens)


def per_token(work: Callable[[list[int]], int], tokens: list[int]) -> float:
    """Median of seconds per token."""
    work(tokens)
    runs = []
    for _ in range(5 * RUNS):
        gc.collect()
        start = time.perf_counter()
        units = work(tokens)
        runs.append((time.perf_counter() - start) / units)
    return median(runs)


if __name__ == "__main__":
    for item in breakdown():
        print(f"{item['work']:30} {100 * item['share']:5.1f}%  {item['part']}")
