"""Score public suites of JSON Schema: ``make schemas SUITES=folder``.

The folder holds clones of two repositories, or one of them: ``JSON-Schema-Test-Suite`` (drafts
2020-12 and 7, all groups) and ``jsonschemabench`` (every sixth file of MaskBench that has tests).
Prints a table for each, with our grammars, llguidance and xgrammar side by side.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import multiprocessing
import os
import sys
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from schema_scores import (
    Accepts,
    Refused,
    Score,
    in_llguidance,
    in_our_grammar,
    in_our_loosened_grammar,
    in_xgrammar,
)

ENGINES = {
    "ours": in_our_grammar,
    "ours, loosened": in_our_loosened_grammar,
    "llguidance": in_llguidance,
    "xgrammar": in_xgrammar,
}
DRAFTS = ("draft2020-12", "draft7")
EVERY = 6
SECONDS = 30


class Case(NamedTuple):
    """A schema, and texts that it allows and forbids."""

    schema: Any
    valid: list[list[str]]
    """Each value in some spellings, one of which must be accepted."""
    invalid: list[str]


class Result(NamedTuple):
    """The numbers of refused valid and accepted invalid values; None if the schema is refused."""

    valid_refused: int
    invalid_accepted: int


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="where the suites lie")
    folder = parser.parse_args().folder
    if folder is None or not folder.is_dir():
        parser.error("name the folder of the suites: make schemas SUITES=folder")
    names = ("llguidance", "xgrammar")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    for title, cases in (
        ("JSON-Schema-Test-Suite", list(test_suite(folder / "JSON-Schema-Test-Suite/tests"))),
        ("JSONSchemaBench", list(bench(folder / "jsonschemabench/maskbench/data"))),
    ):
        if cases:
            print(f"\n{title}, {len(cases):,} schemas ({versions})\n")
            scores = {name: engine_score(name, cases) for name in ENGINES}
            print(table(scores))
    return 0


def test_suite(folder: Path) -> Iterator[Case]:
    """Read the groups of two drafts, with their optional parts and formats."""
    for draft in DRAFTS:
        for path in sorted((folder / draft).rglob("*.json")):
            for group in json.loads(path.read_text(encoding="utf-8")):
                yield case(group["schema"], group["tests"])


def bench(folder: Path) -> Iterator[Case]:
    """Read real schemas that have tests."""
    for path in sorted(folder.glob("*.json"))[::EVERY]:
        entry = json.loads(path.read_text(encoding="utf-8"))
        if entry["tests"]:
            yield case(entry["schema"], entry["tests"])


def case(schema: Any, tests: Iterable[dict[str, Any]]) -> Case:
    """Write the values of tests as JSON."""
    valid: list[list[str]] = []
    invalid: list[str] = []
    for test in tests:
        value = test["data"]
        texts = [json.dumps(value, ensure_ascii=False)]
        if not test["valid"]:
            invalid += texts
            continue
        if isinstance(value, dict):  # engines choose an order of names
            texts.append(json.dumps(dict(reversed(value.items())), ensure_ascii=False))
            texts.append(json.dumps(value, ensure_ascii=False, sort_keys=True))
        if isinstance(value, float) and value.is_integer():
            texts.append(str(int(value)))
        valid.append(texts)
    return Case(schema, valid, invalid)


def engine_score(name: str, cases: list[Case]) -> Score:
    """Score an engine in a process of its own, which is replaced where it hangs or crashes."""
    total = Score(schemas=len(cases))
    worker = Worker(name)
    for item in cases:
        result = worker.result(item)
        if result is None:
            continue
        total.compiled += 1
        total.valid += len(item.valid)
        total.invalid += len(item.invalid)
        total.valid_refused += result.valid_refused
        total.invalid_accepted += result.invalid_accepted
        total.too_strict += result.valid_refused > 0
        total.too_open += result.invalid_accepted > 0
        total.exact += result == (0, 0)
    worker.stop()
    return total


class Worker:
    """Runs one engine, with a limit of time for each schema."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._start()

    def _start(self) -> None:
        self._connection, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(
            target=answer, args=(self._name, theirs), daemon=True
        )
        self._process.start()
        theirs.close()

    def result(self, item: Case) -> Result | None:
        """Return what the engine makes of a schema."""
        try:
            self._connection.send(item)
            if self._connection.poll(SECONDS):
                result: Result | None = self._connection.recv()
                return result
        except (EOFError, OSError):  # it crashed
            pass
        self.stop()
        self._start()
        return None

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def answer(name: str, connection: Connection) -> None:
    """Send the result of each case that comes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    while True:
        item: Case = connection.recv()
        try:
            accepts: Accepts = ENGINES[name](item.schema)
        except Refused:
            connection.send(None)
        else:
            refused = sum(not any(map(accepts, texts)) for texts in item.valid)
            connection.send(Result(refused, sum(map(accepts, item.invalid))))


def table(scores: dict[str, Score]) -> str:
    """Write the table as Markdown."""
    rows = [
        ["", *scores],
        ["---", *["--:"] * len(scores)],
        ["schemas refused", *(f"{score.schemas - score.compiled:,}" for score in scores.values())],
        [
            "schemas enforced, no invalid value accepted",
            *(f"{score.compiled - score.too_open:,}" for score in scores.values()),
        ],
        ["schemas enforced exactly", *(f"{score.exact:,}" for score in scores.values())],
        [
            "invalid values accepted",
            *(f"{score.invalid_accepted:,} of {score.invalid:,}" for score in scores.values()),
        ],
        [
            "valid values refused",
            *(f"{score.valid_refused:,} of {score.valid:,}" for score in scores.values()),
        ],
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
