"""Training data beside the reference: tokens in a second, cores, memory.

``make bench-training`` prints the tables of docs/understand/benchmarks.md. The reference renders
the same conversations by `render_conversation_for_training` in a loop, which gives bare ids. Both
libraries run in turn, in interpreters of their own, on new conversations in each round, and what
counts is the time of the processor. Only the clock says how much sooner several processes are
done, which is worth something only where nothing else runs: a spinning loop beside each
measurement, in as many processes, says what the machine had to give. Ray's workers are measured by
the clock, once they have been started.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.workloads import conversation, developer

ROWS = 300
TOOLS = 20
"""So many systems' instructions and tools there are in a data set; each conversation has one."""


SEARCH = {
    "name": "search",
    "description": "Searches the documents.",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
    },
}
"""The function that conversations call; `prepare` checks calls."""


def rows(seed: int, count: int) -> list[dict[str, Any]]:
    """Make conversations of one to five turns, each with a call."""
    rng = random.Random(seed)
    known = [developer(random.Random(at), 2) for at in range(TOOLS)]
    for content in known:
        content["tools"]["functions"]["tools"].append(SEARCH)
    made = []
    for _ in range(count):
        row = conversation(rng, rng.randrange(1, 6))
        row["messages"][1]["content"] = [known[rng.randrange(TOOLS)]]
        made.append(row)
    return made


# In a process of either library


def measure(side: str, seed: int) -> dict[str, float]:
    """Time one round: tokens in a second, from objects, and from lines of JSON."""
    from openai_harmony import Conversation, RenderConversationConfig, load_harmony_encoding

    encoding = load_harmony_encoding("HarmonyGptOss")
    lines = [json.dumps(row) for row in rows(seed, ROWS)]
    keep = RenderConversationConfig(auto_drop_analysis=False)

    def read(line: str) -> Any:
        return Conversation.from_json(line)

    def make(known: Any) -> int:
        return len(encoding.render_conversation_for_training(known, keep))

    if side == "ours":
        from gpt_oss_harmony.training import TrainingOptions, training_examples
        from gpt_oss_harmony.training.rows import parse_line, read_row

        # All in one sequence, as the loop has it: the same tokens are made by both.
        options = TrainingOptions(keep_past_reasoning=True)

        def read(line: str) -> Any:  # as `prepare` reads it
            return read_row(parse_line(line)).conversation

        def make(known: Any) -> int:
            return sum(map(len, training_examples(known, options)))

    for row in rows(-1, 20):  # the encoder is built when there is enough to encode
        make(read(json.dumps(row)))
    half = ROWS // 2
    known = list(map(read, lines[:half]))
    return {
        "objects": _rate(make, known),
        "json": _rate(lambda line: make(read(line)), lines[half:]),
    }


def _rate(make: Callable[[Any], int], known: Iterable[Any]) -> float:
    gc.collect()  # else the one or the other has to look through what was made before
    start = time.process_time()
    tokens = sum(map(make, known))
    return tokens / (time.process_time() - start)


