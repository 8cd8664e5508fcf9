"""Time workloads with whatever `openai_harmony` this interpreter imports: ours, or a peer.

Reads one JSON request a line, ``{"name", "size", "first", "count"}``: a workload, or a sweep where
`size` is a number, and which runs of it. Answers ``{"name", "unit", "units", "runs"}``: seconds
per unit of each run, and how many units the last one did.
"""

from __future__ import annotations

import functools
import gc
import json
import sys
import time
from typing import Any

from benchmarks.workloads import SWEEPS, TEXT_WORKLOADS, WORKLOADS, Workload


@functools.cache
def workload(name: str, size: int | None) -> Workload:
    """Make a workload once: some of them grow from run to run."""
    return (WORKLOADS | TEXT_WORKLOADS)[name]() if size is None else SWEEPS[name](size)


def timed(item: Workload, run: int) -> tuple[float, int]:
    """Do one run; return its seconds and its units.

    Garbage is collected before, and not meanwhile, as `timeit` does it; the input is made last,
    so that it is as close to the processor as a server's request is.
    """
    gc.collect()
    gc.disable()
    value = item.prepare(run)
    start = time.perf_counter()
    units = item.work(value)
    seconds = time.perf_counter() - start
    gc.enable()
    return seconds, units


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Do the runs that a request asks for."""
    item = workload(request["name"], request["size"])
    first = request["first"]
    runs = [timed(item, run) for run in range(first, first + request["count"])]
    return {
        "name": request["name"],
        "unit": item.unit,
        "units": runs[-1][1],
        "runs": [seconds / units for seconds, units in runs],
    }


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
