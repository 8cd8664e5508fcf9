"""Whether two servers keep memory, descriptors, threads or rows, or grow slow, hour after hour.

    python -m benchmarks.soak [--minutes 20] [--seed 0] [--output build]

Twelve clients, each with a key of its own, ask two servers of one PostgreSQL, with a script in the
place of the model: stored, streamed, background, cancelled, tool and structured requests, and
clients that leave. They delete what was stored. In turn, one of the servers is killed,
that server is restarted, and the database is away for ten seconds: every ten minutes, or seven
times in a shorter run. The other server runs from the beginning to the end; its memory,
descriptors and threads, the rows of the database and the times of requests must not rise. Exit
status 1 says which did, or which request had no end or failed while nothing was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import gc
import itertools
import json
import random
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import linear_regression, median, quantiles
from typing import Any

import httpx2
import psutil
import psycopg

from benchmarks.measure import ROOT
from benchmarks.plot import GREY, matplotlib_pyplot

sys.path.insert(0, str(ROOT / "tests"))

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.engines import Engine, FinishReason, Health, SampledToken, Sampling
from gpt_oss_harmony.server import Settings, create_app, run_server
from support.faults import away
from support.postgres_server import new_database, running_postgres
from support.server_process import Server

__all__ = ["main", "problems", "serve"]

CLIENTS = 12
WARM = 0.2  # the share of the time in which caches fill
AFTERMATH = 20  # seconds behind a fault in which a request may fail
PATIENCE = 90  # seconds in which everything that was begun ends
AWAY = 10  # seconds
MOST_SHOWN = 20
_MIB = 1 << 20
_ENDED = {"completed", "failed", "incomplete", "cancelled"}

ANSWERS = {
    "call": "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>",
    "json": '<|channel|>final<|message|>{"answer": 4}<|return|>',
}
ANSWER = "<|channel|>final<|message|>" + "sun moon star sea wind " * 16 + "<|return|>"
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
FORMAT = {
    "type": "json_schema",
    "name": "answer",
    "schema": {
        "type": "object",
        "properties": {"answer": {"type": "integer"}},
        "required": ["answer"],
        "additionalProperties": False,
    },
}

# What must not rise: its unit, and the rise over the whole run that is noise, as a share of the
# median and as a number.
SERIES = {
    "memory": ("MiB", 0.05, 5.0),
    "descriptors": ("", 0.0, 10.0),
    "threads": ("", 0.0, 5.0),
    "rows": ("", 0.1, 200.0),
    "median": ("ms", 0.5, 20.0),
    "p99": ("ms", 0.5, 250.0),
}


# The servers


class _Script(Engine):
    """Samples what the first word of the last message asks for."""

    model = "script"
    context_length = 100_000

    def __init__(self) -> None:
        self._encoding = load_harmony_encoding("HarmonyGptOss")

    async def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        asked = self._encoding.decode(prompt).rpartition("<|message|>")[2].partition(" ")[0]
        text = ANSWERS.get(asked, ANSWER)
        for token in self._encoding.encode(text, allowed_special="all"):
            await asyncio.sleep(0.005)
            stops = token in sampling.stop_tokens
            yield SampledToken(token, finish_reason=FinishReason.STOP if stops else None)

    async def health(self) -> Health:
        return Health(True)

    async def close(self) -> None:
        pass


def serve() -> None:
    """Serve in this process; the argument has the settings as JSON."""
    given = json.loads(sys.argv[1])
    settings = Settings(**{**given, "api_keys": tuple(given["api_keys"])}, shutdown_seconds=1)
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        print(listener.getsockname()[1], flush=True)
        asyncio.run(run_server(create_app(_Script(), settings), settings, listener))


def _address(server: Server) -> str:
    return str(server.client.base_url).rstrip("/")


def _wait_until_ready(address: str) -> None:
    httpx2.get(f"{address}/../ready", timeout=PATIENCE)  # the socket listens already


# The clients


class Soak:
    """Servers, their clients, and what is measured meanwhile."""

    def __init__(self, database: str, folder: Path, seed: int) -> None:
        self.database = database
        self.samples: list[dict[str, float]] = []
        self.faults: list[tuple[float, str]] = []
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self._folder, self._seed = folder, seed
        self._keys = [f"key-{number}" for number in range(CLIENTS)]
        self._servers = [self._started() for _ in range(2)]
        self._addresses = [_address(server) for server in self._servers]
        self._times: list[float] = []
        self._broken = (0.0, 0.0)  # from when until when, by the clock of the run
        self._begun = time.monotonic()
        self._is_over = threading.Event()

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begun

    def _started(self) -> Server:
        # What a fault keeps a client from deleting goes by itself.
        settings = {"api_keys": self._keys, "max_running": 64, "keep_days": 1 / 144}
        place = self._folder / "sealing.key"
        return Server(self.database, place, "benchmarks.soak", settings, function="serve")

    def run(self, seconds: float, every: float) -> None:
        """Let clients ask for so long, and measure and break something every so often."""
        for address in self._addresses:
            _wait_until_ready(address)
        self._begun = time.monotonic()
        clients = threading.Thread(target=lambda: asyncio.run(self._ask_all()))
        clients.start()
        pause = max(2, seconds / 240)
        faults = itertools.cycle((self._kill, self._restart, self._take_database_away))
        next_fault = every
        try:
            while self.now < seconds:
                time.sleep(pause)
                if self.now >= next_fault and seconds - self.now > AFTERMATH:
                    self._break(next(faults))
                    next_fault += every
                self._measure()
        finally:
            if not clients.is_alive():
                self.failures.append("the clients ended before the time was over")
            self._is_over.set()
            clients.join()
            for server in self._servers:
                server.close(signal.SIGKILL)

    def _break(self, fault: Callable[[], None]) -> None:
        name = fault.__name__.strip("_").replace("_", " ")
        self.faults.append((self.now, name))
        self._broken = (self.now, float("inf"))
        fault()
        self._broken = (self._broken[0], self.now + AFTERMATH)
        print(f"{self.now:6.0f} s: {name}", flush=True)

    def _kill(self) -> None:
        self._replace(signal.SIGKILL)

    def _restart(self) -> None:
        self._replace(signal.SIGTERM)

    def _replace(self, number: int) -> None:
        self._servers[1].close(number)
        self._servers[1] = self._started()
        self._addresses[1] = _address(self._servers[1])
        _wait_until_ready(self._addresses[1])

    def _take_database_away(self) -> None:
        with away(self.database):
            time.sleep(AWAY)

    def _measure(self) -> None:
        times, self._times = self._times, []
        if len(times) < 2 or self.now < self._broken[1]:
            return
        process = psutil.Process(self._servers[0].process.pid)
        with psycopg.connect(self.database) as connection:
            names = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            ).fetchall()
            counted = [
                connection.execute(f'SELECT count(*) FROM "{name}"'.encode()).fetchone()
                for (name,) in names
            ]
        self.samples.append(
            {
                "seconds": self.now,
                "memory": process.memory_info().rss / _MIB,
                "descriptors": process.num_fds(),
                "threads": process.num_threads(),
                "rows": sum(found[0] for found in counted if found is not None),
                "median": 1e3 * median(times),
                "p99": 1e3 * quantiles(times, n=100, method="inclusive")[98],
            }
        )

    async def _ask_all(self) -> None:
        await asyncio.gather(*(self._client(number) for number in range(CLIENTS)))

    async def _client(self, number: int) -> None:
        """Ask, one request after the other, until the run is over."""
        draw = random.Random(1000 * self._seed + number)
        head = {"Authorization": f"Bearer {self._keys[number]}"}
        async with httpx2.AsyncClient(headers=head, timeout=PATIENCE) as client:
            while not self._is_over.is_set():
                await asyncio.sleep(draw.uniform(0, 1))
                kind, which = draw.choice(KINDS), draw.randrange(2)
                name, begun = kind.__name__.strip("_"), self.now
                try:
                    await kind(client, self._addresses[which])
                except Exception as error:  # noqa: BLE001 - such as an event that is an error
                    since, until = self._broken
                    has_no_end = isinstance(error, TimeoutError | httpx2.TimeoutException)
                    if has_no_end or begun > until or self.now < since:
                        self.failures.append(f"{name} at {begun:.0f} s: {error!r}")
                    self.counts[f"{name}, failed"] += 1
                else:
                    self.counts[name] += 1
                    if kind in (_stored, _chat, _message):
                        self._times.append(self.now - begun)


async def _post(client: httpx2.AsyncClient, url: str, **body: Any) -> dict[str, Any]:
    answer = await client.post(url, json=body)
    assert answer.status_code == 200, f"{url} answered {answer.status_code} {answer.text[:300]}"
    found: dict[str, Any] = answer.json()
    return found


async def _deleted(client: httpx2.AsyncClient, at: str, *ids: str) -> None:
    for id in ids:
        answer = await client.delete(f"{at}/responses/{id}")
        assert answer.status_code == 200, f"DELETE answered {answer.status_code} {answer.text}"


async def _stored(client: httpx2.AsyncClient, at: str) -> None:
    made = await _post(client, f"{at}/responses", input="Say something.")
    read = await client.get(f"{at}/responses/{made['id']}")
    assert read.status_code == 200, f"GET answered {read.status_code}"
    assert read.json()["output"] == made["output"], read.text[:300]
    await _deleted(client, at, made["id"])


async def _events(client: httpx2.AsyncClient, url: str, most: int, **body: Any) -> list[Any]:
    """Read a stream to its end, or so many events of it."""
    events = []
    async with client.stream("POST", url, json={**body, "stream": True}) as answer:
        assert answer.status_code == 200, f"{url} answered {answer.status_code}"
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                events.append(json.loads(line.removeprefix("data: ")))
                if len(events) == most:
                    break
    return events


async def _streamed(client: httpx2.AsyncClient, at: str) -> None:
    events = await _events(client, f"{at}/responses", 10_000, input="Say something.")
    assert events[-1]["type"] == "response.completed", events[-1]
    await _deleted(client, at, events[-1]["response"]["id"])


async def _leaving(client: httpx2.AsyncClient, at: str) -> None:
    events = await _events(client, f"{at}/responses", 5, input="Say something.")
    id = events[0]["response"]["id"]
    status = await _until_ended(client, at, id)
    assert status in _ENDED | {"404"}, status
    answer = await client.delete(f"{at}/responses/{id}")
    assert answer.status_code in (200, 404), answer.text  # 404 where nothing was stored of it


async def _until_ended(client: httpx2.AsyncClient, at: str, id: str) -> str:
    """Return how a response ended; one that has no end is a failure, whatever was broken."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        answer = await client.get(f"{at}/responses/{id}")
        if answer.status_code != 200:
            return str(answer.status_code)
        if (status := answer.json()["status"]) in _ENDED:
            return str(status)
        await asyncio.sleep(0.1)
    raise TimeoutError(f"{id} is {status} for {PATIENCE} seconds")


