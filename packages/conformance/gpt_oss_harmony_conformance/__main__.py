"""``harmony conformance run``: how far an implementation of harmony passes the conformance kit."""

from __future__ import annotations

import argparse
import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..conformance import (
    LEVELS,
    Adapter,
    AdapterError,
    CommandAdapter,
    ModuleAdapter,
    Suite,
    UrlAdapter,
    Verdict,
    differing_lines,
    judge,
    read_suite,
)
from .command import Command, keep_old_name
from .input import InputError, UsageError
from .options import add_color, positive
from .output import Output

__all__ = ["CONFORMANCE"]

_OUTCOMES = ("passed", "failed", "unsupported")
_COLUMN = 60


class _Conformance(Command):
    name = "conformance"
    purpose = "check what a model writes"
    summary = "test an implementation of harmony with the conformance kit"
    examples = """\
  harmony conformance run --command './adapter'
  harmony conformance run --module packages/conformance/adapters/ours.py --level format
  harmony conformance run --url http://localhost:8000/v1/tokens --diff
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
        run = actions.add_parser(
            "run", help="run the cases", description="Run the cases of the kit."
        )
        adapter = run.add_mutually_exclusive_group(required=True)
        adapter.add_argument(
            "--command",
            dest="adapter_command",
            metavar="COMMAND",
            help="test a program that reads a line of JSON and writes one, for each case",
        )
        adapter.add_argument(
            "--url", help="test a server: chat requests go to URL/render, tokens to URL/parse"
        )
        module = adapter.add_argument(
            "--module",
            "--python",
            metavar="MODULE",
            help="test a Python module, or a file, with the function answer(request)",
        )
        keep_old_name(module, "--python")
        run.add_argument(
            "--model", metavar="NAME", help="the server's name for the model (with --url)"
        )
        run.add_argument(
            "--suite",
            type=Path,
            metavar="FOLDER",
            help="the folder of the kit (default: the installed package, or ./conformance)",
        )
        run.add_argument(
            "--level",
            action="append",
            default=[],
            choices=LEVELS,
            help="run the cases of this level; repeatable (default: all levels)",
        )
        run.add_argument(
            "--rule",
            action="append",
            default=[],
            metavar="ID",
            help="run the cases of this rule; repeatable (default: all rules)",
        )
        report = run.add_argument(
            "--output", "--json", type=Path, metavar="FILE", help="write a report, as JSON"
        )
        keep_old_name(report, "--json")
        run.add_argument("--diff", action="store_true", help="show failed cases side by side")
        run.add_argument(
            "--timeout",
            type=positive,
            default=60,
            metavar="SECONDS",
            help="the longest wait for one answer (default: 60)",
        )
        add_color(run)

    def run(self, arguments: argparse.Namespace) -> None:
        suite = read_suite(arguments.suite)
        cases = suite.chosen(arguments.level, arguments.rule)
        if not cases:
            raise UsageError("no case is in the chosen level and rule; leave one out")
        adapter = _adapter(arguments)
        try:
            described = _description(adapter)
            verdicts = [judge(case, adapter) for case in cases]
        finally:
            adapter.close()
        output = Output(arguments.color)
        if arguments.diff:
            for verdict in verdicts:
                if verdict.outcome == "failed":
                    _write_difference(verdict, output)
        _write_table(suite, verdicts, output)
        if arguments.output is not None:
            report = _report(suite, described, verdicts)
            arguments.output.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n")
        counts = Counter(verdict.outcome for verdict in verdicts)
        if counts["failed"]:
            raise InputError(f"{counts['failed']} of {len(cases)} cases failed")
        if not counts["passed"]:
            raise InputError("the implementation supports none of the cases")


CONFORMANCE = _Conformance()


def _adapter(arguments: argparse.Namespace) -> Adapter:
    if arguments.url is not None:
        return UrlAdapter(arguments.url, arguments.model, arguments.timeout)
    if arguments.module is not None:
        return ModuleAdapter(arguments.module)
    return CommandAdapter(shlex.split(arguments.adapter_command), arguments.timeout)


def _description(adapter: Adapter) -> Mapping[str, Any]:
    try:
        return adapter.answer({"operation": "describe"})
    except AdapterError as error:
        raise InputError(f"the adapter did not describe itself: {error}") from error


def _write_difference(verdict: Verdict, output: Output) -> None:
    output.line(f"{verdict.case.id}: {verdict.problem}", "title")
    rows = list(differing_lines(verdict))
    if rows:
        output.line(f"  {'expected':{_COLUMN}} | answered", "marker")
    for mark, left, right in rows:
        start = _first_difference(left, right) if mark else 0
        style = "repair" if mark else "marker"
        output.line(f"{mark:1} {_cut(left, start):{_COLUMN}} | {_cut(right, start)}", style)
    output.line()


def _first_difference(left: str, right: str) -> int:
    """Where two long lines begin to differ, with some text before it."""
    same = next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), 0)
    return max(0, same - 20) if max(len(left), len(right)) > _COLUMN else 0


def _cut(line: str, start: int) -> str:
    shown = ("…" if start else "") + line[start:]
    return shown if len(shown) <= _COLUMN else shown[: _COLUMN - 1] + "…"


def _write_table(suite: Suite, verdicts: Sequence[Verdict], output: Output) -> None:
    counts: dict[str, Counter[str]] = {}
    for verdict in verdicts:
        for name in (verdict.case.rule, verdict.case.level):
            counts.setdefault(name, Counter())[verdict.outcome] += 1
    width = max(len(rule["id"]) for rule in suite.rules) + 2
    output.line(f"{'':{width}}" + "".join(f"{name:>13}" for name in _OUTCOMES), "marker")
    for level in LEVELS:
        if level not in counts:
            continue
        _write_row(level, counts[level], width, output, "title")
        for rule in suite.rules:
            if rule["level"] == level and rule["id"] in counts:
                row = counts[rule["id"]]
                style = "repair" if row["failed"] else ""
                _write_row(f"  {rule['id']}", row, width, output, style)


def _write_row(name: str, row: Counter[str], width: int, output: Output, style: str) -> None:
    cells = "".join(f"{row[outcome] or '':>13}" for outcome in _OUTCOMES)
    output.line(f"{name:{width}}{cells}".rstrip(), style)


def _report(
    suite: Suite, described: Mapping[str, Any], verdicts: Sequence[Verdict]
) -> dict[str, Any]:
    return {
        "specification": suite.version,
        "implementation": described,
        "counts": Counter(verdict.outcome for verdict in verdicts),
        "results": [
            {
                "id": verdict.case.id,
                "rule": verdict.case.rule,
                "level": verdict.case.level,
                "outcome": verdict.outcome,
                "problem": verdict.problem,
                **({"answer": verdict.answer} if verdict.outcome == "failed" else {}),
            }
            for verdict in verdicts
        ],
    }
