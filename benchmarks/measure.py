"""Run workloads and new processes with each library in turn.

What disturbs the machine for a while then disturbs all libraries alike, and the median of many
runs forgets it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts" / "parity"))

from peers import PEERS, ROOT, peer_environment, peer_folder, write_vocabulary

__all__ = [
    "PACKAGES",
    "ROOT",
    "Effort",
    "Environments",
    "Samples",
    "fresh_samples",
    "libraries",
    "started_workers",
    "versions",
    "workload_samples",
    "write_vocabulary",
]

FRESH = Path(__file__).with_name("fresh.py")
PACKAGES = {
    "ours": ("gpt-oss-harmony", "pydantic", "tiktoken"),
    "reference": ("openai-harmony", "pydantic"),
    "fork": ("oss-harmony", "pydantic"),
}
"""The packages that matter, by library."""

MOST_RUNS = 7  # of a workload in a round

Environments: TypeAlias = dict[str, dict[str, str]]
"""Environment variables, by the library that `openai_harmony` is with them."""


@dataclass(frozen=True)
class Effort:
    """How much is measured, by each library."""

    rounds: int = 5
    budget: float = 0.5
    """Seconds of a workload in a round, about."""
    fewest: int = 3
    """Runs of a workload, however long they take."""
    processes: int = 11
    """New processes for each thing that these do."""
    longest: int = 1_000_000
    """Length of an input."""

    def plan(self, slowest: float) -> tuple[int, int]:
        """Rounds, and runs in each, of a workload whose run takes so many seconds.

        >>> Effort().plan(0.001), Effort().plan(0.2), Effort().plan(60)
        ((5, 7), (5, 2), (3, 1))
        """
        count = min(MOST_RUNS, int(self.budget / slowest))
        if count:
            return self.rounds, count
        affordable = int(self.rounds * self.budget / slowest)
        return min(self.rounds, max(self.fewest, affordable)), 1


@dataclass
class Samples:
    """What each library took, run by run: library to measurements in `unit`."""

    unit: str
    runs: dict[str, list[float]] = field(default_factory=dict)

    def add(self, library: str, measured: list[float]) -> None:
        """Add measurements of a library."""
        self.runs.setdefault(library, []).extend(measured)


class Worker:
    """One interpreter that times workloads."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment,
            text=True,
        )

    def ask(self, name: str, size: int | None, first: int, count: int) -> dict[str, Any]:
        """Have runs done."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        request = {"name": name, "size": size, "first": first, "count": count}
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise SystemExit(f"the interpreter that ran {name!r} died")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the interpreter."""
        self._process.communicate()


@contextmanager
def started_workers(environments: Environments) -> Iterator[dict[str, Worker]]:
    """Start an interpreter for each library."""
    workers = {library: Worker(environment) for library, environment in environments.items()}
    yield workers
    for worker in workers.values():
        worker.close()


def workload_samples(
    workers: dict[str, Worker], name: str, size: int | None, effort: Effort
) -> Samples:
    """Run one workload in rounds.

    Each library does the same runs, since some inputs grow from run to run. Run 0 is the warm-up
    and does not count.
    """
    warm_up = {library: worker.ask(name, size, 0, 1) for library, worker in workers.items()}
    slowest = max(answer["runs"][0] * answer["units"] for answer in warm_up.values())
    rounds, count = effort.plan(slowest)
    samples = Samples(next(iter(warm_up.values()))["unit"])
    for at in range(rounds):
        for library, worker in workers.items():
            samples.add(library, worker.ask(name, size, 1 + at * count, count)["runs"])
    return samples


def fresh_samples(environments: Environments, stage: str, runs: int) -> tuple[Samples, Samples]:
    """Start new processes that go to a stage: their seconds, and their bytes of memory."""
    seconds, memory = Samples("process"), Samples("bytes")
    for at in range(1 + runs):  # the first may have to compile the modules
        for library, environment in environments.items():
            start = time.perf_counter()
            output = subprocess.run(
                [sys.executable, str(FRESH), stage],
                env=environment,
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            if at:
                seconds.add(library, [time.perf_counter() - start])
                memory.add(library, [float(output)])
    return seconds, memory


def versions(
    packages: Iterable[str],
    python: str | Path = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the versions of packages, where they are installed."""
    code = (
        "import importlib.metadata, json\n"
        "found = importlib.metadata.distributions()\n"
        f"print(json.dumps({{d.name: d.version for d in found if d.name in {set(packages)}}}))"
    )
    output = subprocess.run(
        [str(python), "-c", code], env=environment, check=True, capture_output=True
    ).stdout
    found: dict[str, str] = json.loads(output)
    return dict(sorted(found.items()))


def libraries() -> Environments:
    """Return the environment variables with which `openai_harmony` is ours, or a peer."""
    found: Environments = {"ours": dict(os.environ)}
    for name in PEERS:
        if peer_folder(name) is None:
            print(f"{name}: {PEERS[name]} cannot be installed here", file=sys.stderr)
        else:
            found[name] = peer_environment(name)
    return found
