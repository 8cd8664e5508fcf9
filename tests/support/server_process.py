"""Servers as processes that count for ever, or say hello, and a client for each."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx2

from gpt_oss_harmony.server import Settings, create_app, run_server
from support.counting_engine import COUNT, CountingEngine
from support.responses_server import TEXT, THOUGHT
from support.served import PATIENCE

__all__ = ["COMPLETION", "Server", "deltas", "running_server"]

COMPLETION = THOUGHT + TEXT


def main() -> None:
    """Serve in this process; the argument has the settings as JSON."""
    settings = Settings(**json.loads(sys.argv[1]), shutdown_seconds=0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        app = create_app(CountingEngine(COMPLETION), settings)
        asyncio.run(run_server(app, settings, listener))


class Server:
    """A process that serves a script."""

    def __init__(
        self, database: str, key_file: Path, module: str, settings: Any, function: str = "main"
    ) -> None:
        options = {**settings, "database": database, "key_file": str(key_file)}
        paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"from {module} import {function}; {function}()",
                json.dumps(options),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )

    @cached_property
    def client(self) -> httpx2.Client:
        assert self.process.stdout is not None
        port = int(self.process.stdout.readline())
        # The socket listens already: the first request waits until the server is ready.
        return httpx2.Client(base_url=f"http://127.0.0.1:{port}/v1", timeout=PATIENCE)

    def respond(self, **body: Any) -> dict[str, Any]:
        answer = self.client.post("/responses", json=body)
        assert answer.status_code == 200, answer.text
        response: dict[str, Any] = answer.json()
        return response

    def response(self, id: str) -> dict[str, Any]:
        response: dict[str, Any] = self.client.get(f"/responses/{id}").json()
        return response

    def begin_in_background(self) -> str:
        """Begin a response that never ends by itself; return its id once it is under way."""
        id: str = self.respond(input=COUNT, background=True)["id"]
        with closing(self.events(id)) as events:
            next(event for event in events if event["type"] == "response.output_text.delta")
        return id

    def events(self, id: str, after: int | None = None) -> Generator[dict[str, Any], None, None]:
        """Read the events of a response above a number, as they come."""
        more = {} if after is None else {"starting_after": after}
        with self.client.stream(
            "GET", f"/responses/{id}", params={"stream": True, **more}
        ) as answer:
            assert answer.status_code == 200, answer.read()
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    yield json.loads(line.removeprefix("data: "))

    @property
    def running(self) -> int:
        """The completions at its engine."""
        count: int = self.client.get("../health").json()["running"]
        return count

    def end(self, number: int) -> None:
        self.process.send_signal(number)
        self.process.wait(PATIENCE)

    def close(self, number: int) -> None:
        """End the process by a signal, and all that was open to it."""
        self.end(number)
        self.client.close()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def running_server(
    database: str, key_file: Path, module: str = __name__, **settings: Any
) -> Iterator[Server]:
    """Run `main` of a module in a process until the end of the block."""
    with ExitStack() as opened:
        started = Server(database, key_file, module, settings)
        opened.enter_context(started.process)
        opened.callback(started.process.kill)
        opened.callback(lambda: started.client.close())
        yield started


def deltas(events: Iterator[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Read events up to so many pieces of text."""
    read = []
    for event in events:
        read.append(event)
        count -= event["type"] == "response.output_text.delta"
        if not count:
            break
    return read
