"""The server under load, beside two others: many streams at once, seen from the clients.

    python -m benchmarks.serving [--streams N] [--update-docs]
    python -m benchmarks.serving --script [--streams N] [--update-docs]
    python -m benchmarks.serving --background 1000000
    python -m benchmarks.serving --fair [--only NAME] [--update-docs]

With a script in the place of the model, what is measured is the server; the responses_api of the
package gpt-oss gets the same script, and a bare Starlette application streams the same events
ready-made (`serving_script`); with ``--script`` nothing else is measured. ``--background`` samples
so many tokens in the background, and shows how the memory grows. With the demo model,
``transformers serve`` has the same weights, and is asked in turns with ours (`serving_beside`). A
server that cannot be had here is left out. With ``--fair``, small requests of one client are timed
while another does its worst (`serving_fair`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import httpx2
import psutil

from benchmarks.measure import ROOT, write_vocabulary
from benchmarks.run import DOCS, cpu_model
from benchmarks.serving_beside import beside_rows, beside_table
from benchmarks.serving_beside import servers as beside_servers
from benchmarks.serving_fair import fair_rows, fair_table
from benchmarks.serving_load import run_load
from benchmarks.serving_overhead import measure_overhead

GPT_OSS = ".venv-gpt-oss"
SCRIPT = str(Path(__file__).with_name("serving_script.py"))
ROUNDS = 9
PATIENCE = 120  # seconds until a server must answer
BATCH = 16  # responses in the background at a time
QUESTION = "What is 27 + 45?"
STARTS = ("ours, Responses", "ours, Chat Completions", "bare Starlette, the same events")
COSTS = ("per token, µs", "per token without the model, µs")
NUMBERS = (
    "first text, median, ms",
    "first text, p99, ms",
    "tokens per second",
    "time per token, µs",
    "server's processor time per token, µs",
    "memory per stream, KiB",
)

Row = dict[str, Any]


class Server(NamedTuple):
    """How a server is started, asked, and called in the table."""

    name: str
    command: Sequence[str]
    api: str
    body: Mapping[str, Any]
    environment: Mapping[str, str] | None = None


def servers(port: int) -> Iterator[tuple[str, Server]]:
    """Yield what runs the model, and the servers over it that can be had here."""
    asked = {"input": QUESTION, "store": False}
    chat = {"messages": [{"role": "user", "content": QUESTION}]}
    script = "a script"
    ours = [sys.executable, SCRIPT, "ours", str(port)]
    yield script, Server("ours, Responses", ours, "responses", asked)
    yield script, Server("ours, Chat Completions", ours, "chat", chat)
    bare = [sys.executable, SCRIPT, "bare", str(port)]
    yield script, Server("bare Starlette, the same events", bare, "responses", asked)
    theirs = ROOT / GPT_OSS / "bin" / "python"
    if theirs.exists():
        command = [str(theirs), SCRIPT, "gpt-oss", str(port)]
        vocabulary = ROOT / GPT_OSS / "o200k_base.tiktoken"
        if not vocabulary.exists():
            write_vocabulary(vocabulary)
        body = {**asked, "model": "gpt-oss"}
        name = "gpt-oss, responses_api"
        environment = {**os.environ, "TIKTOKEN_ENCODINGS_BASE": str(vocabulary.parent)}
        yield script, Server(name, command, "responses", body, environment)


def measured(streams: int) -> Iterator[Row]:
    """Measure one server after the other."""
    for model, server in servers(_free_port()):
        port = _port_of(server)
        with running(server.name, server.command, port, server.environment) as pid:

            def load(
                count: int, port: int = port, pid: int = pid, server: Server = server
            ) -> dict[str, float]:
                return asyncio.run(run_load(port, pid, server.body, server.api, count)).summary()

            for _ in range(4):
                load(1)  # what is slow once only,
            for count in (1, streams):
                loads = [load(count) for _ in range(ROUNDS)]
                middle = {name: median(one[name] for one in loads) for name in loads[0]}
                # Memory that was taken once is used again: the first round shows what it takes.
                middle["memory per stream, KiB"] = loads[0]["memory per stream, KiB"]
                row = {"model": model, "server": server.name, "streams": count, **middle}
                print(row, file=sys.stderr, flush=True)
                yield row


def measured_starts(streams: int) -> Iterator[Row]:
    """Measure what a stream of one word costs the processor, in our server and in the bare one."""
    environment = {**os.environ, "HARMONY_SCRIPT_WORDS": "1"}
    named = {server.name: server for _, server in servers(_free_port())}
    ours, chat, bare = (named[name] for name in STARTS)
    stored = ours._replace(name="ours, Responses, stored", body={"input": QUESTION})
    for server in (ours, stored, chat, bare):
        port = _port_of(server)
        with running(server.name, server.command, port, environment) as pid:
            load = partial(run_load, port, pid, server.body, server.api, streams)
            asyncio.run(load())  # what is slow once only
            rounds = [asyncio.run(load()) for _ in range(ROUNDS)]
        cost = 1000 * sum(one.cpu for one in rounds) / (streams * ROUNDS)
        row = {"server": server.name, "milliseconds": cost}
        print(row, file=sys.stderr, flush=True)
        yield row


@contextlib.contextmanager
def running(
    name: str, command: Sequence[str], port: int, environment: Mapping[str, str] | None
) -> Iterator[int]:
    """Run a server until the end of the block, from when it answers; the block gets its id."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=said
        )
        try:
            if not _answers(port, process):
                said.seek(0)
                raise SystemExit(f"{name} does not answer: {said.read()[-1000:]!r}")
            yield process.pid
        finally:
            process.terminate()
            process.wait()


