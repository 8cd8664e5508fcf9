"""Compare this library with the reference and its fork on generated cases.

    python scripts/parity/run.py --cases 2000 [--seed 1] [--jobs 2]

The peers run in virtual environments of their own, which `peers` makes on the first run. The fork
answers a tenth of the cases, all of them renderings: the spelling of headers is what it changes.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import worker
from cases import Case, case
from divergences import explain
from peers import PEERS, peer_environment, peer_python

__all__ = ["PEERS", "Worker", "compare", "peer_python"]

Counts: TypeAlias = collections.Counter[str]

BATCH = 100
MOST_REPORTS = 5
UNEXPLAINED = "MISMATCH"


class Worker:
    """A peer's interpreter, which answers cases."""

    def __init__(self, python: Path) -> None:
        self._process = subprocess.Popen(
            [str(python), worker.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=peer_environment(python),
            text=True,
        )

    def send(self, batch: list[Case], *, whole: bool = False) -> None:
        """Hand over a batch; the peer reads all of it before it answers, so no pipe is blocked."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"cases": batch, "whole": whole}) + "\n")
        self._process.stdin.flush()

    def receive(self) -> list[Any]:
        """Wait for the answers to the last batch."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a peer's interpreter died")
        answers: list[Any] = json.loads(line)
        return answers

    def answer(self, one: Case) -> Any:
        """The whole answer to one case, and the words of its errors."""
        self.send([one], whole=True)
        return self.receive()[0]

    def close(self) -> None:
        """End the interpreter."""
        self._process.communicate()


def compare(peer: str, python: Path, seed: int, count: int, jobs: int = 1) -> Counts:
    """Run the cases on both sides, print mismatches, and count cases and named differences."""
    shares = [range(job, -(-count // BATCH), jobs) for job in range(jobs)]
    work = [(peer, python, seed, count, share) for share in shares]
    if jobs == 1:
        return compare_share(*work[0])
    with ProcessPoolExecutor(jobs) as pool:
        return sum(pool.map(compare_share, *zip(*work, strict=True)), collections.Counter())


def compare_share(peer: str, python: Path, seed: int, count: int, share: range) -> Counts:
    """Compare some batches of the cases; the peer answers a batch while we answer it as well."""
    style = "reference" if peer == "reference" else "oss-harmony"
    worker.OPTIONS.update(schema_dialect="reference", header_style=style)
    only = "" if peer == "reference" else "render"
    theirs = Worker(python)
    counts: Counts = collections.Counter()
    for number in share:
        numbers = range(number * BATCH, min(count, (number + 1) * BATCH))
        # As the peer gets them: what JSON cannot keep must not make a difference.
        batch = json.loads(json.dumps([case(seed, at, only=only) for at in numbers]))
        theirs.send(batch)
        mine = [worker.digest(worker.answer(one)) for one in batch]
        for one, my_digest, other_digest in zip(batch, mine, theirs.receive(), strict=True):
            counts[one["name"]] += 1
            if not agree(my_digest, other_digest):
                counts.update(judge(one, theirs, quiet=counts[UNEXPLAINED] >= MOST_REPORTS))
    theirs.close()
    return counts


def agree(mine: Any, other: Any) -> bool:
    """Compare answers, or their digests; our errors may say more than theirs."""
    return bool(
        mine[0] == other[0]
        and len(mine[1]) == len(other[1])
        and all(map(str.startswith, mine[1], other[1]))
    )


def judge(one: Case, theirs: Worker, *, quiet: bool) -> list[str]:
    """Name the differences that explain a mismatch, or report it."""
    mine = json.loads(json.dumps(worker.answer(one)))
    names = explain(one, mine, theirs.answer, agree)
    if names is None and not quiet:
        report(one, mine, theirs.answer(one))
    return [UNEXPLAINED] if names is None else [f"divergence: {name}" for name in names]


def report(one: Case, mine: Any, other: Any) -> None:
    print(UNEXPLAINED, json.dumps(one)[:3000])
    for my_words, other_words in itertools.zip_longest(mine[1], other[1]):
        if my_words is None or other_words is None or not my_words.startswith(other_words):
            print("  our words:  ", my_words)
            print("  their words:", other_words)
            break
    mine, other = mine[0], other[0]
    if one["kind"] == "stream":
        for at, (a, b) in enumerate(zip(mine["seen"], other["seen"], strict=False)):
            if a != b:
                print(
                    "  first difference after",
                    at,
                    "tokens:",
                    [key for key in a if a[key] != b.get(key)],
                )
                mine, other = a, b
                break
    if mine != other:
        print("  ours:  ", json.dumps(mine)[:1500])
        print("  theirs:", json.dumps(other)[:1500])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peer", choices=[*PEERS, "both"], default="both")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    failed = False
    for peer in PEERS if arguments.peer == "both" else [arguments.peer]:
        python = peer_python(peer)
        if python is None:
            print(f"{peer}: {PEERS[peer]} cannot be installed here; not compared")
            continue
        start = time.monotonic()
        count = arguments.cases if peer == "reference" else max(1, arguments.cases // 10)
        counts = compare(peer, python, arguments.seed, count, arguments.jobs)
        seconds = time.monotonic() - start
        print(
            f"{peer}: {count} cases, {counts[UNEXPLAINED]} mismatches"
            f" ({seconds:.0f} s, {count / seconds:.0f} cases a second)"
        )
        for name, number in sorted(counts.items()):
            print(f"  {number:8} {name}")
        failed |= counts[UNEXPLAINED] > 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
