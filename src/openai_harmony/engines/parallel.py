"""How many threads and processes share a model, and what memory there is for it.

On a CPU, the threads of PyTorch wait for each other after every operation. On busy cores that costs
far more than a second core gains for a small model, so small models get one thread.

Under ``torchrun``, each process has a part of the model. The first process, rank 0, takes requests
and samples; the others only compute (`continuous_batching`).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .engine import EngineError

__all__ = ["Processes", "available_cores", "available_memory", "thread_count"]

_SMALL = 100_000_000  # parameters
_CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")
_EXPERTS = {"num_local_experts": "experts"}
_HEADS = {"num_attention_heads": "attention heads", "num_key_value_heads": "key and value heads"}


def available_cores(cpu_limit: Path = _CPU_LIMIT) -> int:
    """Return how many cores this process may use: those of its affinity, up to a container's limit.

    `cpu_limit` is the file in which Linux keeps that limit.
    """
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        cores = os.cpu_count() or 1
    try:
        quota, period = cpu_limit.read_text("ascii").split()
        return min(cores, max(1, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no such file, or its first word is "max"
        return cores


def available_memory(
    machine: Path = Path("/proc/meminfo"), container: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """Return how many bytes this process may still take; None where the system does not say.

    They are those of the machine, up to the limit of a container.
    """
    try:
        match = re.search(r"^MemAvailable: +(\d+) kB", machine.read_text("ascii"), re.MULTILINE)
    except OSError:  # not on Linux
        return None
    available = None if match is None else 1024 * int(match[1])
    try:
        limit = int((container / "memory.max").read_text("ascii"))
        # Of what the container uses, files that were read are given back when needed.
        statistics = (container / "memory.stat").read_text("ascii")
    except (OSError, ValueError):  # no such file, or its word is "max"
        return available
    used = re.search(r"^anon (\d+)", statistics, re.MULTILINE)
    left = limit - (0 if used is None else int(used[1]))
    return left if available is None else min(available, left)


def thread_count(parameters: int, processes: int = 1) -> int:
    """Return how many threads compute a model on the CPU, in each of some processes.

    Small models get one; others get the available cores, or as many as ``OMP_NUM_THREADS`` says.
    """
    if parameters < _SMALL:
        return 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    # torchrun sets 1 where nothing is set, for each of several processes.
    if given.isdecimal() and int(given) and processes == 1:
        return int(given)
    return max(1, available_cores() // processes)


class Processes(NamedTuple):
    """The processes that ``torchrun`` has started: how many, and the rank of this one."""

    size: int = 1
    rank: int = 0

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Processes:
        """Return those of this process; without ``torchrun`` it is alone."""
        return cls(int(environment.get("WORLD_SIZE", 1)), int(environment.get("RANK", 0)))

    @property
    def is_follower(self) -> bool:
        """Return whether another process takes the requests."""
        return self.rank > 0

    def check_divides(self, model: str, config: Any) -> None:
        """Raise `EngineError` unless the parts of a model can be divided among the processes.

        Experts always are; heads of attention are where the plan of the model's class has them, and
        that of gpt-oss has not.
        """
        plan = getattr(config, "base_model_tp_plan", None) or {}
        has_heads = any("attn" in module for module in plan)
        counts = {
            name: count
            for field, name in {**_EXPERTS, **(_HEADS if has_heads else {})}.items()
            if isinstance(count := getattr(config, field, None), int)
        }
        if any(count % self.size for count in counts.values()):
            largest = math.gcd(*counts.values())
            fitting = [str(size) for size in range(1, largest + 1) if largest % size == 0]
            listed = " and ".join(f"{count} {name}" for name, count in counts.items())
            raise EngineError(
                f"{model} has {listed}, which {self.size} processes cannot divide evenly; start "
                f"{' or '.join(fitting)} with torchrun --nproc-per-node"
            )