async def _background(client: httpx2.AsyncClient, at: str) -> None:
    made = await _post(client, f"{at}/responses", input="Say something.", background=True)
    status = await _until_ended(client, at, made["id"])
    assert status == "completed", f"{made['id']} is {status}"
    await _deleted(client, at, made["id"])


async def _cancelled(client: httpx2.AsyncClient, at: str) -> None:
    made = await _post(client, f"{at}/responses", input="Say something.", background=True)
    await _post(client, f"{at}/responses/{made['id']}/cancel")
    status = await _until_ended(client, at, made["id"])
    assert status in _ENDED, status
    await _deleted(client, at, made["id"])


async def _called(client: httpx2.AsyncClient, at: str) -> None:
    asked = await _post(client, f"{at}/responses", input="call f", tools=[TOOL])
    call = asked["output"][-1]
    assert call["type"] == "function_call", call
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "4"}
    told = await _post(
        client, f"{at}/responses", input=[result], previous_response_id=asked["id"], tools=[TOOL]
    )
    assert told["status"] == "completed", told
    await _deleted(client, at, asked["id"], told["id"])


async def _structured(client: httpx2.AsyncClient, at: str) -> None:
    made = await _post(client, f"{at}/responses", input="json please", text={"format": FORMAT})
    assert json.loads(made["output"][-1]["content"][0]["text"]) == {"answer": 4}
    await _deleted(client, at, made["id"])


