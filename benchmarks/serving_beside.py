"""The demo model in our server and in ``transformers serve``, asked in turns.

Both have the same weights, the same number of threads, and the same cache: that of Transformers is
given the size of ours, as it takes most of the machine's memory otherwise. It is measured with and
without its continuous batching. The better of the two is what ours is compared with.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import httpx2

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.engines.demo_model import demo_model_folder

__all__ = ["Beside", "beside_rows", "beside_table"]

REQUESTS = 64
CONTEXT = 4096
PAGE = 256  # tokens in a block of the cache
THREADS = 1
WAIT = 600.0

FACTS = "weather time population mayor airport currency flag river museum height anthem hotel"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"get_current_{name}",
            "description": f"Gets the {name} of a place.",
            "parameters": {
                "type": "object",
                "properties": {"location": {"type": "string", "description": "The place."}},
                "required": ["location"],
                "additionalProperties": False,
            },
        },
    }
    for name in FACTS.split()
]
SUM = {"messages": [{"role": "user", "content": "What is 27 + 45?"}], "temperature": 0}
CALL = {
    "messages": [{"role": "user", "content": "What is the weather like in Tokyo?"}],
    "tools": TOOLS,
    "tool_choice": "required",
    "temperature": 0,
}


class Beside(NamedTuple):
    """How a server is started, and the name of the model in its requests."""

    name: str
    command: Sequence[str]
    model: str
    environment: Mapping[str, str]
    batches: bool = True


class Answer(NamedTuple):
    """One stream: seconds until its first text and its end, and its text."""

    first: float
    total: float
    text: str


class Measure(NamedTuple):
    """A row: a number of requests at once, and what is taken from their answers."""

    name: str
    unit: str
    body: Mapping[str, Any]
    streams: int
    value: Callable[[Sequence[Answer], float], float]
    more_is_better: bool = False


def _first(answers: Sequence[Answer], _: float) -> float:
    return 1e3 * median(answer.first for answer in answers)


def _total(_: Sequence[Answer], total: float) -> float:
    return 1e3 * total


def _speed(answers: Sequence[Answer], total: float) -> float:
    encode = load_harmony_encoding("HarmonyGptOss").encode
    return sum(len(encode(answer.text)) for answer in answers) / total


MEASURES = (
    Measure("one stream", "tokens/s", SUM, 1, _speed, True),
    Measure("first text of one prompt", "ms", SUM, 1, _first),
    Measure("a call, 12 tools declared", "ms", CALL, 1, _total),
    Measure("32 streams", "tokens/s", SUM, 32, _speed, True),
    Measure("first text of 64 prompts at once", "ms", SUM, 64, _first),
)


def servers(port: Callable[[], int], transformers: str | None) -> Iterator[tuple[Beside, int]]:
    """Yield the servers with their ports."""
    threads = {"OMP_NUM_THREADS": str(THREADS), "OMP_WAIT_POLICY": "PASSIVE"}
    number = port()
    ours = [sys.executable, "-m", "gpt_oss_harmony", "serve", "demo", "--port", str(number)]
    ours += ["--engine", "transformers", "--max-running", str(REQUESTS)]
    ours += ["--threads", str(THREADS), "--database"]
    yield Beside("ours", [*ours, "sqlite:////tmp/serving-benchmark.db"], "demo", threads), number
    if transformers is None:
        return
    folder = str(demo_model_folder())
    plain = [transformers, "serve", folder, "--host", "127.0.0.1", "--port"]
    number = port()
    yield Beside("theirs", [*plain, str(number)], folder, threads, batches=False), number
    number = port()
    batching = [*plain, str(number), "--continuous-batching", "--cb-max-batch-tokens", "512"]
    batching += ["--cb-num-blocks", str((CONTEXT // PAGE + 1) * REQUESTS)]
    yield Beside("theirs, batching", batching, folder, threads), number


def beside_rows(
    rounds: int,
    started: Sequence[tuple[Beside, int]],
    running: Callable[[Beside, int], AbstractContextManager[int]],
) -> list[dict[str, Any]]:
    """Measure all servers in turns; a row has the medians, and how much better ours is."""
    rows: list[dict[str, Any]] = []
    with ExitStack() as opened:
        # One after the other: three models that load at once would slow each other.
        ids = {server.name: opened.enter_context(running(server, port)) for server, port in started}
        for measure in MEASURES:
            asked = [pair for pair in started if pair[0].batches or measure.streams == 1]
            values: dict[str, list[float]] = {server.name: [] for server, _ in asked}
            for number in range(rounds + 1):
                for server, port in asked:
                    body = {**measure.body, "model": server.model, "stream": True}
                    value = asyncio.run(_measured(port, body, measure))
                    if number:  # the first is slow, such as for compiling the grammar
                        values[server.name].append(value)
            rows.append(_row(measure.name, measure.unit, values, measure.more_is_better))
            print(rows[-1], file=sys.stderr, flush=True)
        peaks = {
            server.name: [_peak_memory(ids[server.name])] for server, _ in started if server.batches
        }
        rows.append(_row("memory after all of these, at most", "GB", peaks, False))
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def _row(
    name: str, unit: str, values: Mapping[str, Sequence[float]], more_is_better: bool
) -> dict[str, Any]:
    medians = {server: median(numbers) for server, numbers in values.items()}
    theirs = [number for server, number in medians.items() if server != "ours"]
    ratio = None
    if theirs:
        best = max(theirs) if more_is_better else min(theirs)
        ratio = medians["ours"] / best if more_is_better else best / medians["ours"]
    return {"measure": name, "unit": unit, **medians, "times better": ratio}


async def _measured(port: int, body: Mapping[str, Any], measure: Measure) -> float:
    limits = httpx2.Limits(max_connections=measure.streams)
    url = f"http://127.0.0.1:{port}"
    async with httpx2.AsyncClient(base_url=url, timeout=WAIT, limits=limits) as client:
        begun = time.perf_counter()
        answers = await asyncio.gather(*(_answer(client, body) for _ in range(measure.streams)))
        return measure.value(answers, time.perf_counter() - begun)


async def _answer(client: httpx2.AsyncClient, body: Mapping[str, Any]) -> Answer:
    begun = time.perf_counter()
    first, text = None, ""
    async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            choices = json.loads(line.removeprefix("data: ")).get("choices") or [{}]
            delta = choices[0].get("delta") or {}
            names = ("reasoning", "reasoning_content", "content", "tool_calls")
            piece = next((delta[name] for name in names if delta.get(name)), None)
            if piece is not None:
                first = first or time.perf_counter() - begun
                text += piece if isinstance(piece, str) else ""
    if first is None:
        raise RuntimeError("the server answered without any text")
    return Answer(first, time.perf_counter() - begun, text)


def _peak_memory(process: int) -> float:
    """Return the most memory that a process had, in gigabytes."""
    status = Path(f"/proc/{process}/status").read_text("ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e9


def beside_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write the rows as the page has them."""
    names = [name for name in rows[0] if name not in ("measure", "unit", "times better")]
    lines = [
        f"| | {' | '.join(names)} | ours is better |",
        f"| --- |{' --: |' * (len(names) + 1)}",
    ]
    for row in rows:
        shown = [
            f"{row[name]:,.{2 if row['unit'] == 'GB' else 0}f} {row['unit']}"
            if name in row
            else "–"
            for name in names
        ]
        ratio = row["times better"]
        better = "–" if ratio is None else f"{ratio:.2f}×"
        lines.append(f"| {row['measure']} | {' | '.join(shown)} | {better} |")
    return "\n".join(lines)
