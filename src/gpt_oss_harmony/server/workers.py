"""Several processes that serve one port, one database and one engine.

The process that starts them is their `Hub`. If one dies, it starts another.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, TypeAlias

from prometheus_client.multiprocess import mark_process_dead

from ..engines.engine import Engine, EngineError
from .admission import Admission
from .cluster.hub import Hub
from .http.requests import cancel_all
from .settings import Settings
from .store import Store

__all__ = ["Work", "serve_in_workers", "socket_folder"]

_LOG = logging.getLogger(__name__)

_FOLDER, _LOCK = "harmony-", "server.lock"
_METRICS = "PROMETHEUS_MULTIPROC_DIR"  # prometheus_client's folder for the metrics of all processes
_STARTING_SECONDS = 10.0  # a worker that fails sooner would fail again
_PAUSE = 0.5  # seconds before another worker is started
_KILLING_SECONDS = 10.0  # after the shutdown time of requests

Work: TypeAlias = "Callable[[Path, socket.socket], None]"
"""A picklable function that serves in a process, with `create_app` and a `Worker` of the folder."""


async def serve_in_workers(
    count: int,
    work: Work,
    engine: Engine | None,
    settings: Settings,
    listener: socket.socket,
    on_start: Callable[[], object] = lambda: None,
) -> None:
    """Serve until SIGINT or SIGTERM; call `on_start` when all workers serve.

    The workers share `engine`; if it is None, each connects to an engine server itself. Raises
    `EngineError` if the workers do not start.
    """
    with ExitStack() as opened:
        folder = opened.enter_context(socket_folder())
        (folder / "metrics").mkdir()
        # This process owns a SQLite file for all workers; the tables are made once.
        store = opened.enter_context(await asyncio.to_thread(Store, settings.database))
        await asyncio.to_thread(store.start_serving)
        hub = Hub(folder, engine, Admission(settings.max_running, settings.max_waiting))
        await hub.open()
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopping.set)
            opened.callback(loop.remove_signal_handler, number)
        workers = _Workers(work, folder, listener, hub, stopping)
        tasks: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(workers.keep_one()) for _ in range(count)
        ]
        tasks.append(asyncio.ensure_future(stopping.wait()))
        starting = asyncio.ensure_future(hub.has_workers(count))
        starting.add_done_callback(lambda task: task.cancelled() or on_start())
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            stopping.set()
            await workers.end(settings.shutdown_seconds + _KILLING_SECONDS)
            await cancel_all(starting, *tasks)
            await hub.close()


@contextmanager
def socket_folder(parent: Path | None = None) -> Generator[Path, None, None]:
    """Make a folder for the sockets of this server's processes, and remove it at the end.

    Folders that servers left behind when they were killed are removed first: a server locks a file
    in its folder as long as it lives.
    """
    parent = parent or Path(tempfile.gettempdir())
    for left in parent.glob(f"{_FOLDER}*/{_LOCK}"):
        with suppress(OSError), left.open("rb") as lock:  # another user's, or one in use
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left.parent)
    with (
        tempfile.TemporaryDirectory(prefix=_FOLDER, dir=parent) as name,
        (Path(name) / f"new {_LOCK}").open("wb") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.rename(lock.name, Path(name) / _LOCK)  # others find it only when it is locked
        yield Path(name)


@dataclass
class _Workers:
    """The processes."""

    work: Work
    folder: Path
    listener: socket.socket
    hub: Hub
    stopping: asyncio.Event
    processes: set[SpawnProcess] = field(default_factory=set)

    async def keep_one(self) -> None:
        """Start a process, and a new one whenever it dies."""
        while True:
            begun = time.monotonic()
            process = self._start()
            await _ended(process)
            self.processes.discard(process)
            self.hub.forget(process.pid or 0)
            metrics = str(self.folder / "metrics")
            mark_process_dead(process.pid, metrics)  # type: ignore[no-untyped-call]
            code, lived = process.exitcode or 0, time.monotonic() - begun
            if self.stopping.is_set():
                return
            if code >= 0 and lived < _STARTING_SECONDS:
                raise EngineError(f"a worker ended while it started, with the exit code {code}")
            _LOG.warning("a worker ended with the exit code %s; another one is started", code)
            await asyncio.sleep(_PAUSE)

    def _start(self) -> SpawnProcess:
        # The environment is read when it starts; this process has no metrics of its own.
        os.environ[_METRICS] = str(self.folder / "metrics")
        try:
            process = multiprocessing.get_context("spawn").Process(
                target=self.work, args=(self.folder, self.listener)
            )
            process.start()
        finally:
            del os.environ[_METRICS]
        self.processes.add(process)
        return process

    async def end(self, seconds: float) -> None:
        """Tell all processes to end; kill those that still run after `seconds`."""
        ending = [asyncio.ensure_future(_ended(process)) for process in self.processes]
        for process in self.processes:
            process.terminate()
        if ending:
            await asyncio.wait(ending, timeout=seconds)
        for process in self.processes:
            process.kill()
        await asyncio.gather(*ending)


async def _ended(process: SpawnProcess) -> None:
    """Wait for the end of a process, without a thread."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    descriptor = os.dup(process.sentinel)  # two tasks may wait
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    process.join()
