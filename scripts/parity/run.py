"""Compare this library with the reference and its fork on generated cases.

    python scripts/parity/run.py --cases 2000 [--seed 1]

The peers run in virtual environments of their own, which `peers` makes on the first run.
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from cases import Case, cases
from divergences import explain
from peers import PEERS, peer_environment, peer_python

__all__ = ["PEERS", "Worker", "compare", "peer_python"]

WORKER = Path(__file__).with_name("worker.py")
BATCH = 200


class Worker:
    """One interpreter that answers cases."""

    def __init__(self, python: Path, options: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [str(python), str(WORKER), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=peer_environment(python),
            text=True,
        )

    def answer(self, batch: list[Case]) -> list[Any]:
        """Answer one by one: neither pipe can fill up and block the other side."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        answers = []
        for case in batch:
            stdin.write(json.dumps(case) + "\n")
            stdin.flush()
            line = stdout.readline()
            if not line:
                raise SystemExit(f"a worker died on: {json.dumps(case)[:2000]}")
            answers.append(json.loads(line))
        return answers

    def close(self) -> None:
        """End the interpreter."""
        self._process.communicate()


def compare(peer: str, python: Path, seed: int, count: int) -> tuple[int, collections.Counter[str]]:
    """Run the cases on both sides; print each unexplained mismatch and count them all."""
    style = "reference" if peer == "reference" else "oss-harmony"
    options = {"schema_dialect": "reference", "header_style": style}
    ours, theirs = Worker(Path(sys.executable), options), Worker(python, {})
    counts: collections.Counter[str] = collections.Counter()
    mismatches = 0
    drawn = cases(seed, count)
    if peer == "fork":  # what the fork changes is the spelling of headers
        drawn = (case for case in drawn if case["kind"] == "render")
    for batch in batches(drawn):
        for case, mine, other in zip(batch, ours.answer(batch), theirs.answer(batch), strict=True):
            counts[case["kind"]] += 1
            if mine == other:
                continue
            reason = explain(case, mine, other)
            counts[f"divergence: {reason}"] += 1
            if reason is None:
                mismatches += 1
                if mismatches <= 5:
                    report(case, mine, other)
    ours.close()
    theirs.close()
    return mismatches, counts


def batches(drawn: Iterator[Case]) -> Iterator[list[Case]]:
    while batch := list(islice(drawn, BATCH)):
        yield batch


def report(case: Case, mine: Any, other: Any) -> None:
    print("MISMATCH", json.dumps(case)[:1500])
    if case["kind"] == "stream" and "seen" in mine and "seen" in other:
        for at, (a, b) in enumerate(zip(mine["seen"], other["seen"], strict=False)):
            if a != b:
                print("  first difference after token", at - 1)
                mine, other = a, b
                break
        else:
            mine.pop("seen")
            other.pop("seen")
    print("  ours:  ", json.dumps(mine)[:1500])
    print("  theirs:", json.dumps(other)[:1500])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peer", choices=[*PEERS, "both"], default="both")
    arguments = parser.parse_args()
    failed = False
    for peer in PEERS if arguments.peer == "both" else [arguments.peer]:
        python = peer_python(peer)
        if python is None:
            print(f"{peer}: {PEERS[peer]} cannot be installed here; not compared")
            continue
        start = time.monotonic()
        mismatches, counts = compare(peer, python, arguments.seed, arguments.cases)
        total = sum(n for name, n in counts.items() if not name.startswith("divergence"))
        print(f"{peer}: {total} cases, {mismatches} mismatches ({time.monotonic() - start:.0f} s)")
        for name, number in sorted(counts.items()):
            print(f"  {number:7} {name}")
        failed |= mismatches > 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
