"""Compare this library with the reference and its fork on generated cases.

    python scripts/parity/run.py --cases 2000 [--seed 1] [--jobs 2] [--only parse]

A process imports one peer beside this library and asks both. `peers` installs the peers on the
first run. The fork answers a tenth of the cases, all of them renderings: the spelling of headers is
what it changes. Our answers to completions are compared with those of our lenient mode as well.
"""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeAlias

from cases import Case, case
from divergences import explain
from library import Library
from modes import compare_modes
from peers import PEERS, import_peer, peer_folder

import gpt_oss_harmony

Counts: TypeAlias = collections.Counter[str]

MOST_REPORTS = 5
UNEXPLAINED = "MISMATCH"
MODES_AGREE, MODES_DIFFER = "the same in strict and in lenient mode", "MODES DIFFER"


def compare(peer: str, seed: int, count: int, jobs: int = 1, only: str = "") -> Counts:
    """Run the cases on both sides, print mismatches, and count cases and named differences."""
    shares = [range(job, count, jobs) for job in range(jobs)]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        found = pool.map(functools.partial(compare_share, peer, seed, only=only), shares)
        return sum(found, collections.Counter())


def compare_share(peer: str, seed: int, share: range, only: str = "") -> Counts:
    """Compare some of the cases, in a process that imports no other peer."""
    module = import_peer(peer)
    assert module is not None
    style = "reference" if peer == "reference" else "oss-harmony"
    ours = Library(gpt_oss_harmony, schema_dialect="reference", header_style=style)
    theirs = Library(module)
    only = only if peer == "reference" else "render"
    counts: Counts = collections.Counter()
    for number in share:
        one = json.loads(json.dumps(case(seed, number, only=only)))  # only what JSON can keep
        counts[one["name"]] += 1
        answer = ours.answer(one)
        mine, other = as_json(answer), as_json(theirs.answer(one))
        if not agree(mine, other):
            counts.update(judge(one, mine, theirs, quiet=counts[UNEXPLAINED] >= MOST_REPORTS))
        for difference in compare_modes(one, answer[0]):
            if difference is not None and counts[MODES_DIFFER] < MOST_REPORTS:
                print(MODES_DIFFER, json.dumps(one)[:3000], difference, sep="\n  ")
            counts[MODES_AGREE if difference is None else MODES_DIFFER] += 1
    return counts


def as_json(answer: Any) -> Any:
    """Return an answer as JSON has it: 1, 1.0 and true differ, lists and tuples do not."""
    what, words = answer
    return [json.dumps(what), words]


def agree(mine: Any, other: Any) -> bool:
    """Compare answers; our errors may say more than theirs."""
    return bool(
        mine[0] == other[0]
        and len(mine[1]) == len(other[1])
        and all(map(str.startswith, mine[1], other[1]))
    )


def judge(one: Case, mine: Any, theirs: Library, *, quiet: bool) -> list[str]:
    """Name the differences that explain a mismatch, or report it."""
    mine = [json.loads(mine[0]), mine[1]]

    def ask(asked: Case) -> Any:
        return json.loads(json.dumps(theirs.answer(asked)))

    names = explain(one, mine, ask, agree)
    if names is None and not quiet:
        report(one, mine, ask(one))
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
    parser.add_argument("--only", default="", help="the kinds of cases whose name begins so")
    arguments = parser.parse_args()
    failed = False
    for peer in PEERS if arguments.peer == "both" else [arguments.peer]:
        if peer_folder(peer) is None:
            print(f"{peer}: {PEERS[peer]} cannot be installed here; not compared")
            continue
        start = time.monotonic()
        count = arguments.cases if peer == "reference" else max(1, arguments.cases // 10)
        counts = compare(peer, arguments.seed, count, arguments.jobs, arguments.only)
        seconds = time.monotonic() - start
        print(
            f"{peer}: {count} cases, {counts[UNEXPLAINED]} mismatches,"
            f" {counts[MODES_DIFFER]} differences of our modes"
            f" ({seconds:.0f} s, {count / seconds:.0f} cases a second)"
        )
        for name, number in sorted(counts.items()):
            print(f"  {number:8} {name}")
        failed |= counts[UNEXPLAINED] + counts[MODES_DIFFER] > 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
