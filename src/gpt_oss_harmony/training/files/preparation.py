"""A data set to a folder of shards, with all cores; shards that exist are not made again.

::

    OUT/data/train-00000.parquet ...    the examples, in the order of the rows
    OUT/rejected.jsonl                  the rows without examples, with the reason, if there are any
    OUT/reasons.jsonl                   each of these reasons, its count, and one row
    OUT/megatron                        the same examples for Megatron, if the settings say so
    OUT/report.json, report.svg         counts of tokens
    OUT/README.md                       the same as text
    OUT/.harmony                        the state, so that a preparation can continue
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ... import __version__
from ...apis.current_date import TODAY
from .addresses import OutputError, OutputFolderError, RemotePath, source_path
from .duplicates import ShardRows, check_near, find_duplicates
from .megatron import write_megatron
from .output_lock import LOCK_FILE, output_lock
from .processes import Runner, ShardJob, local_runner
from .report import REASONS_FILE, TokenReport, general_reason, write_plot
from .shards import PrepareSettings, Shard, read_shard
from .sources import (
    TEMPORARY,
    Chunk,
    SourceFiles,
    UnpackedFiles,
    atomic_file,
    find_chunks,
    source_files,
)

_MANIFEST = "manifest.json"
_DUPLICATES = "duplicates.json"
_KEYS = ".keys.npz"
_STATE = ".harmony"
_DATA = "data"
_REPORTS = ("rejected.jsonl", REASONS_FILE, "report.json", "report.svg", "README.md")

_CARD = """\
---
tags:
  - gpt-oss
  - harmony
---

# Training data in the harmony format

Made by `harmony prepare`, gpt-oss-harmony {version}.

```text
{report}
```
{picture}"""
"""The description of a data set, as hubs and `datasets` read it.

It names no files: `datasets` finds them by the word train. If a card names them, `datasets` 5.2
keeps the rows under the folder's name alone, and returns them for every folder of that name.
"""


class Progress(NamedTuple):
    """The progress of a preparation: the unpacked or read bytes of the input, and the total.

    While rows are read, `shards_done` and `shards` count the finished shards and all shards. The
    shards with duplicates are made again after that, in the step ``"deduplicate"``.
    """

    step: Literal["unpack", "read", "deduplicate"]
    done: int
    total: int
    shards_done: int = 0
    shards: int = 0


class Rejection(NamedTuple):
    """A row without examples: its line or row, counted from 1, and the reason."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True)
class Preparation:
    """The output folder, the counts of its tokens, and one rejected row for each reason."""

    out: Path | RemotePath
    report: TokenReport
    rejected: list[Rejection]


def prepare(
    source: Path | RemotePath | str,
    out: Path | RemotePath | str,
    settings: PrepareSettings | None = None,
    *,
    workers: int | None = None,
    runner: Runner | None = None,
    watch: Callable[[Progress], None] | None = None,
    chunk_bytes: int | None = None,
) -> Preparation:
    """Make training data from a file or a folder; continue an interrupted preparation.

    `source` and `out` may be addresses that fsspec opens, such as ``s3://bucket/rows``. Such a
    source is read where it lies. Such an output gets each shard when it is made; another machine
    can continue it.

    If the settings use today's date, a continued preparation keeps the date of its first start.

    - `workers`: the number of processes; the default is the number of cores. A `runner`, such as
      `ray_runner`, can make the shards instead.
    - `watch`: called about ten times a second if the runner reports so often, and after each shard.

    - `chunk_bytes`: the bytes of JSON lines in a shard; the default is 4 MB, or with `pack` the
      bytes of 128 sequences if they are more.

    Raises `SourceError` if the source cannot be read, `OutputFolderError` if `out` is no folder or
    contains other files, and `OutputError` if the output cannot be written.
    """
    place = source_path(source)
    settings = settings or PrepareSettings()
    runner = runner or local_runner(workers)
    target = source_path(out)
    if isinstance(target, Path):
        _check_folder(target, place)
        work = _Work(source_files(place), target, target, settings, runner, watch)
        with output_lock(target):
            return work.prepare(chunk_bytes)
    if settings.megatron:
        raise OutputFolderError(f"{out}: Megatron reads its files on a disk; give a folder")
    with tempfile.TemporaryDirectory(prefix="harmony-prepare-") as name:
        work = _Work(source_files(place), Path(name), target, settings, runner, watch)
        return replace(work.prepare(chunk_bytes), out=target)


