"""``harmony-conformance run``: how far an implementation of harmony passes the conformance kit.

Exit codes: 0, or 1 if a case failed or the kit cannot run, 2 for wrong usage, 130 after Ctrl-C,
141 if the reader of the output has closed it. Every error is one line on standard error.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from . import FOLDER
from .runner import (
    LEVELS,
    Adapter,
    AdapterError,
    CommandAdapter,
    KitError,
    ModuleAdapter,
    Suite,
    UrlAdapter,
    Verdict,
    differing_lines,
    judge,
    read_suite,
)

__all__ = ["main"]

_FAILED = 1
_BAD_USAGE = 2
_INTERRUPTED = 130  # 128 and the number of SIGINT, as shells have it
_READER_GONE = 141  # the same with SIGPIPE

_KEY = "OPENAI_API_KEY"

_OUTCOMES = ("passed", "failed", "unsupported")
_COLUMN = 60

_EXAMPLES = """\
examples:
  harmony-conformance run --command './adapter'
  harmony-conformance run --module my_adapter --level format
  harmony-conformance run --url http://localhost:8000/v1/tokens --diff
"""
_ESCAPED = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) != "\t"
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; `argv` is ``sys.argv[1:]`` unless given."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # the same bytes on every platform
            stream.reconfigure(encoding="utf-8", errors="replace", newline="\n")
    words = (sys.argv[1:] if argv is None else list(argv)) or ["--help"]
    try:
        _run(_command_line().parse_args(words))
        sys.stdout.flush()
    except SystemExit as stop:  # after --help or a usage error
        return stop.code if isinstance(stop.code, int) else _BAD_USAGE
    except KitError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Python would fail again on the buffered output when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _READER_GONE
    return 0


def _fail(problem: str) -> int:
    print(f"harmony-conformance: error: {' '.join(problem.splitlines())}", file=sys.stderr)
    return _FAILED


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Write the error to standard error, and exit."""
        self.exit(_BAD_USAGE, f"harmony-conformance: error: {message}; see '{self.prog} --help'\n")


def _command_line() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="harmony-conformance",
        description="Test an implementation of harmony with the conformance kit.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    run = actions.add_parser(
        "run", help="run the cases", description="Run the cases of the kit.", allow_abbrev=False
    )
    run.set_defaults(parser=run)
    adapter = run.add_mutually_exclusive_group(required=True)
    adapter.add_argument(
        "--command",
        type=_words,
        metavar="COMMAND",
        help="test a program that reads a line of JSON and writes one, for each case",
    )
    adapter.add_argument(
        "--url", help="test a server: chat requests go to URL/render, tokens to URL/parse"
    )
    adapter.add_argument(
        "--module",
        metavar="MODULE",
        help="test a Python module, or a file, with the function answer(request)",
    )
    run.add_argument("--model", metavar="NAME", help="the server's name for the model (with --url)")
    run.add_argument(
        "--api-key",
        metavar="KEY",
        help=f"the server's API key (with --url; default: the variable {_KEY})",
    )
    run.add_argument(
        "--suite",
        type=Path,
        metavar="FOLDER",
        default=FOLDER,
        help="the folder of the kit (default: the installed package)",
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
    run.add_argument("--output", type=Path, metavar="FILE", help="write a report, as JSON")
    run.add_argument("--diff", action="store_true", help="show failed cases side by side")
    run.add_argument(
        "--timeout",
        type=_seconds,
        default=60,
        metavar="SECONDS",
        help="the longest wait for one answer (default: 60)",
    )
    return parser


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"cannot be read: {error}") from error
    if not words:
        raise argparse.ArgumentTypeError("there is no program")
    return words


