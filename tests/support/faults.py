"""Faults of one machine: databases, disks and processes, and schedules of them drawn at random.

A schedule starts servers of one database and sends requests while servers are killed, told to end
or frozen, the database is away, cut off or without room, the engine fails, and clients leave. Then
everything is repaired. `Schedule.problems` lists what did not end and what was lost.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import psycopg
import pytest

from gpt_oss_harmony.engines import EngineError, SampledToken, Sampling
from gpt_oss_harmony.server import Settings, create_app, run_server
from support.postgres_server import new_database
from support.responses_server import TEXT, THOUGHT
from support.scripted_engine import ENCODING, ScriptedEngine
from support.server_process import Server

__all__ = ["Schedule", "away", "small_disk"]

SECONDS = 60
"""The time in which everything ends once all is repaired."""

ENDED = {"completed", "failed", "incomplete", "cancelled"}
LAST_EVENTS = {"response.completed", "response.failed", "response.incomplete", "error"}


# Databases and disks


@contextmanager
def away(url: str) -> Iterator[None]:
    """Take a database away: move its file, or close its connections and allow no new ones."""
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        path.rename(path.with_name("elsewhere"))
        try:
            yield
        finally:
            path.with_name("elsewhere").rename(path)
        return
    with _admin(url) as (admin, name):
        admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false".encode())
        _cut(admin, name)
        try:
            yield
        finally:
            admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true".encode())


@contextmanager
def _admin(url: str) -> Iterator[tuple[psycopg.Connection[Any], str]]:
    address, _, options = url.partition("?")
    place, _, name = address.rpartition("/")
    with psycopg.connect(f"{place}/postgres?{options}", autocommit=True) as admin:
        yield admin, name


def _cut(admin: psycopg.Connection[Any], name: str) -> None:
    """Close all connections of a database."""
    admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
    )


@contextmanager
def small_disk(path: Path, mebibytes: int) -> Iterator[Path]:
    """Mount a disk of this size; only root can."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "none", str(path)]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("this system mounts no disk")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@contextmanager
