"""Shards made in this process, or in processes of this machine that can be ended at any time.

A worker process receives a job, reports the bytes that it has read, and returns the shard, all over
one pipe. Ctrl-C and SIGTERM reach the parent only. The parent then kills its workers: what they
were writing has temporary names, so nothing is half done. Workers also end if the parent is killed.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TypeAlias

from .addresses import RemotePath
from .duplicates import ShardDuplicates
from .shards import PrepareSettings, Shard, prepare_shard
from .sources import Chunk

SMALL_BYTES = 1024 * 1024
"""A single chunk up to this size runs without another process: it takes less than a second."""


@dataclass(frozen=True)
class ShardJob:
    """A shard to be made; a worker needs nothing else.

    - `duplicates`: the digest of the file with the duplicates of the shard, if it has some.
    - `with_keys`: whether to write the keys by which duplicates are found.
    """

    number: int
    chunk: Chunk
    settings: PrepareSettings
    out: Path | RemotePath
    duplicates: str | None = None
    with_keys: bool = False

    def run(self, on_read: Callable[[int], None] | None = None) -> Shard:
        """Make the shard; `on_read` is called with the bytes of the chunk that have been read."""
        if isinstance(self.out, Path):
            return self._make(self.out, on_read)
        with tempfile.TemporaryDirectory(prefix="harmony-shard-") as name:
            folder = Path(name)
            for part in ("data", ".harmony"):
                (folder / part).mkdir()
            shard = self._make(folder, on_read)
            data = f"train-{self.number:05}.parquet"
            if self.duplicates is not None and not (folder / "data" / data).exists():
                (self.out / "data" / data).remove()
            # The last file marks the shard as done, as on a disk.
            # Backwards, `.json` follows `.rejected.jsonl` and `.keys.npz`.
            for file in [*folder.glob("data/*"), *sorted(folder.glob(".harmony/*"), reverse=True)]:
                (self.out / file.parent.name / file.name).upload(file)
        return shard

    def _make(self, out: Path, on_read: Callable[[int], None] | None) -> Shard:
        data, state = out / "data", out / ".harmony"
        duplicates = None
        if self.duplicates is not None:
            name = f"{self.number:05}.duplicates.jsonl"
            with (self.out / ".harmony" / name).open("rb") as file:
                duplicates = ShardDuplicates.read(self.duplicates, file)
        return prepare_shard(
            self.number,
            self.chunk,
            self.settings,
            data,
            state,
            on_read,
            duplicates=duplicates,
            with_keys=self.with_keys,
        )


OnRead: TypeAlias = Callable[[ShardJob, int], None]
"""A function that is called with a running job and the number of bytes read from its chunk."""

Runner: TypeAlias = Callable[[Sequence[ShardJob], OnRead | None], Generator[Shard, None, None]]
"""A function that makes shards in any order. Closing the generator ends all work."""


class WorkerError(RuntimeError):
    """A worker process was killed, or raised an exception; the message is its traceback."""


def local_runner(workers: int | None = None) -> Runner:
    """Make shards with as many workers as there are cores, unless given.

    A single worker or a single shard needs no other process; the work is done in this one.
    """

    def run(jobs: Sequence[ShardJob], on_read: OnRead | None) -> Generator[Shard, None, None]:
        if (workers or os.cpu_count()) == 1 or len(jobs) < 2:
            yield from _in_this_process(jobs, on_read)
        else:
            yield from process_runner(workers)(jobs, on_read)

    return run


def process_runner(workers: int | None = None) -> Runner:
    """Make shards in other processes only, so that Ctrl-C never has to wait for a long row.

    A single small chunk is the exception. Raises `WorkerError` where a process is killed.
    """

    def run(jobs: Sequence[ShardJob], on_read: OnRead | None) -> Generator[Shard, None, None]:
        if len(jobs) < 2 and all(job.chunk.size <= SMALL_BYTES for job in jobs):
            yield from _in_this_process(jobs, on_read)
            return
        waiting = list(reversed(jobs))
        busy: dict[Connection, ShardJob] = {}
        with _worker_processes(min(workers or os.cpu_count() or 1, len(jobs))) as idle:
            while waiting or busy:
                while waiting and idle:
                    connection, job = idle.pop(), waiting.pop()
                    with _worker_errors():
                        connection.send((job, on_read is not None))
                    busy[connection] = job
                ready = wait(busy)
                for connection in [connection for connection in busy if connection in ready]:
                    answer = _received(connection)
                    if isinstance(answer, Shard):
                        del busy[connection]
                        idle.append(connection)
                        yield answer
                    elif on_read is not None:
                        on_read(busy[connection], answer)

    return run


def _in_this_process(
    jobs: Sequence[ShardJob], on_read: OnRead | None
) -> Generator[Shard, None, None]:
    for job in jobs:
        yield job.run(None if on_read is None else functools.partial(on_read, job))


def _received(connection: Connection) -> Shard | int:
    """Receive a shard or the bytes read; raises the exception of the worker, or `WorkerError`."""
    with _worker_errors():
        answer: Shard | int | tuple[Exception, str] = connection.recv()
    if isinstance(answer, tuple):
        error, text = answer
        raise error from WorkerError(text)
    return answer


@contextlib.contextmanager
def _worker_errors() -> Iterator[None]:
    """Raise `WorkerError` where a pipe has no other end any more."""
    try:
        yield
    except (EOFError, OSError):
        raise WorkerError("a worker process was killed") from None


@contextlib.contextmanager
def _worker_processes(count: int) -> Iterator[list[Connection]]:
    """Start processes; yield a connection to each. They end with the block, at once if it fails."""
    context = multiprocessing.get_context("spawn")
    processes = []
    connections = []
    try:
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs,), daemon=True)
            with _signals_blocked():
                process.start()
                processes.append(process)
            theirs.close()  # only the worker holds it, so that its end is noticed
            connections.append(ours)
        yield list(connections)
    except BaseException:
        for process in processes:
            process.kill()
        raise
    finally:
        for connection in connections:
            connection.close()
        for process in processes:
            process.join()


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block Ctrl-C and SIGTERM; a process that is started inherits that, and keeps it."""
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # it unblocks them when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In a worker


def _work(connection: Connection) -> None:
    """Run jobs until the parent closes the connection."""
    if sys.platform == "win32":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            job, reports = connection.recv()
        except EOFError:
            return
        try:
            connection.send(job.run(connection.send if reports else None))
        except Exception as error:  # noqa: BLE001 - the parent raises it
            connection.send((error, traceback.format_exc()))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()  # also returns if it was killed, which no signal handler notices
        os._exit(1)