def _seconds(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer from 1, not {text}")
    return int(text)


def _run(arguments: argparse.Namespace) -> None:
    suite = read_suite(arguments.suite)
    cases = suite.chosen(arguments.level, arguments.rule)
    if not cases:
        arguments.parser.error("no case is in the chosen level and rule; leave one out")
    verdicts: list[Verdict] = []
    results: list[str] = []
    adapter = _adapter(arguments)
    try:
        described = _description(adapter)
        for case in cases:
            verdict = judge(case, adapter)
            if arguments.diff and verdict.outcome == "failed":
                _write_difference(verdict)
            results.append(_json(_result(verdict)))
            verdicts.append(replace(verdict, answer={}))  # as text, it takes less memory
    finally:
        adapter.close()
    _write_table(suite, verdicts)
    counts = Counter(verdict.outcome for verdict in verdicts)
    if arguments.output is not None:
        heads = {
            "specification": suite.version, "implementation": described, "counts": counts,
        }  # fmt: skip
        fields = [f"{_json(name)}: {_json(value)}" for name, value in heads.items()]
        fields.append('"results": [\n  ' + ",\n  ".join(results) + "\n ]")
        report = "{\n " + ",\n ".join(fields) + "\n}\n"
        try:
            arguments.output.write_text(report, encoding="utf-8", errors="replace")
        except OSError as error:
            raise KitError(f"{arguments.output} cannot be written: {error.strerror}") from error
    if counts["failed"]:
        failed = f"{counts['failed']} of {len(cases)} cases failed"
        problems = {verdict.problem for verdict in verdicts if verdict.outcome == "failed"}
        is_of_one_cause = len(problems) == 1 and not any(one.differences for one in verdicts)
        if is_of_one_cause and not counts["passed"]:
            failed += f", each with: {problems.pop()}"
        raise KitError(failed)
    if not counts["passed"]:
        raise KitError("the implementation supports none of the cases")


def _adapter(arguments: argparse.Namespace) -> Adapter:
    if arguments.url is not None:
        key = arguments.api_key or os.environ.get(_KEY) or None
        return UrlAdapter(arguments.url, arguments.model, arguments.timeout, api_key=key)
    if arguments.module is not None:
        return ModuleAdapter(arguments.module, arguments.timeout)
    return CommandAdapter(arguments.command, arguments.timeout)


def _description(adapter: Adapter) -> Mapping[str, Any]:
    try:
        return adapter.answer({"operation": "describe"})
    except AdapterError as error:
        raise KitError(f"the adapter did not describe itself: {error}") from error


def _write_difference(verdict: Verdict) -> None:
    _write(f"{verdict.case.id}: {verdict.problem}")
    rows = list(differing_lines(verdict))
    if rows:
        _write(f"  {'expected':{_COLUMN}} | answered")
    for mark, left, right in rows:
        start = _first_difference(left, right) if mark else 0
        _write(f"{mark:1} {_cut(left, start):{_COLUMN}} | {_cut(right, start)}")
    _write()


def _first_difference(left: str, right: str) -> int:
    """Return where two long lines begin to differ, less some text before it."""
    same = next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), 0)
    return max(0, same - 20) if max(len(left), len(right)) > _COLUMN else 0


def _cut(line: str, start: int) -> str:
    shown = ("…" if start else "") + line[start:]
    return shown if len(shown) <= _COLUMN else shown[: _COLUMN - 1] + "…"


def _write_table(suite: Suite, verdicts: Sequence[Verdict]) -> None:
    counts: dict[str, Counter[str]] = {}
    for verdict in verdicts:
        for name in (verdict.case.rule, verdict.case.level):
            counts.setdefault(name, Counter())[verdict.outcome] += 1
    width = max(len(rule["id"]) for rule in suite.rules) + 2
    _write(f"{'':{width}}" + "".join(f"{name:>13}" for name in _OUTCOMES))
    for level in LEVELS:
        if level not in counts:
            continue
        _write_row(level, counts[level], width)
        for rule in suite.rules:
            if rule["level"] == level and rule["id"] in counts:
                _write_row(f"  {rule['id']}", counts[rule["id"]], width)


def _write_row(name: str, row: Counter[str], width: int) -> None:
    cells = "".join(f"{row[outcome] or '':>13}" for outcome in _OUTCOMES)
    _write(f"{name:{width}}{cells}".rstrip())


def _write(line: str = "") -> None:
    """Write a line; an answer's control codes must not reach a terminal."""
    sys.stdout.write(line.translate(_ESCAPED) + "\n")


def _result(verdict: Verdict) -> dict[str, Any]:
    return {
        "id": verdict.case.id,
        "rule": verdict.case.rule,
        "level": verdict.case.level,
        "outcome": verdict.outcome,
        "problem": verdict.problem,
        **({"answer": verdict.answer} if verdict.outcome == "failed" else {}),
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())