def background_growth(tokens: int) -> None:
    """Sample tokens in the background, and print the memory of the server on the way."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/responses.db"
        command = [sys.executable, SCRIPT, "ours", str(port), database]
        with running("ours", command, port, None) as pid:
            server, sampled, shown = psutil.Process(pid), 0, 0
            url = f"http://127.0.0.1:{port}/v1/responses"
            body = {"input": QUESTION, "background": True}
            with httpx2.Client(timeout=PATIENCE) as client:
                while sampled < tokens:
                    begun = [client.post(url, json=body).json()["id"] for _ in range(BATCH)]
                    for id in begun:
                        # The stream ends with the response.
                        events = client.get(f"{url}/{id}", params={"stream": True}).text
                        last = json.loads(
                            events.rpartition("\ndata: {")[2].partition("\n")[0].join("{ ")
                        )
                        sampled += last["response"]["usage"]["output_tokens"]
                    if sampled // (tokens // 10) > shown:
                        shown = sampled // (tokens // 10)
                        memory = server.memory_info().rss / 2**20
                        print(f"{sampled:,} tokens: {memory:,.0f} MiB", flush=True)


def measured_beside(rounds: int) -> list[Row]:
    """Measure the demo model in our server and in ``transformers serve``."""
    transformers = shutil.which("transformers", path=str(Path(sys.executable).parent))
    return beside_rows(
        rounds,
        list(beside_servers(_free_port, transformers)),
        lambda server, port: running(
            server.name, server.command, port, {**os.environ, **server.environment}
        ),
    )


def _answers(port: int, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/openapi.json", timeout=5)
            return True
        time.sleep(0.2)
    return False


def _port_of(server: Server) -> int:
    return int(next(word for word in server.command if re.fullmatch(r"\d{4,5}", word)))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def page_table(data: Mapping[str, Any]) -> str:
    """Write the measurements as the page has them."""
    machine = data["machine"]
    lines = [
        f"Measured on {machine['date']}: {machine['cpu']}, {machine['cores']} cores, "
        f"Python {machine['python']}; the median of {ROUNDS} runs, each number for itself.",
        "",
        "| model | server | streams | first text, median | p99 | tokens per second "
        "| time per token | processor time | memory per stream |",
        "| --- | --- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for row in data["rows"]:
        first, last, speed, wall, cpu, memory = (row[name] for name in NUMBERS)
        lines.append(
            f"| {row['model']} | {row['server']} | {row['streams']} "
            f"| {first:,.0f} ms | {last:,.0f} ms | {speed:,.0f} "
            f"| {wall:,.0f} µs | {cpu:,.0f} µs | {memory:,.0f} KiB |"
        )
    if "starts" in data:
        lines += [
            "",
            "A stream of one word, from the request to its end:",
            "",
            "| server | processor time |",
            "| --- | --: |",
            *(f"| {row['server']} | {row['milliseconds']:.1f} ms |" for row in data["starts"]),
        ]
    if "beside" in data:
        rounds = data["beside"]["rounds"]
        lines += [
            "",
            "The demo model in our server and in `transformers serve` 5.23, without and with "
            f"`--continuous-batching`, asked in turns: medians of {rounds} rounds, "
            f"one thread each, {data['beside']['date']}. Theirs has the cache of ours; by default "
            "it takes most of the machine's memory.",
            "",
            beside_table(data["beside"]["rows"]),
        ]
    if "overhead" in data:
        overhead = data["overhead"]
        lines += [
            "",
            "What a token of the demo model costs the processor in our engine, and how much of it "
            f"is not the model: sampling, batching, delivery. Measured on {overhead['date']}.",
            "",
            "| request | streams | per token | without the model |",
            "| --- | --: | --: | --: |",
        ]
        for row in overhead["rows"]:
            costs = " | ".join(f"{row[name] / 1000:.1f} ms" for name in COSTS)
            lines.append(f"| {row['request']} | {row['streams']} | {costs} |")
    return "\n".join(lines)


def fair_page_table(data: Mapping[str, Any]) -> str:
    """Write the times of small requests as the page has them."""
    machine = data["machine"]
    loads = [row["load"] for row in data["rows"]]
    return (
        f"Measured on {machine['date']}: {machine['cpu']}, {machine['cores']} cores, Python "
        f"{machine['python']}; load average of the machine {min(loads)} to {max(loads)}.\n\n"
        + fair_table(data["rows"])
    )


def update_page(name: str, table: str) -> None:
    """Put a table into docs/understand/benchmarks.md, and leave the rest of the page as it is."""
    page = DOCS / "benchmarks.md"
    text = page.read_text(encoding="utf-8")
    marked = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", re.DOTALL)
    page.write_text(
        marked.sub(lambda found: f"{found[1]}\n{table}\n{found[2]}", text), encoding="utf-8"
    )


def main() -> None:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument(
        "--rounds", type=int, default=5, help="of each request to servers that are asked in turns"
    )
    parser.add_argument(
        "--beside",
        action="store_true",
        help="only the demo model beside transformers serve, and what a token costs",
    )
    parser.add_argument("--script", action="store_true", help="only what runs a script")
    parser.add_argument("--background", type=int, metavar="TOKENS", help="only this many tokens")
    parser.add_argument("--fair", action="store_true", help="time a client beside a hostile one")
    parser.add_argument("--only", default="", metavar="NAME", help="with --fair: what has NAME")
    parser.add_argument("--update-docs", action="store_true", help="and write the page, too")
    arguments = parser.parse_args()
    if arguments.update_docs and arguments.only:
        parser.error("the page shows a whole run: leave --only out")
    if arguments.background:
        background_growth(arguments.background)
        return
    name = "fairness" if arguments.fair else "serving"
    results = DOCS / f"{name}-benchmarks.json"
    data: dict[str, Any] = json.loads(results.read_text(encoding="utf-8"))
    today = datetime.date.today().isoformat()
    if not arguments.beside:
        data["machine"] = {
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "date": today,
        }
        fair = arguments.fair
        data["rows"] = list(
            fair_rows(arguments.only, _free_port()) if fair else measured(arguments.streams)
        )
        if not fair:
            data["starts"] = list(measured_starts(arguments.streams))
    if not arguments.fair and not arguments.script:
        beside = measured_beside(arguments.rounds)
        data["beside"] = {"date": today, "rounds": arguments.rounds, "rows": beside}
        data["overhead"] = {"date": today, "rows": measure_overhead((1, 8))}
    table = fair_page_table(data) if arguments.fair else page_table(data)
    print(table)
    if arguments.update_docs:
        results.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        update_page(name, table)


if __name__ == "__main__":
    main()
