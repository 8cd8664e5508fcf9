"""Run the linter, the formatter's check and the type checkers: ``make check``.

``check_code.py ruff`` runs the tools of that name alone: ``make lint``. Each tool gets a line that
says what it checked and what came of it. All tools run, also after one that failed; what a tool
prints is shown where it fails, with what to do about it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent


class Tool(NamedTuple):
    """A program that checks the code."""

    command: str
    checks: str
    remedy: str


TOOLS = (
    Tool("ruff check", "rules of the code", "run `make format`; change what is left by hand"),
    Tool("ruff format --check", "layout of the code", "run `make format`"),
    Tool("mypy", "types", "change the code or its annotations"),
    Tool(
        "npm run --prefix tests/page --silent check",
        "types of the inspector's page",
        "change the scripts in src/gpt_oss_harmony/inspector/page",
    ),
)


def main(names: Sequence[str] = ()) -> int:
    """Run the tools of these names, or all; return 1 if one fails."""
    tools = [tool for tool in TOOLS if not names or tool.command.split()[0] in names]
    failures = [tool.checks for tool in tools if not passes(tool)]
    if failures:
        print(f"failed: {', '.join(failures)}")
    return 1 if failures else 0


def passes(tool: Tool) -> bool:
    """Run a tool; say what it checks before, and what came of it afterwards."""
    program, *arguments = tool.command.split()
    path = shutil.which(program, path=BIN) or shutil.which(program)
    if path is None:
        print(f"skipped  {tool.checks}: {program} is not installed", flush=True)
        return True
    print(f"...      {tool.checks}: {tool.command}", flush=True)
    start = time.monotonic()
    done = subprocess.run(
        [path, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    seconds = time.monotonic() - start
    if done.returncode:
        print(done.stdout.rstrip())
        print(f"FAILED   {tool.checks} ({seconds:.0f} s): {tool.remedy}", flush=True)
        return False
    (*_, summary) = ["no errors", *done.stdout.splitlines()]
    print(f"ok       {tool.checks} ({seconds:.0f} s): {summary}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
