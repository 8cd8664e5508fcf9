"""The threads and processes that share a model, and the available memory.

On a CPU, the threads of PyTorch wait for each other after every operation. For a small model on
busy cores, this costs far more than a second core gains, so small models get one thread.

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

_SMALL = 100_000_000  # parameters
_CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")
_EXPERTS = {"num_local_experts": "experts"}
_HEADS = {"num_attention_heads": "attention heads", "num_key_value_heads": "key and value heads"}


def available_cores(cpu_limit: Path = _CPU_LIMIT) -> int:
    """Return how many cores this process may use: its affinity, up to a container's limit.

    `cpu_limit` is the file in which Linux stores the limit.
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
    """Return how many bytes this process can still use; None if the system does not report it.

    This is the free memory of the machine, up to the limit of a container.
    """
    try:
        match = re.search(r"^MemAvailable: +(\d+) kB", machine.read_text("ascii"), re.MULTILINE)
    except OSError:  # not on Linux
        return None
    available = None if match is None else 1024 * int(match[1])
    try:
        limit = int((container / "memory.max").read_text("ascii"))
        # The kernel frees the container's file cache when memory is needed.
        statistics = (container / "memory.stat").read_text("ascii")
    except (OSError, ValueError):  # no such file, or its word is "max"
        return available
    used = re.search(r"^anon (\d+)", statistics, re.MULTILINE)
    left = limit - (0 if used is None else int(used[1]))
    return left if available is None else min(available, left)


def thread_count(parameters: int, processes: int = 1) -> int:
    """Return how many threads compute a model on the CPU in each of several processes.

    Small models get one thread. Others get the available cores, or the number in
    ``OMP_NUM_THREADS``.
    """
    if parameters < _SMALL:
        return 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    # torchrun sets OMP_NUM_THREADS to 1 for each of several processes, unless it is set.
    if given.isdecimal() and int(given) and processes == 1:
        return int(given)
    return max(1, available_cores() // processes)


class Processes(NamedTuple):
    """The number of processes that ``torchrun`` started, and the rank of this one."""

    size: int = 1
    rank: int = 0

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Processes:
        """Read the environment; without ``torchrun``, this process is the only one."""
        return cls(int(environment.get("WORLD_SIZE", 1)), int(environment.get("RANK", 0)))

    @property
    def is_follower(self) -> bool:
        """Return whether another process takes the requests."""
        return self.rank > 0

    def check_divides(self, model: str, config: Any) -> None:
        """Raise `EngineError` unless the parts of a model can be divided among the processes.

        Experts are always divided. Attention heads are divided if the plan of the model's class
        contains them; the plan of gpt-oss does not.
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
