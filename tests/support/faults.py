"""Faults of one machine: databases, disks and processes, and schedules of them drawn at random.

A schedule starts servers of one database and sends requests while servers are killed, told to end
or frozen, the database is away, cut off or without room, the engine fails, and clients leave. Then
everything is repaired. `Schedule.problems` lists what did not end and what was lost.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import psycopg
import pytest
from sqlalchemy import make_url

from gpt_oss_harmony.engines import EngineError, SampledToken, Sampling
from gpt_oss_harmony.server import Settings, create_app, run_server
from gpt_oss_harmony.server.http.requests import cancel_all
from support.responses_server import TEXT, THOUGHT
from support.scripted_engine import ENCODING, ScriptedEngine
from support.server_process import Server

__all__ = ["Network", "Schedule", "away", "database_on", "small_disk"]

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
def small_disk(mebibytes: int) -> Iterator[Path]:
    """Mount a disk of this size, which every user reaches; only root can."""
    # Not in a folder of pytest, which each of its runs closes to other users.
    path = Path(tempfile.mkdtemp(prefix="harmony-disk-"))
    path.chmod(0o711)
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "none", str(path)]
    try:
        if subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip("this system mounts no disk")
        try:
            yield path
        finally:
            subprocess.run(["umount", "--lazy", str(path)], check=True)
    finally:
        path.rmdir()


@contextmanager
def database_on(disk: Path, server: str) -> Iterator[str]:
    """Make a database of PostgreSQL whose tables are on a disk."""
    place = disk / "tables"
    place.mkdir()
    # PostgreSQL runs as another user if the tests run as root.
    shutil.chown(place, "nobody")
    name = f"small_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE TABLESPACE {name} LOCATION '{place}'".encode())
        # The other strategy leaves holes in the files, for pages that are written later.
        admin.execute(f"CREATE DATABASE {name} TABLESPACE {name} STRATEGY file_copy".encode())
        try:
            yield make_url(server).set(database=name).render_as_string(hide_password=False)
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
            admin.execute(f"DROP TABLESPACE {name}".encode())


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


class Network:
    """A network between a server and PostgreSQL; it can fall silent, or lose its connections.

    `url` is that of the database through this network. PostgreSQL sees at once that a connection is
    lost; the server sees it when the network is back.
    """

    def __init__(self, url: str) -> None:
        beyond = make_url(url)
        host, port = beyond.query.get("host", beyond.host), beyond.port or 5432
        self._beyond = (str(host), port)
        self._loop = asyncio.new_event_loop()
        self._is_up = asyncio.Event()
        self._is_up.set()
        self._lost: set[asyncio.StreamWriter] = set()
        self._listener = self._loop.run_until_complete(
            asyncio.start_server(self._connect, "127.0.0.1", 0)
        )
        here = self._listener.sockets[0].getsockname()[1]
        query = {name: value for name, value in beyond.query.items() if name != "host"}
        through = beyond.set(host="127.0.0.1", port=here, query=query)
        self.url = through.render_as_string(hide_password=False)
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    @contextmanager
    def silent(self, *, loses_connections: bool = False) -> Iterator[None]:
        """Carry nothing; with `loses_connections`, PostgreSQL loses those that are open."""
        self._loop.call_soon_threadsafe(self._is_up.clear)
        if loses_connections:
            self._loop.call_soon_threadsafe(self._lose)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._is_up.set)

    def close(self) -> None:
        """End, with all connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._listener.close()
        self._loop.run_until_complete(cancel_all(*asyncio.all_tasks(self._loop)))
        self._loop.close()

    def _lose(self) -> None:
        for writer in self._lost:
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._beyond
        with closing(writer):
            await self._is_up.wait()
            if host.startswith("/"):
                opened = asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
            else:
                opened = asyncio.open_connection(host, port)
            answers, beyond = await opened
            self._lost.add(beyond)
            with closing(beyond):
                try:
                    await asyncio.gather(self._carry(reader, beyond), self._carry(answers, writer))
                finally:
                    self._lost.discard(beyond)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._is_up.wait()
                writer.write(data)
                await writer.drain()
        await self._is_up.wait()
        writer.close()


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
    "postgresql": (
        *("kill", "end", "freeze", "away", "cut", "full", "nothing"),
        *("silence", "partition"),  # of one server's network to the database
    ),
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
        self._networks: list[Network] = []
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
            self._disk = opened.enter_context(small_disk(96))
            if self.database == "sqlite":
                self._url = f"sqlite:///{self._disk / 'harmony.db'}"
                self._urls = [self._url]
            else:
                self._url = opened.enter_context(database_on(self._disk, self._postgres))
                for _ in range(self._count):
                    self._networks.append(opened.enter_context(closing(Network(self._url))))
                self._urls = [network.url for network in self._networks]
            opened.callback(self._kill_all)
            self._servers += [self._started(index) for index in range(self._count)]
            for server in self._servers:
                server.client.get("../ready")
            for step in self.steps:
                for kind, word in step.requests:
                    self._begin(kind, word)
                time.sleep(step.after)
                self._break(step)
            self._check()
        return self.problems

    def _started(self, index: int) -> Server:
        server = Server(self._urls[index], self._folder / "sealing.key", "support.faults", {})
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
            self._servers[step.server] = self._started(step.server)
        elif step.fault == "freeze":
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(step.lasting)
            server.process.send_signal(signal.SIGCONT)
        elif step.fault == "away":
            self._is_ready(server)  # one that is starting would make a new file of SQLite
            with away(self._url):
                time.sleep(step.lasting)
        elif step.fault == "full":
            with _full(self._disk):
                time.sleep(step.lasting)
        elif step.fault in ("silence", "partition"):
            network = self._networks[step.server]
            with network.silent(loses_connections=step.fault == "partition"):
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
                    self._servers[index] = server = self._started(index)
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
