"""Measure this library, the reference and its fork side by side, and print one table.

    python -m benchmarks.run [--quick] [--rounds N] [--only NAME] [--json PATH] [--update-docs]

A row that is below its floor is marked; the exit status is 0 all the same, since a busy machine
is no fault of the library's. ``--update-docs`` measures everything and brings
docs/understand/benchmarks.md, .json and .svg up to date, with ``--only grammars`` the table of
grammars alone; ``--docs-from-json`` writes the page and the plot again, unmeasured.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import table
from benchmarks.breakdown import breakdown
from benchmarks.grammars import grammars
from benchmarks.measure import (
    PACKAGES,
    ROOT,
    Effort,
    Environments,
    fresh_samples,
    libraries,
    started_workers,
    versions,
    workload_samples,
)
from benchmarks.plot import draw, matplotlib_pyplot
from benchmarks.threads import thread_rows
from benchmarks.workloads import SWEEPS, TEXT_WORKLOADS, WORKLOADS

DOCS = ROOT / "docs" / "understand"

# Lengths in a sweep: those that all libraries do, and those that only ours does, since the cost
# of the peers grows with the square of the length.
SWEEP_SIZES: dict[str, tuple[list[int], list[int]]] = {
    "encode one CJK word of n characters": (
        [1000, 2000, 5000, 10_000, 20_000, 40_000],
        [100_000, 300_000, 1_000_000],
    ),
    "stream one message of n tokens, reading current_content": (
        [500, 1000, 2000, 4000, 8000],
        [30_000, 100_000, 300_000],
    ),
    "render a conversation of n turns": ([1, 3, 10, 30, 100, 300, 1000], []),
}

PARTS = ("rows", "threads", "sweeps", "breakdown", "grammars")

QUICK = Effort(rounds=1, budget=0.2, fewest=1, processes=3, longest=5000)


def main() -> int:
    """Measure, print, and write what was asked for."""
    arguments = parse_arguments()
    if arguments.docs_from_json:
        write_docs(read_json())
        return 0
    if arguments.update_docs:
        matplotlib_pyplot()  # rather miss it now than after the measurements
    effort = QUICK if arguments.quick else Effort(rounds=arguments.rounds)
    data = measure(effort, lambda name: arguments.only in name)
    if not any(data[part] for part in PARTS):
        raise SystemExit(f"nothing has {arguments.only!r} in its name")
    print(table.plain_tables(data))
    if arguments.json:
        write_json(arguments.json, data)
    if arguments.update_docs:
        if arguments.only:
            data = {**read_json(), "grammars": data["grammars"]}
        write_json(DOCS / "benchmarks.json", data)
        write_docs(data)
    return 0


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few runs, short inputs")
    parser.add_argument("--rounds", type=int, default=Effort.rounds)
    parser.add_argument("--only", default="", metavar="NAME", help="what has NAME in its name")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the numbers there")
    parser.add_argument("--update-docs", action="store_true", help="and write the page, too")
    parser.add_argument("--docs-from-json", action="store_true", help="write only the page")
    arguments = parser.parse_args()
    if arguments.update_docs and (arguments.quick or arguments.only not in ("", "grammars")):
        parser.error("the page shows a whole run: leave --quick and --only out")
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    return arguments


def measure(effort: Effort, is_wanted: Callable[[str], bool]) -> dict[str, Any]:
    """Measure what is wanted; return what the JSON file holds."""
    environments = libraries()
    measured_on = machine(environments)
    rows = list(workload_rows(environments, effort, is_wanted))
    if gain := table.speedup(rows):
        rows.append(gain)
    rows += process_rows(environments, effort, is_wanted)
    rows += text_rows(environments, effort, is_wanted)
    return {
        "machine": measured_on,
        "rows": [row.to_dict() for row in rows],
        "threads": thread_rows(5 * effort.rounds) if is_wanted("threads") else [],
        "sweeps": {name: sweep(environments, name, effort) for name in SWEEPS if is_wanted(name)},
        "breakdown": breakdown() if is_wanted("breakdown") else [],
        "grammars": measured_grammars() if is_wanted("grammars") else None,
    }


def measured_grammars() -> dict[str, Any]:
    """Measure masks and compilations."""
    progress("grammars")
    measured_on = machine({})
    found = grammars()
    return {"machine": {**measured_on, "packages": found["packages"]}, "rows": found["rows"]}


def workload_rows(
    environments: Environments, effort: Effort, is_wanted: Callable[[str], bool]
) -> Iterator[table.Row]:
    """Measure one workload after the other."""
    for name in filter(is_wanted, WORKLOADS):
        progress(name)
        with started_workers(environments) as workers:
            yield table.row(name, workload_samples(workers, name, None, effort))


def text_rows(
    environments: Environments, effort: Effort, is_wanted: Callable[[str], bool]
) -> Iterator[table.Row]:
    """Measure parsing and decoding of several texts, all in the same processes."""
    names = [name for name in TEXT_WORKLOADS if is_wanted(name)]
    with started_workers(environments if names else {}) as workers:
        for name in names:
            progress(name)
            yield table.row(name, workload_samples(workers, name, None, effort))


def process_rows(
    environments: Environments, effort: Effort, is_wanted: Callable[[str], bool]
) -> Iterator[table.Row]:
    """Measure what new processes take."""
    for stage, time_name, memory_name in (
        ("parse", table.FIRST_PARSE, None),
        ("load", None, table.MEMORY_LOADED),
        ("render", table.FIRST_RENDER, table.MEMORY_RENDERED),
    ):
        names = [name for name in (time_name, memory_name) if name and is_wanted(name)]
        if not names:
            continue
        progress(", ".join(names))
        seconds, memory = fresh_samples(environments, stage, effort.processes)
        for name in names:
            yield table.row(name, seconds if name == time_name else memory)


def sweep(
    environments: Environments, name: str, effort: Effort
) -> dict[str, list[tuple[int, float]]]:
    """Measure one work at growing lengths: library to pairs of length and seconds."""
    effort = replace(effort, rounds=min(3, effort.rounds), budget=effort.budget / 5, fewest=1)
    points: dict[str, list[tuple[int, float]]] = {library: [] for library in environments}
    shared, ours_alone = SWEEP_SIZES[name]
    for size in (size for size in shared + ours_alone if size <= effort.longest):
        progress(f"{name}: {size:,}")
        wanted = environments if size in shared else {"ours": environments["ours"]}
        with started_workers(wanted) as workers:
            samples = workload_samples(workers, name, size, effort)
        for library, seconds in samples.runs.items():
            points[library].append((size, median(seconds)))
    return points


def machine(environments: Environments) -> dict[str, Any]:
    """Where, when and with what is measured."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "packages": {
            library: versions(PACKAGES[library], environment=environment)
            for library, environment in environments.items()
        },
        "date": datetime.date.today().isoformat(),
    }


def cpu_model() -> str:
    """The processor's name, as Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def read_json() -> dict[str, Any]:
    """Read the numbers of the page."""
    found: dict[str, Any] = json.loads((DOCS / "benchmarks.json").read_text(encoding="utf-8"))
    return found


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write the numbers."""
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_docs(data: dict[str, Any]) -> None:
    """Write the plot, and the tables of the page and of the README."""
    draw(data["sweeps"], DOCS / "benchmarks.svg")
    table.update_page(DOCS / "benchmarks.md", data)
    table.update_page(ROOT / "README.md", data, table.README_SECTIONS)


def progress(text: str) -> None:
    """Tell what is measured now."""
    print(f"… {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