def _full(disk: Path) -> Iterator[None]:
    """Fill a disk to the last byte."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 20))
    try:
        yield
    finally:
        filler.unlink()


# Servers


class _UnsteadyEngine(ScriptedEngine):
    """Answers at once, slowly or with an error, as the last message says."""

    async def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        asked = ENCODING.decode(prompt).rpartition("<|start|>user<|message|>")[2]
        self.completions = [THOUGHT + TEXT]
        count = 0
        async for sampled in super()._generate(prompt, sampling, max_tokens):
            count += 1
            if asked.startswith("slow"):
                await asyncio.sleep(0.1)
            elif asked.startswith("fail") and count == 3:
                raise EngineError("the engine fails", retryable=False)
            yield sampled


def main() -> None:
    """Serve in this process; the argument has the settings as JSON."""
    settings = Settings(**json.loads(sys.argv[1]), shutdown_seconds=1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        app = create_app(_UnsteadyEngine(), settings)
        asyncio.run(run_server(app, settings, listener))


# Schedules


class _Step(NamedTuple):
    """Requests that begin, and a fault a moment later."""

    requests: list[tuple[str, str]]  # the kind, and the first word of the message
    fault: str
    server: int
    after: float  # seconds
    lasting: float


_FAULTS = {
    "sqlite": ("kill", "end", "freeze", "away", "full", "nothing"),
    "postgresql": ("kill", "end", "freeze", "away", "cut", "nothing"),
}
_KINDS = ("background", "background", "stream", "whole", "leave", "cancel", "conversation")
_WORDS = ("quick", "slow", "slow", "fail")


class Schedule:
    """A schedule drawn by a seed; `folder` is for its files, and `postgres` a server's URL."""

    def __init__(self, seed: int, folder: Path, postgres: str) -> None:
        draw = random.Random(seed)
        self.database = draw.choice(tuple(_FAULTS))
        count = 1 if self.database == "sqlite" else 2
        self.steps = [
            _Step(
                [(draw.choice(_KINDS), draw.choice(_WORDS)) for _ in range(draw.randrange(2, 7))],
                draw.choice(_FAULTS[self.database]),
                draw.randrange(count),
                draw.uniform(0, 1),
                draw.choice((0.1, 1, 4)),
            )
            for _ in range(draw.randrange(3, 6))
        ]
        self.problems: list[str] = []
        self._draw = draw
        self._folder, self._postgres = folder, postgres
        self._servers: list[Server] = []
        self._count = count
        self._clients: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._begun: dict[str, bool] = {}  # ids of responses; True for those in the background
        self._completed: dict[str, Any] = {}  # outputs that a client has read
        self._items: dict[str, list[str]] = {}  # texts by conversation

    def __str__(self) -> str:
        return "\n".join([self.database, *map(str, self.steps)])

    def run(self) -> list[str]:
        """Carry it out; return what is wrong at the end."""
        with ExitStack() as opened:
            self._disk = opened.enter_context(small_disk(self._folder / "disk", 64))
            if self.database == "sqlite":
                self._url = f"sqlite:///{self._disk / 'harmony.db'}"
            else:
                self._url = opened.enter_context(new_database(self._postgres))
            opened.callback(self._kill_all)
            self._servers += [self._started() for _ in range(self._count)]
            for server in self._servers:
                server.client.get("../ready")
            for step in self.steps:
                for kind, word in step.requests:
                    self._begin(kind, word)
                time.sleep(step.after)
                self._break(step)
            self._check()
        return self.problems

    def _started(self) -> Server:
        server = Server(self._url, self._folder / "sealing.key", "support.faults", {})
        server.client.headers["accept"] = "application/json"  # waits until it listens
        return server

    def _kill_all(self) -> None:
        for server in self._servers:
            server.close(signal.SIGKILL)

    def _break(self, step: _Step) -> None:
        """Let a fault happen and pass."""
        server = self._servers[step.server]
        if step.fault in ("kill", "end"):
            server.close(signal.SIGKILL if step.fault == "kill" else signal.SIGTERM)
            time.sleep(step.lasting / 4)
            self._servers[step.server] = self._started()
        elif step.fault == "freeze":
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(step.lasting)
            server.process.send_signal(signal.SIGCONT)
        elif step.fault == "away":
            with away(self._url):
                time.sleep(step.lasting)
        elif step.fault == "full":
            with _full(self._disk):
                time.sleep(step.lasting)
        elif step.fault == "cut":
            with _admin(self._url) as (admin, name):
                _cut(admin, name)

    # Clients

    def _begin(self, kind: str, word: str) -> None:
        url = self._draw.choice(self._servers).client.base_url
        ask: Callable[[httpx2.Client, str], None] = getattr(self, f"_ask_{kind}")

        def work() -> None:
            # A server that is down, or goes down, is no problem by itself.
            client = httpx2.Client(base_url=url, timeout=SECONDS)
            with suppress(httpx2.HTTPError), client:
                ask(client, word)

        thread = threading.Thread(target=work, name=f"{kind} {word}", daemon=True)
        thread.start()
        self._clients.append(thread)

    def _note(self, id: str, *, is_background: bool) -> None:
        with self._lock:
            self._begun[id] = is_background

    def _ask_whole(self, client: httpx2.Client, word: str) -> None:
        answer = client.post("/responses", json={"input": word})
        if answer.status_code == 200:
            self._completed[answer.json()["id"]] = answer.json()["output"]

    def _ask_background(self, client: httpx2.Client, word: str) -> None:
        answer = client.post("/responses", json={"input": word, "background": True})
        if answer.status_code == 200:
            self._note(answer.json()["id"], is_background=True)

    def _ask_cancel(self, client: httpx2.Client, word: str) -> None:
        answer = client.post("/responses", json={"input": "slow", "background": True})
        if answer.status_code == 200:
            id = answer.json()["id"]
            self._note(id, is_background=True)
            client.post(f"/responses/{id}/cancel")

    def _ask_stream(self, client: httpx2.Client, word: str) -> None:
        self._follow(client, word, most=1_000)

    def _ask_leave(self, client: httpx2.Client, word: str) -> None:
        self._follow(client, word, most=3)

    def _follow(self, client: httpx2.Client, word: str, most: int) -> None:
        event: dict[str, Any] = {}
        count = 0
        body = {"input": word, "stream": True}
        with client.stream("POST", "/responses", json=body) as answer:
            if answer.status_code != 200:
                return
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    event = json.loads(line.removeprefix("data: "))
                    count += 1
                    if event["type"] == "response.created":
                        self._note(event["response"]["id"], is_background=False)
                    if count == most:
                        return
        if event.get("type") not in LAST_EVENTS:
            self.problems.append(f"a stream ended with {event.get('type')}")
        elif event["type"] == "response.completed":
            self._completed[event["response"]["id"]] = event["response"]["output"]

    def _ask_conversation(self, client: httpx2.Client, word: str) -> None:
        made = client.post("/conversations", json={})
        if made.status_code != 200:
            return
        id, texts = made.json()["id"], list[str]()
        self._items[id] = texts
        for index in range(5):
            item = {"role": "user", "content": f"{word} {index}"}
            if client.post(f"/conversations/{id}/items", json={"items": [item]}).status_code == 200:
                texts.append(item["content"])

    # The end

    def _check(self) -> None:
        end = time.monotonic() + SECONDS
        for thread in self._clients:
            thread.join(max(0, end - time.monotonic()))
            if thread.is_alive():
                self.problems.append(f"a client has no end: {thread.name}")
        for index, server in enumerate(self._servers):
            while not self._is_ready(server):
                if time.monotonic() > end:
                    self.problems.append(f"server {index} does not become ready")
                    return
                if server.process.poll() is not None:  # it could not start while a fault lasted
                    server.close(signal.SIGKILL)
                    self._servers[index] = server = self._started()
                time.sleep(0.2)
        for server in self._servers:
            self._check_stored(server.client, time.monotonic() + SECONDS)

    def _is_ready(self, server: Server) -> bool:
        try:
            return server.client.get("../ready").status_code == 200
        except httpx2.HTTPError:
            return False

    def _check_stored(self, client: httpx2.Client, end: float) -> None:
        for id, is_background in self._begun.items():
            answer = client.get(f"/responses/{id}")
            while answer.status_code == 200 and answer.json()["status"] not in ENDED:
                if time.monotonic() > end:
                    self.problems.append(f"{id} is {answer.json()['status']} for ever")
                    break
                time.sleep(0.2)
                answer = client.get(f"/responses/{id}")
            # One whose client has gone, or read an error, need not be stored.
            if answer.status_code != 200 and (is_background or answer.status_code != 404):
                self.problems.append(f"{id} was begun, and is {answer.status_code}")
        for id, output in self._completed.items():
            answer = client.get(f"/responses/{id}")
            if answer.status_code != 200 or answer.json()["output"] != output:
                self.problems.append(f"{id} was completed, and is {answer.status_code}")
        for id, texts in self._items.items():
            answer = client.get(f"/conversations/{id}/items?order=asc&limit=100")
            found = [item["content"][0]["text"] for item in answer.json().get("data", [])]
            if [text for text in found if text in texts] != texts:
                self.problems.append(f"{id} has {found}, not {texts}")
