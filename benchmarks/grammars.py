"""Masks and compilations of grammars, beside xgrammar's: one table.

A row has what ours takes, what xgrammar takes for our structural tag, and the most that we accept
of ours. xgrammar runs in an interpreter of its own, which ``make`` installs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.measure import ROOT, versions

__all__ = ["HEADINGS", "cells", "grammar_rows", "grammars"]

HEADINGS = ("work", "unit", "ours", "xgrammar", "limit")
LIMITS = {"mask, median": 20, "mask, p99": 200, "12 tools": 10, "128 tools": 50}
ENGINES = ("llguidance", "xgrammar")
XGRAMMAR = ".venv-xgrammar"

Measured = dict[str, dict[str, Any]]
"""What `benchmarks.grammar_worker` prints, by engine."""


def grammars() -> dict[str, Any]:
    """Measure both engines; return what the JSON file holds."""
    pythons = {"ours": Path(sys.executable)}
    theirs = _xgrammar_python()
    if theirs is None:
        print("xgrammar cannot be installed here", file=sys.stderr)
    else:
        pythons["xgrammar"] = theirs
    measured = {engine: _measured(python, engine) for engine, python in pythons.items()}
    return {
        "packages": {engine: versions(ENGINES, python) for engine, python in pythons.items()},
        "rows": [dict(zip(HEADINGS, row, strict=True)) for row in grammar_rows(measured)],
    }


def _xgrammar_python() -> Path | None:
    """Have its environment made; None when it cannot be had."""
    made = subprocess.run(["make", f"{XGRAMMAR}/.installed"], cwd=ROOT, capture_output=True)
    return ROOT / XGRAMMAR / "bin" / "python" if made.returncode == 0 else None


def _measured(python: Path, engine: str) -> dict[str, Any]:
    command = [str(python), "-m", "benchmarks.grammar_worker", engine]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    found: dict[str, Any] = json.loads(output)
    return found


def grammar_rows(measured: Measured) -> Iterator[tuple[str, str, float, float | None, int | None]]:
    """Make rows of what was measured."""
    for name in measured["ours"]["masks"]:
        for kind, summary in (("median", median), ("p99", _p99)):
            numbers = {
                engine: 1e6 * summary(found["masks"][name]) for engine, found in measured.items()
            }
            limit = LIMITS.get(f"mask, {kind}")
            yield f"mask, {name}: {kind}", "µs", numbers["ours"], numbers.get("xgrammar"), limit
    for name in measured["ours"]["compilations"]:
        for work, steps in (("write and compile", ("write", "compile")), ("compile", ("compile",))):
            numbers = {
                engine: sum(1e3 * median(found["compilations"][name][step]) for step in steps)
                for engine, found in measured.items()
            }
            limit = LIMITS.get(name) if "write" in steps else None
            yield f"{work} {name}", "ms", numbers["ours"], numbers.get("xgrammar"), limit


def _p99(seconds: list[float]) -> float:
    return quantiles(seconds, n=100)[-1]


def cells(row: dict[str, Any]) -> list[str]:
    """Write the texts of a row.

    >>> cells({"work": "w", "unit": "µs", "ours": 12.34, "xgrammar": None, "limit": 10})
    ['w', 'µs', '12.3', '–', '10 (above)']
    """
    limit = _shown(row["limit"])
    if row["limit"] is not None and row["ours"] > row["limit"]:
        limit += " (above)"
    return [row["work"], row["unit"], _shown(row["ours"]), _shown(row["xgrammar"]), limit]


def _shown(number: float | None) -> str:
    if number is None:
        return "–"
    rounded = float(f"{number:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"