async def _chat(client: httpx2.AsyncClient, at: str) -> None:
    messages = [{"role": "user", "content": "Say something."}]
    events = await _events(client, f"{at}/chat/completions", 10_000, messages=messages)
    assert events[-1]["choices"][0]["finish_reason"] == "stop", events[-1]


async def _message(client: httpx2.AsyncClient, at: str) -> None:
    messages = [{"role": "user", "content": "Say something."}]
    made = await _post(client, f"{at}/messages", messages=messages, max_tokens=1000)
    assert made["stop_reason"] == "end_turn", made


KINDS = (
    *(_stored, _streamed, _leaving, _background, _cancelled, _called, _structured),
    *(_chat, _message),
)


# What rose


def problems(samples: list[dict[str, float]], failures: list[str]) -> list[str]:
    """Say what rose by more than noise, along the line that fits it best, and what failed."""
    found = list(failures)
    steady = samples[int(WARM * len(samples)) :]
    if len(steady) < 3:
        return [*found, f"{len(samples)} measurements are too few for a slope"]
    seconds = [sample["seconds"] for sample in steady]
    for name, (unit, share, number) in SERIES.items():
        values = [sample[name] for sample in steady]
        rise = linear_regression(seconds, values).slope * (seconds[-1] - seconds[0])
        if rise > max(share * median(values), number):
            found.append(f"{name} rose by {rise:.1f} {unit}".rstrip())
    return found