def _check_folder(out: Path, source: Path | RemotePath) -> None:
    if isinstance(source, Path) and out.resolve() == source.resolve():
        raise OutputFolderError(f"{out} is the input itself; give another folder for the output")
    # Its shards would be rows of the input when the preparation goes on.
    if isinstance(source, Path) and out.resolve().is_relative_to(source.resolve()):
        raise OutputFolderError(f"{out} is inside {source}; give a folder elsewhere for the output")
    if out.exists() and not out.is_dir():
        raise OutputFolderError(f"{out} is a file; give a folder for the output")


def _download_state(target: Path | RemotePath, out: Path) -> None:
    """Bring what an address says about finished shards into the folder where it is read."""
    if isinstance(target, RemotePath):
        for name in (target / _STATE).names():
            if not (out / _STATE / name).exists():
                (out / _STATE).mkdir(exist_ok=True)
                (target / _STATE / name).download(out / _STATE / name)


@dataclass(frozen=True)
class _Work:
    """A preparation in the folder `out`: `target`, or one whose files are uploaded to it."""

    source: SourceFiles
    out: Path
    target: Path | RemotePath
    settings: PrepareSettings
    runner: Runner
    watch: Callable[[Progress], None] | None

    @property
    def state(self) -> Path:
        return self.out / _STATE

    def prepare(self, chunk_bytes: int | None) -> Preparation:
        """Make what is missing; the caller has the only preparation in the folder."""
        out, target = self.out, self.target
        _download_state(target, out)
        earlier = _read_json(self.state / _MANIFEST)
        begun = TODAY if earlier is None else earlier["settings"]["start_date"]
        settings = self.settings.dated(begun)
        if chunk_bytes is None:
            chunk_bytes = settings.chunk_bytes()
        stats = {str(file.path): file.path.stat() for file in self.source.read}
        manifest = {  # everything that determines the shards
            "version": __version__,
            "settings": settings.as_json(),
            "files": {path: [stat.st_size, stat.st_mtime_ns] for path, stat in stats.items()},
            "chunk_bytes": chunk_bytes,
        }
        if settings.deduplicate == "near":
            manifest["rensa"] = check_near()  # other versions may hash in another way
        _begin(out, target, manifest, earlier)
        _remove_unfinished(out)
        try:
            made = replace(self, settings=settings).make_files(chunk_bytes)
        finally:
            _remove_unfinished(out)
        if isinstance(target, RemotePath):
            for name in _REPORTS:
                if (out / name).exists():
                    (target / name).upload(out / name)
                else:
                    (target / name).remove()
        return made

    def make_files(self, chunk_bytes: int) -> Preparation:
        """Make the shards that are missing, and the files beside the data."""

        def on_unpacked(done: int, total: int) -> None:
            if self.watch is not None:
                self.watch(Progress("unpack", done, total))

        unpacked = UnpackedFiles(
            self.state / "unpacked",
            on_unpacked,
            ratio=self.settings.unpacked_ratio,
            total=self.settings.unpacked_bytes,
        )
        chunks = find_chunks(self.source.read, chunk_bytes, unpacked)
        shards = self.make_shards(chunks, unpacked)
        names = sorted({file.path.name for file in self.source.read})
        title = names[0] if len(names) == 1 else f"{len(names):,} files"
        preparation = _finish(self.out, title, self.source.unread, chunks, shards)
        if self.settings.megatron:
            write_megatron(self.out / _DATA, self.out / "megatron")
        unpacked.remove()
        return preparation

    def make_shards(self, chunks: Sequence[Chunk], unpacked: UnpackedFiles) -> list[Shard]:
        """Make the missing shards; then, if duplicates are rejected, make shards without them."""
        if self.settings.deduplicate is None:
            return self._make("read", self._jobs(chunks, {}), unpacked)
        known = _read_json(self.state / _DUPLICATES)
        if known is None:
            shards = self._make("read", self._jobs(chunks, None), unpacked)
            known = self._find_duplicates(chunks, shards)
        shards = self._make("deduplicate", self._jobs(chunks, known), unpacked)
        for path in self.state.glob(f"*{_KEYS}"):
            path.unlink()
        if isinstance(self.target, RemotePath):
            state = self.target / _STATE
            for name in state.names():
                if name.endswith(_KEYS):
                    (state / name).remove()
        return shards

    def _jobs(
        self, chunks: Sequence[Chunk], duplicates: Mapping[str, str] | None
    ) -> list[ShardJob]:
        """Return a job for each chunk; without known duplicates, it also writes keys."""
        known = duplicates or {}
        return [
            ShardJob(
                number,
                chunk,
                self.settings,
                self.target,
                known.get(f"{number}"),
                duplicates is None,
            )
            for number, chunk in enumerate(chunks)
        ]

    def _make(
        self,
        step: Literal["read", "deduplicate"],
        jobs: Sequence[ShardJob],
        unpacked: UnpackedFiles,
    ) -> list[Shard]:
        """Make the shards that are not done, or were made with other duplicates."""
        shards: dict[int, Shard] = {}
        for job in jobs:
            done = read_shard(job.number, self.state)
            # While keys are written, no duplicates are known that a shard could be made without.
            if done is not None and (job.with_keys or done.duplicates == job.duplicates):
                shards[job.number] = done
        missing = [job for job in jobs if job.number not in shards]
        unpacked.unpack_all(self.source.read, {job.chunk.path for job in missing if job.chunk.copy})
        total = sum(job.chunk.size for job in jobs)
        finished = sum(jobs[number].chunk.size for number in shards)
        under_way: dict[int, int] = {}

        def show() -> None:
            if self.watch is not None and missing:
                read = finished + sum(under_way.values())
                self.watch(Progress(step, read, total, len(shards), len(jobs)))

        def on_read(job: ShardJob, size: int) -> None:
            under_way[job.number] = size
            show()

        show()
        with contextlib.closing(self.runner(missing, on_read if self.watch else None)) as made:
            for shard in made:
                shards[shard.number] = shard
                under_way.pop(shard.number, None)
                finished += jobs[shard.number].chunk.size
                show()
        if isinstance(self.target, RemotePath):
            for job in missing:  # there may be an earlier one, from before duplicates were known
                (self.state / f"{job.number:05}.rejected.jsonl").unlink(missing_ok=True)
            _download_state(self.target, self.out)
        return [shards[job.number] for job in jobs]

    def _find_duplicates(self, chunks: Sequence[Chunk], shards: Sequence[Shard]) -> dict[str, str]:
        """Find the duplicates of all shards; return digests of their files by the shard's number.

        From then on, the keys are not needed any more.
        """
        rows = []
        lines: Counter[str] = Counter()
        for chunk, shard in zip(chunks, shards, strict=True):
            keys = self.state / f"{shard.number:05}{_KEYS}"
            rows.append(ShardRows(shard.number, keys, chunk.path, lines[chunk.path]))
            lines[chunk.path] += shard.lines
        similarity = self.settings.similarity if self.settings.deduplicate == "near" else None
        found = find_duplicates(rows, self.state, similarity)
        digests = {f"{number}": digest for number, digest in found.items()}
        with atomic_file(self.state / _DUPLICATES) as path:
            path.write_text(json.dumps(digests))
        if isinstance(self.target, RemotePath):
            names = [f"{number:05}.duplicates.jsonl" for number in found]
            for name in [*names, _DUPLICATES]:
                (self.target / _STATE / name).upload(self.state / name)
        return digests