def prepare_file(
    source: str, out: str, workers: int, chunk_bytes: int, *, with_ray: bool
) -> dict[str, float]:
    """Prepare a file; return seconds, of the clock and of processors, and the most
    memory that a process had, in MB. Of Ray's workers, only the first is meaningful.
    """
    import resource

    from gpt_oss_harmony.training.files import prepare

    runner = None
    if with_ray:
        import ray

        from gpt_oss_harmony.training.files.ray import ray_runner

        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
        runner = ray_runner()
        first = Path(source).with_suffix(".first.jsonl")
        write_rows(first, 10 * workers)  # starts the workers
        prepare(first, Path(out + "-first"), runner=runner, chunk_bytes=first.stat().st_size // 4)
    start = time.perf_counter()
    made = prepare(Path(source), Path(out), workers=workers, runner=runner, chunk_bytes=chunk_bytes)
    seconds = time.perf_counter() - start
    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    used = [usage.ru_utime + usage.ru_stime for usage in (own, others)]
    return {
        "seconds": seconds,
        "processor": sum(used),
        "megabytes": (own if workers == 1 else others).ru_maxrss / 1024,
        "tokens": made.report.tokens.total(),
    }


# Here


def _run(environment: Mapping[str, str], *arguments: str) -> Any:
    command = [sys.executable, "-m", "benchmarks.training", *arguments]
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
    """Print tokens in a second of one core, of both libraries.

    The ratio is the median of the rounds' own, since a round disturbs both sides alike.
    """
    from benchmarks.measure import libraries

    environments = {name: found for name, found in libraries().items() if name != "fork"}
    found: dict[tuple[str, str], list[float]] = {}
    for seed in range(rounds):
        for name, environment in environments.items():
            for kind, rate in _run(environment, "--side", name, "--seed", str(seed)).items():
                found.setdefault((kind, name), []).append(rate)
    print("| From | Ours | Reference | Ratio | Least and most |\n|---|--:|--:|--:|--:|")
    for kind, title in (("objects", "objects"), ("json", "lines of JSON")):
        ours, reference = found[kind, "ours"], found[kind, "reference"]
        ratios = sorted(one / other for one, other in zip(ours, reference, strict=True))
        cells = [f"{statistics.median(rates):,.0f}" for rates in (ours, reference)]
        cells += [f"{statistics.median(ratios):.1f}×", f"{ratios[0]:.1f}× to {ratios[-1]:.1f}×"]
        print(f"| {title} | {' | '.join(cells)} |")


def write_rows(path: Path, count: int) -> None:
    """Write a file of so many rows."""
    with path.open("w") as file:
        for start in range(0, count, 1000):
            for row in rows(start, min(1000, count - start)):
                file.write(json.dumps(row) + "\n")


def scale(sizes: list[int], workers: list[int], chunk_bytes: int) -> None:
    """Print seconds and memory for files of several sizes, with several processes, and with Ray.

    A billion tokens cost so many hours of one core: seconds of processors, divided by the tokens.
    """
    titles = ["Rows", "Tokens", "Processes", "Seconds", "Rows/s", "Tokens/s of a process"]
    titles += ["Scaling", "Machine's scaling", "Core-hours for 10⁹ tokens", "MB"]
    print(f"| {' | '.join(titles)} |\n|{'--:|' * len(titles)}")
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            source = Path(folder) / f"{size}.jsonl"
            write_rows(source, size)
            alone = 0.0  # the seconds of the first number of processes, for one of them
            for count, with_ray in [(c, False) for c in workers] + [(c, True) for c in workers]:
                out = str(Path(folder) / f"{size}-{count}-{with_ray}")
                given = ["--prepare", str(source), out, "--workers", str(count)]
                given += ["--chunk-bytes", str(chunk_bytes), *["--ray"] * with_ray]
                one = _run(os.environ, *given)
                seconds = one["seconds"]
                alone = alone or seconds * count
                cells = [f"{size:,}", f"{one['tokens']:,}", f"{count}{' of Ray' * with_ray}"]
                cells += [f"{seconds:.1f}", f"{size / seconds:,.0f}"]
                cells += [f"{one['tokens'] / seconds / count:,.0f}"]
                cells += [f"{alone / seconds / count:.0%}", f"{spin_scaling(count):.0%}"]
                hours = one["processor"] / 3600 * 1e9 / one["tokens"]
                cells += ["", ""] if with_ray else [f"{hours:.2f}", f"{one['megabytes']:.0f}"]
                print(f"| {' | '.join(cells)} |", flush=True)


def spin_scaling(count: int, loops: int = 20_000_000) -> float:
    """Tell what part of a core each of so many processes gets: 1 where they do not disturb."""
    with multiprocessing.get_context("spawn").Pool(count) as pool:
        pool.map(_spin, [1000] * count, chunksize=1)  # until all have started
        (alone,) = pool.map(_spin, [loops], chunksize=1)
        together = pool.map(_spin, [loops] * count, chunksize=1)
    return alone / max(together)


def _spin(loops: int) -> float:
    start = time.perf_counter()
    for _ in range(loops):
        pass
    return time.perf_counter() - start


def main() -> None:
    """Measure, or be what is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, nargs="+", default=[5000, 20000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--chunk-bytes", type=int, default=2**21)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--prepare", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--ray", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(measure(arguments.side, arguments.seed)))
    elif arguments.prepare:
        source, out = arguments.prepare
        count, chunk_bytes = arguments.workers[0], arguments.chunk_bytes
        found = prepare_file(source, out, count, chunk_bytes, with_ray=arguments.ray)
        print(json.dumps(found))
    else:
        compare(arguments.rounds)
        print()
        scale(arguments.rows, arguments.workers, arguments.chunk_bytes)


if __name__ == "__main__":
    main()