def draw(soak: dict[str, Any], path: Path) -> None:
    """Draw a panel for each series over time, with a line at each fault."""
    plots = matplotlib_pyplot()
    settings = {
        **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor"), GREY),
        **dict.fromkeys(("xtick.color", "ytick.color"), GREY),
        "font.size": 9,
        "svg.fonttype": "none",
        "svg.hashsalt": "harmony",  # the same numbers give the same file
    }
    with plots.rc_context(settings):
        figure, axes = plots.subplots(2, 3, figsize=(12, 5), sharex=True)
        minutes = [sample["seconds"] / 60 for sample in soak["samples"]]
        for panel, (name, (unit, _, _)) in zip(axes.flat, SERIES.items(), strict=True):
            values = [sample[name] for sample in soak["samples"]]
            panel.plot(minutes, values, color="#2a9d5c", linewidth=1)
            for seconds, _ in soak["faults"]:
                panel.axvline(seconds / 60, color=GREY, alpha=0.4, linewidth=0.7, linestyle=":")
            panel.set_ylim(0, 1.15 * max(values))
            panel.set_title(f"{name}, {unit}" if unit else name, fontsize=9)
            panel.grid(color=GREY, alpha=0.25, linewidth=0.5)
        for panel in axes[1]:
            panel.set_xlabel("minutes")
        figure.tight_layout()
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plots.close(figure)


@contextmanager
def _database() -> Iterator[str]:
    with running_postgres() as server, new_database(server) as url:
        yield url


def main() -> int:
    """Run, print what was counted, and write the picture and its numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=20, help="how long (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="of what the clients ask (default: 0)")
    parser.add_argument("--output", default="build", help="the folder for soak.svg and soak.json")
    arguments = parser.parse_args()
    folder = Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    seconds = 60 * arguments.minutes
    load = psutil.getloadavg()[0]
    with ExitStack() as opened:
        place = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        soak = Soak(opened.enter_context(_database()), place, arguments.seed)
        soak.run(seconds, min(600, seconds / 7))
    gc.collect()
    measured = {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "minutes": arguments.minutes,
        "load": [round(load, 1), round(psutil.getloadavg()[0], 1)],
        "counts": dict(sorted(soak.counts.items())),
        "faults": soak.faults,
        "samples": soak.samples,
        "problems": problems(soak.samples, soak.failures),
    }
    (folder / "soak.json").write_text(json.dumps(measured) + "\n", encoding="utf-8")
    for name, count in soak.counts.items():
        print(f"{count:8} {name}")
    for name, (unit, _, _) in SERIES.items():
        values = [sample[name] for sample in soak.samples]
        if values:
            shown = [f"{value:.1f}" for value in (values[0], median(values), values[-1])]
            print(f"{name}: {' '.join(shown)} {unit}: the first, the median, the last".rstrip())
    if soak.samples:
        draw(measured, folder / "soak.svg")
    for problem in measured["problems"][:MOST_SHOWN]:
        print(problem)
    return 1 if measured["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
