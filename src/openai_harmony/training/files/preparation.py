"""A data set to a folder of shards, with all cores; shards that exist are not made again.

::

    OUT/data/train-00000.parquet ...    the examples, in the order of the rows
    OUT/rejected.jsonl                  the rows without examples, with the reason
    OUT/megatron                        the same examples for Megatron, if the settings say so
    OUT/report.json, report.svg         counts of tokens
    OUT/README.md                       the same as text; from it `datasets` finds the data
    OUT/.harmony                        what was made of what, so that a preparation can go on
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ... import __version__
from ...apis.current_date import TODAY
from .megatron import write_megatron
from .report import TokenReport, write_plot
from .shards import PrepareSettings, Shard, prepare_shard, read_shard
from .sources import (
    CHUNK_BYTES,
    TEMPORARY,
    Chunk,
    OutputError,
    SourceError,
    UnpackedFiles,
    atomic_file,
    find_chunks,
    find_files,
)

__all__ = ["Preparation", "Runner", "ShardJob", "prepare"]

_MANIFEST = "manifest.json"

_CARD = """\
---
configs:
  - config_name: default
    data_files: data/*.parquet
---

# Training data in the harmony format

Made by `harmony prepare`, gpt-oss-harmony {version}.

```text
{report}
```
{picture}"""
"""The description of a data set, as hubs and `datasets` read it."""


@dataclass(frozen=True)
class ShardJob:
    """A shard to be made; a worker needs nothing else."""

    number: int
    chunk: Chunk
    settings: PrepareSettings
    out: Path

    def run(self) -> Shard:
        """Make the shard."""
        data, state = _data(self.out), _state(self.out)
        return prepare_shard(self.number, self.chunk, self.settings, data, state)


Runner: TypeAlias = Callable[[Sequence[ShardJob]], Iterable[Shard]]
"""Makes shards, in any order."""


@dataclass(frozen=True)
class Preparation:
    """The folder that was made, and counts of its tokens."""

    out: Path
    report: TokenReport


def prepare(
    source: Path,
    out: Path,
    settings: PrepareSettings | None = None,
    *,
    workers: int | None = None,
    runner: Runner | None = None,
    watch: Callable[[int, int], None] | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> Preparation:
    """Make training data of a file or a folder; a preparation that was interrupted goes on.

    Where the settings leave the date to today, a preparation that goes on keeps the date on which
    it began.

    `workers` are processes, as many as there are cores unless given; or a `runner` makes the
    shards, such as `ray_runner`. After each shard, `watch` is called with the bytes that are done,
    and all there are. Raises `SourceError` where the source cannot be read, or where `out` holds
    something else, `OutputError` where it cannot be written.
    """
    if out.resolve().is_relative_to(source.resolve()):
        raise SourceError(f"{out} is inside of {source}; give a folder elsewhere for the output")
    earlier = _read_manifest(out)
    begun = TODAY if earlier is None else earlier["settings"]["start_date"]
    settings = (settings or PrepareSettings()).dated(begun)
    files = find_files(source)
    stats = {str(file.path): file.path.stat() for file in files}
    manifest = {  # all that decides what the shards are
        "version": __version__,
        "settings": settings.as_json(),
        "files": {path: [stat.st_size, stat.st_mtime_ns] for path, stat in stats.items()},
        "chunk_bytes": chunk_bytes,
    }
    _begin(out, manifest, earlier)
    state = _state(out)
    unpacked = UnpackedFiles(state / "unpacked")
    chunks = find_chunks(files, chunk_bytes, unpacked)
    jobs = [ShardJob(number, chunk, settings, out) for number, chunk in enumerate(chunks)]
    stored = (read_shard(job.number, state) for job in jobs)
    shards = {shard.number: shard for shard in stored if shard is not None}
    missing = [job for job in jobs if job.number not in shards]
    needed = {job.chunk.path for job in missing if job.chunk.copy}
    for file in files:
        if str(file.path) in needed:
            unpacked.unpack(file.number, file.path)
    total = sum(chunk.size for chunk in chunks)
    done = sum(chunks[number].size for number in shards)
    for shard in (runner or local_runner(workers))(missing):
        shards[shard.number] = shard
        done += chunks[shard.number].size
        if watch is not None:
            watch(done, total)
    preparation = _finish(out, chunks, [shards[job.number] for job in jobs])
    if settings.megatron:
        write_megatron(_data(out), out / "megatron")
    unpacked.remove()
    return preparation


def local_runner(workers: int | None = None) -> Runner:
    """Make shards in processes of this machine; a single worker is this process."""
    count = workers or os.cpu_count() or 1

    def run(jobs: Sequence[ShardJob]) -> Iterator[Shard]:
        if count == 1 or len(jobs) < 2:
            yield from (job.run() for job in jobs)
            return
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(count, len(jobs)), context, _begin_worker) as pool:
            futures = [pool.submit(job.run) for job in jobs]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                pool.shutdown(cancel_futures=True)

    return run


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, so that shards under way are finished, and end where it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()  # also returns if it was killed, which no signal handler notices
        os._exit(1)


def _data(out: Path) -> Path:
    return out / "data"


def _state(out: Path) -> Path:
    return out / ".harmony"


def _read_manifest(out: Path) -> dict[str, Any] | None:
    try:
        manifest: dict[str, Any] = json.loads((_state(out) / _MANIFEST).read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return manifest


def _begin(out: Path, manifest: dict[str, Any], earlier: dict[str, Any] | None) -> None:
    if earlier is None and out.exists() and any(out.iterdir()):
        raise SourceError(f"{out} is not empty; give another folder for the output")
    if earlier not in (None, manifest):
        raise SourceError(
            f"{out} holds what was made of other rows or with other options; "
            "give another folder for the output, or remove this one"
        )
    state = _state(out)
    try:
        _data(out).mkdir(parents=True, exist_ok=True)
        state.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(error.errno, f"{out}: {error.strerror}") from error
    with atomic_file(state / _MANIFEST) as path:
        path.write_text(json.dumps(manifest), encoding="utf-8")


def _finish(out: Path, chunks: Sequence[Chunk], shards: Sequence[Shard]) -> Preparation:
    """Put the counts and the rejected rows of all shards together."""
    report = TokenReport()
    lines: Counter[str] = Counter()  # of each file, before the shard
    with (
        atomic_file(out / "rejected.jsonl") as rejected_path,
        open(rejected_path, "w", encoding="utf-8") as file,
    ):
        for chunk, shard in zip(chunks, shards, strict=True):
            report.add(shard.report)
            path = _state(out) / f"{shard.number:05}.rejected.jsonl"
            with open(path, encoding="utf-8") as rejected:
                for text in rejected:
                    entry = json.loads(text)
                    entry["line"] += lines[chunk.path] + 1  # lines count from 1 in their file
                    file.write(json.dumps(entry) + "\n")
            lines[chunk.path] += shard.lines
    with atomic_file(out / "report.json") as path:
        path.write_text(json.dumps(report.as_json(), indent=2) + "\n")
    plotted = write_plot(report, out / "report.svg")
    picture = "\n![Tokens by channel, and examples by length](report.svg)\n" if plotted else ""
    card = _CARD.format(version=__version__, report=report.text(), picture=picture)
    with atomic_file(out / "README.md") as path:
        path.write_text(card, encoding="utf-8")
    for folder in (_data(out), _state(out)):
        for left in folder.glob(f"*{TEMPORARY}"):  # by workers that were killed
            left.unlink()
    return Preparation(out, report)