def finished_shards(out: Path | RemotePath) -> int:
    """Count the shards in an output folder that are done and kept."""
    return sum(name.removesuffix(".json").isdecimal() for name in _names(out, _STATE))


def _names(place: Path | RemotePath, folder: str = "") -> list[str]:
    """Return the names in an output, or in a folder of it."""
    if isinstance(place, RemotePath):
        return (place / folder if folder else place).names()
    parent = place / folder
    return [path.name for path in parent.iterdir()] if parent.is_dir() else []


def _read_json(path: Path) -> dict[str, Any] | None:
    """Read an object; None if the file is missing."""
    try:
        value: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return value


_DIFFERENCES_SHOWN = 5


def _differences(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Name the settings and files in which two manifests differ, with their values."""
    found = list(_changes(earlier, now))
    more = len(found) - _DIFFERENCES_SHOWN
    return ", ".join(found[:_DIFFERENCES_SHOWN]) + (f", and {more} others" if more > 0 else "")


def _changes(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in {**earlier, **now}:
        before: Any = earlier.get(name)
        after: Any = now.get(name)
        if before == after:
            continue
        if name == "files":
            for file in {**before, **after}:
                if file not in before or file not in after:
                    yield f"{file} is {'new' if file in after else 'gone'}"
                elif before[file] != after[file]:
                    yield f"{file} changed"
        elif isinstance(before, dict) and isinstance(after, dict):
            yield from _changes(before, after)
        else:
            yield f"{name} was {json.dumps(before):.60}, is {json.dumps(after):.60}"


def _begin(
    out: Path,
    target: Path | RemotePath,
    manifest: dict[str, Any],
    earlier: dict[str, Any] | None,
) -> None:
    if earlier is None and not _has_nothing(target):
        raise OutputFolderError(f"{target} is not empty; give another folder for the output")
    state = out / _STATE
    if earlier not in (None, manifest):
        if any(name.endswith(".parquet") for name in _names(target, _DATA)):
            raise OutputFolderError(
                f"{target} has examples of other rows or with other options "
                f"({_differences(earlier or {}, manifest)}); give another folder for "
                "the output, or remove this one"
            )
        shutil.rmtree(state)  # such as a first try in which all rows were rejected
        if isinstance(target, RemotePath):
            (target / _STATE).remove()
    try:
        (out / _DATA).mkdir(parents=True, exist_ok=True)
        state.mkdir(exist_ok=True)
    except OSError as error:
        problem = f"{out}: {error.strerror}; give a folder that can be made and written"
        raise OutputError(error.errno, problem) from error
    with atomic_file(state / _MANIFEST) as path:
        path.write_text(json.dumps(manifest), encoding="utf-8")
    if isinstance(target, RemotePath):
        (target / _STATE / _MANIFEST).upload(state / _MANIFEST)


def _has_nothing(target: Path | RemotePath) -> bool:
    """Return whether an output is empty, or a try ended before its manifest, as on a full disk."""
    names = {name for folder in ("", _DATA, _STATE) for name in _names(target, folder)}
    return all(name.endswith(TEMPORARY) for name in names - {LOCK_FILE, _STATE, _DATA})


def _finish(
    out: Path,
    title: str,
    unread: Sequence[str],
    chunks: Sequence[Chunk],
    shards: Sequence[Shard],
) -> Preparation:
    """Combine the counts and the rejected rows of all shards.

    `title` names the source, and `unread` its files that are not read.
    """
    report = TokenReport()
    report.add_unread(unread)
    first: dict[str, Rejection] = {}
    lines: Counter[str] = Counter()  # of each file, before the shard
    with (
        atomic_file(out / "rejected.jsonl") as rejected_path,
        open(rejected_path, "w", encoding="utf-8") as file,
    ):
        for chunk, shard in zip(chunks, shards, strict=True):
            report.add(shard.report)
            path = out / _STATE / f"{shard.number:05}.rejected.jsonl"
            with open(path, encoding="utf-8") as rejected:
                for text in rejected:
                    entry = json.loads(text)
                    entry["line"] += lines[chunk.path] + 1  # lines count from 1 in their file
                    rejection = Rejection(entry["file"], entry["line"], entry["reason"])
                    first.setdefault(general_reason(rejection.reason), rejection)
                    file.write(json.dumps(entry) + "\n")
            lines[chunk.path] += shard.lines
    if not report.rejected:
        (out / "rejected.jsonl").unlink()
    else:
        with atomic_file(out / REASONS_FILE) as path, path.open("w", encoding="utf-8") as file:
            for general, count in report.sorted_reasons():
                reason = {"count": count, "reason": general, "first": first[general]._asdict()}
                file.write(json.dumps(reason) + "\n")
    with atomic_file(out / "report.json") as path:
        path.write_text(json.dumps(report.as_json(), indent=2) + "\n")
    plotted = write_plot(report, out / "report.svg", title)
    picture = "\n![Tokens by channel, and examples by length](report.svg)\n" if plotted else ""
    card = _CARD.format(version=__version__, report=report.text(), picture=picture)
    with atomic_file(out / "README.md") as path:
        path.write_text(card, encoding="utf-8")
    return Preparation(out, report, list(first.values()))


def _remove_unfinished(out: Path) -> None:
    """Remove the files that were being written when a process was killed."""
    state = out / _STATE
    shutil.rmtree(state / "index", ignore_errors=True)  # of duplicates
    for folder in (out, out / _DATA, state, state / "unpacked", out / "megatron"):
        for path in folder.glob(f"*{TEMPORARY}"):
            path.unlink(missing_ok=True)
