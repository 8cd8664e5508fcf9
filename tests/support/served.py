"""The real server on a real socket, for tests: in a thread of the test, or as a process."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpt_oss_harmony.engines import Engine
from gpt_oss_harmony.server import Settings, create_app
from gpt_oss_harmony.server.app import make_server
from gpt_oss_harmony.tools.tool import Tool

if TYPE_CHECKING:
    from openai import OpenAI

PATIENCE = 60
"""Seconds to wait for what a machine under load has done in a few."""

PROGRAM_PATIENCE = 20 * PATIENCE
"""Seconds after which a program has hung, however many others share the cores."""

WEATHER_PARAMETERS = {
    "type": "object",
    "properties": {
        "location": {
            "type": "string",
            "description": "The city and state, e.g. San Francisco, CA",
        },
        "format": {"type": "string", "enum": ["celsius", "fahrenheit"]},
    },
    "required": ["location"],
}
WEATHER = {
    "type": "function",
    "name": "get_current_weather",
    "description": "Gets the current weather in the provided location.",
    "parameters": WEATHER_PARAMETERS,
}
CHAT_WEATHER = {
    "type": "function",
    "function": {key: value for key, value in WEATHER.items() if key != "type"},
}


_STARTED = re.compile(r"^serving .* at (http://\S+)$", re.MULTILINE)


@contextmanager
def serving(
    engine: Engine, settings: Settings | None = None, tools: Sequence[Tool[Any]] = ()
) -> Iterator[str]:
    """Serve in a thread; the root of the API is given, as in ``http://127.0.0.1:4711/v1``.

    At the end the server shuts down as a signal would make it; the engine goes on.
    """
    settings = settings or Settings()
    server = make_server(create_app(engine, settings, tools), settings)
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        failures: list[BaseException] = []

        def run() -> None:
            try:
                asyncio.run(server.serve(sockets=[listener]))
            except BaseException as error:  # noqa: BLE001 - told to the test, below
                failures.append(error)

        thread = threading.Thread(target=run, name="server")
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the server does not end"
            assert not failures, failures


def at_once(flows: Mapping[str, Callable[[], None]]) -> dict[str, Future[None]]:
    """Run flows of clients at once, which is how a server is used, and faster; wait for all."""
    with ThreadPoolExecutor(len(flows)) as pool:
        return {name: pool.submit(flow) for name, flow in flows.items()}


def sdk(url: str, key: str = "none") -> OpenAI:
    """Return a client of OpenAI's SDK that does not try again; to be closed."""
    from openai import OpenAI  # most who serve speak in other ways

    return OpenAI(base_url=url, api_key=key, max_retries=0, timeout=PATIENCE)


class ServerProcess:
    """``harmony serve`` as a process; `url` is the root of its API, `log` its standard error.

    `launcher` are arguments of Python that start the program, such as those of torchrun.
    """

    def __init__(
        self, state: Path, cache: Path, *arguments: str, launcher: Sequence[str] = ()
    ) -> None:
        self.log: list[str] = []
        self._told = threading.Event()
        self.process = subprocess.Popen(
            [sys.executable, *launcher, "-m", "gpt_oss_harmony", "serve", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "XDG_STATE_HOME": str(state),
                "XDG_CACHE_HOME": str(cache),
            },
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def url(self) -> str:
        """Wait until it serves; on busy cores, only to import PyTorch takes more than a minute."""
        assert self._told.wait(5 * PATIENCE), "the server does not start"
        found = _STARTED.search("".join(self.log))
        assert found is not None, self.log
        return found[1]

    def ended(self) -> int:
        """Wait until it has ended; return its exit status."""
        status = self.process.wait(PATIENCE)
        self._reader.join()
        return status

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.log.append(line)
                if _STARTED.match(line):
                    self._told.set()
        self._told.set()


@contextmanager
def server_process(
    state: Path, cache: Path, *arguments: str, launcher: Sequence[str] = ()
) -> Iterator[ServerProcess]:
    """Run ``harmony serve`` with its state and the folder of the demo model under these folders.

    At the end it is killed, unless it has ended.
    """
    server = ServerProcess(state, cache, *arguments, launcher=launcher)
    try:
        yield server
    finally:
        server.process.kill()
        server.ended()
