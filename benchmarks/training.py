"""Training data beside the reference: tokens in a second, cores, memory.

``python -m benchmarks.training`` prints the tables of docs/training.md. The reference renders the
same conversations by `render_conversation_for_training` in a loop, which gives bare ids. Both
libraries run in turn, in interpreters of their own, on new conversations in each round; processor
time is what counts, so that other work on the machine does not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.workloads import conversation, developer

ROWS = 300
TOOLS = 20
"""So many systems' instructions and tools there are in a data set; each conversation has one."""


def rows(seed: int, count: int) -> list[dict[str, Any]]:
    """Make conversations of one to five turns, each with a call."""
    rng = random.Random(seed)
    known = [developer(random.Random(at), 2) for at in range(TOOLS)]
    made = []
    for _ in range(count):
        row = conversation(rng, rng.randrange(1, 6))
        row["messages"][1]["content"] = [known[rng.randrange(TOOLS)]]
        made.append(row)
    return made


# In the interpreter of either library


def measure(side: str, seed: int) -> dict[str, float]:
    """Time one round: tokens in a second, from objects, and from lines of JSON."""
    from openai_harmony import Conversation, RenderConversationConfig, load_harmony_encoding

    encoding = load_harmony_encoding("HarmonyGptOss")
    lines = [json.dumps(row) for row in rows(seed, ROWS)]
    keep = RenderConversationConfig(auto_drop_analysis=False)

    def reference(known: Any) -> int:
        return len(encoding.render_conversation_for_training(known, keep))

    def read(line: str) -> Any:
        return Conversation.from_json(line)

    make = reference
    if side == "ours":
        from openai_harmony.training import TrainingOptions, training_examples

        # All in one sequence, as the loop has it: the same tokens are made by both.
        options = TrainingOptions(keep_past_reasoning=True)

        def make(known: Any) -> int:
            return sum(map(len, training_examples(known, options)))

    for row in rows(-1, 20):  # the encoder is built when there is enough to encode
        make(read(json.dumps(row)))
    known = list(map(read, lines))
    half = ROWS // 2
    return {
        "objects": _rate(make, known[:half]),
        "json": _rate(lambda x: make(read(x)), lines[half:]),
    }


def _rate(make: Any, known: list[Any]) -> float:
    start = time.process_time()
    tokens: int = sum(map(make, known))
    return tokens / (time.process_time() - start)


def prepare_file(source: str, out: str, workers: int) -> dict[str, float]:
    """Prepare a file; return seconds, of the clock and of processors, and the most
    memory that a process had, in MB."""
    import resource

    from openai_harmony.training.files import prepare
    from openai_harmony.training.files.preparation import local_runner

    start = time.perf_counter()
    made = prepare(Path(source), Path(out), runner=local_runner(workers), chunk_bytes=2**21)
    seconds = time.perf_counter() - start
    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    used = [usage.ru_utime + usage.ru_stime for usage in (own, others)]
    return {
        "seconds": seconds,
        "processor": sum(used),
        "parent": used[0],
        "megabytes": (own if workers == 1 else others).ru_maxrss / 1024,
        "tokens": made.report.tokens.total(),
    }


# Here


def _run(python: Path, *arguments: str) -> Any:
    command = [str(python), "-m", "benchmarks.training", *arguments]
    # Where the reference's environment has its vocabulary; ours reads no such variable.
    environment = {**os.environ, "TIKTOKEN_ENCODINGS_BASE": str(python.parent.parent)}
    output = subprocess.run(
        command,
        cwd=Path(__file__).parent.parent,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return json.loads(output.splitlines()[-1])


def compare(rounds: int) -> None:
    """Print tokens in a second of both libraries."""
    from benchmarks.measure import interpreters

    pythons = {name: python for name, python in interpreters().items() if name != "fork"}
    found: dict[tuple[str, str], list[float]] = {}
    for seed in range(rounds):
        for name, python in pythons.items():
            for kind, rate in _run(python, "--side", name, "--seed", str(seed)).items():
                found.setdefault((kind, name), []).append(rate)
    print("| from | ours | reference | ratio |\n| --- | --: | --: | --: |")
    for kind in ("objects", "json"):
        ours, reference = (statistics.median(found[kind, name]) for name in ("ours", "reference"))
        print(f"| {kind} | {ours:,.0f} | {reference:,.0f} | {ours / reference:.1f}× |")


def scale(sizes: list[int], workers: list[int]) -> None:
    """Print seconds and memory for files of several sizes, with several workers."""
    print("| rows | workers | seconds | of processors | of these in the parent | MB in a process |")
    print("| --: " * 6 + "|")
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            source = Path(folder) / f"{size}.jsonl"
            with source.open("w") as file:
                for start in range(0, size, 1000):
                    for row in rows(start, min(1000, size - start)):
                        file.write(json.dumps(row) + "\n")
            for count in workers:
                out = str(Path(folder) / f"{size}-{count}")
                given = ("--prepare", str(source), out, "--workers", str(count))
                one = _run(Path(sys.executable), *given)
                cells = (one[name] for name in ("seconds", "processor", "parent", "megabytes"))
                written = " | ".join(f"{cell:.1f}" for cell in cells)
                print(f"| {size:,} | {count} | {written} |", flush=True)


def main() -> None:
    """Measure, or be what is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 8000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--prepare", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(measure(arguments.side, arguments.seed)))
    elif arguments.prepare:
        print(
            json.dumps(
                prepare_file(arguments.prepare[0], arguments.prepare[1], arguments.workers[0])
            )
        )
    else:
        compare(arguments.rounds)
        print()
        scale(arguments.rows, arguments.workers)


if __name__ == "__main__":
    main()
