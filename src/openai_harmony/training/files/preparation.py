"""A data set to a folder of parts, with all cores; what was made is not made again.

::

    OUT/data/train-00000.parquet ...    the examples, in the order of the rows
    OUT/rejected.jsonl                  the rows that gave none, with the reason
    OUT/report.json, report.svg         what the tokens are
    OUT/README.md                       the same as text; it tells `datasets` where the data is
    OUT/.harmony                        what was made of what, so that it can go on
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ... import __version__
from .part import Part, prepare_part, read_part
from .report_plot import write_plot
from .settings import PrepareSettings
from .sources import CHUNK_BYTES, Chunk, SourceError, SourceFile, find_chunks, find_files
from .token_report import TokenReport
from .unpacked import UnpackedFiles

__all__ = ["Preparation", "Runner", "prepare"]


@dataclass(frozen=True)
class PartJob:
    """A part to be made; a worker needs nothing else."""

    number: int
    chunk: Chunk
    settings: PrepareSettings
    out: Path

    def run(self) -> Part:
        """Make the part."""
        data, state = _data(self.out), _state(self.out)
        return prepare_part(self.number, self.chunk, self.settings, data, state)


Runner: TypeAlias = Callable[[Sequence[PartJob]], Iterable[Part]]
"""Makes parts, in any order."""


@dataclass(frozen=True)
class Preparation:
    """What was made: where, and what the tokens are."""

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

    `workers` are processes, as many as there are cores unless given; or a `runner` makes the parts,
    such as `ray_runner`. `watch` is told, after each part, how many bytes are done, and how many
    there are. Raises `SourceError` where the source cannot be read, or where `out` holds something
    else.
    """
    settings = settings or PrepareSettings()
    if out.resolve().is_relative_to(source.resolve()):
        raise SourceError(f"{out} is inside of {source}; give a folder elsewhere for the output")
    files = find_files(source)
    _begin(out, _manifest(files, settings, chunk_bytes))
    unpacked = UnpackedFiles(_state(out) / "unpacked")
    chunks = find_chunks(files, chunk_bytes, unpacked)
    jobs = [PartJob(number, chunk, settings, out) for number, chunk in enumerate(chunks)]
    known = (read_part(job.number, _state(out)) for job in jobs)
    parts = {part.number: part for part in known if part is not None}
    missing = [job for job in jobs if job.number not in parts]
    needed = {job.chunk.path for job in missing if job.chunk.copy}
    for file in files:
        if str(file.path) in needed:
            unpacked.unpack(file.number, file.path)
    whole = sum(chunk.size for chunk in chunks)
    done = sum(chunks[number].size for number in parts)
    for part in (runner or local_runner(workers))(missing):
        parts[part.number] = part
        done += chunks[part.number].size
        if watch is not None:
            watch(done, whole)
    made = _finish(out, chunks, [parts[job.number] for job in jobs])
    unpacked.remove()
    return made


def local_runner(workers: int | None = None) -> Runner:
    """Make parts in processes of this machine; a single one needs none but this."""
    count = workers or os.cpu_count() or 1

    def run(jobs: Sequence[PartJob]) -> Iterator[Part]:
        if count == 1 or len(jobs) < 2:
            yield from (job.run() for job in jobs)
            return
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(
            min(count, len(jobs)), context, initializer=_ignore_interrupts
        ) as pool:
            futures = [pool.submit(job.run) for job in jobs]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                pool.shutdown(cancel_futures=True)

    return run


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that waits; parts under way are finished."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _data(out: Path) -> Path:
    return out / "data"


def _state(out: Path) -> Path:
    return out / ".harmony"


def _manifest(
    files: Sequence[SourceFile], settings: PrepareSettings, chunk_bytes: int
) -> dict[str, Any]:
    """All that decides what the parts are."""
    stats = {str(file.path): file.path.stat() for file in files}
    return {
        "version": __version__,
        "settings": settings.as_json(),
        "files": {path: [stat.st_size, stat.st_mtime_ns] for path, stat in stats.items()},
        "chunk_bytes": chunk_bytes,
    }


def _begin(out: Path, manifest: dict[str, Any]) -> None:
    state = _state(out)
    path = state / "manifest.json"
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if out.exists() and any(out.iterdir()):
            raise SourceError(f"{out} is not empty; give another folder for the output") from None
    else:
        if known != manifest:
            raise SourceError(
                f"{out} holds what was made of other rows or with other options; "
                "give another folder for the output, or remove this one"
            )
    _data(out).mkdir(parents=True, exist_ok=True)
    state.mkdir(exist_ok=True)
    path.write_text(json.dumps(manifest), encoding="utf-8")


def _finish(out: Path, chunks: Sequence[Chunk], parts: Sequence[Part]) -> Preparation:
    report = TokenReport()
    for part in parts:
        report.add(part.report)
    _write_rejected(out, chunks, parts)
    (out / "report.json").write_text(json.dumps(report.as_json(), indent=2) + "\n")
    plotted = write_plot(report, out / "report.svg")
    (out / "README.md").write_text(_card(report, plotted), encoding="utf-8")
    return Preparation(out, report)


def _write_rejected(out: Path, chunks: Sequence[Chunk], parts: Sequence[Part]) -> None:
    """Put the rejected rows of all parts together; lines count from 1 in their file."""
    lines: dict[str, int] = {}
    with open(out / "rejected.jsonl", "w", encoding="utf-8") as file:
        for chunk, part in zip(chunks, parts, strict=True):
            before = lines.get(chunk.path, 0)
            with open(_state(out) / f"{part.number:05}.rejected.jsonl", encoding="utf-8") as found:
                for text in found:
                    entry = json.loads(text)
                    entry["line"] += before + 1
                    file.write(json.dumps(entry) + "\n")
            lines[chunk.path] = before + part.lines


def _card(report: TokenReport, plotted: bool) -> str:
    """Describe the data set as hubs and `datasets` read it."""
    picture = "\n![Tokens by channel, and examples by length](report.svg)\n" if plotted else ""
    return f"""\
---
configs:
  - config_name: default
    data_files: data/*.parquet
---

# Training data in the harmony format

Made by `harmony prepare`, gpt-oss-harmony {__version__}.

```text
{report.text()}
```
{picture}"""
