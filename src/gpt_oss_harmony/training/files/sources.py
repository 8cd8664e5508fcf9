"""Files and folders of rows, cut into chunks that are read one by one.

======================  =======================================================================
``*.jsonl``,            a row in each line; chunks are ranges of bytes, moved to the next line
``*.ndjson``
``*.jsonl.gz``,         the same, unpacked before
``*.jsonl.zst``
``*.parquet``           chunks are row groups
a folder                its ``*.parquet`` or ``*.jsonl``, or the Arrow files that `save_to_disk`
                        of Hugging Face's datasets wrote; chunks are ranges of batches
======================  =======================================================================

Compressed files are unpacked beside the output, because reading cannot start in their middle.

An address such as ``s3://bucket/rows.jsonl`` or ``hf://datasets/owner/name`` is read by fsspec from
where it lies: each chunk opens the file and reads its own part.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from ...errors import ConversationError
from ..row_forms import detect_form
from ..rows import parse_line, without_nulls
from .addresses import OutputError, RemotePath, SourceError, UnpackedSizeError, source_path

CHUNK_BYTES = 4 * 1024 * 1024
"""The approximate bytes of a JSONL chunk.

A worker's memory depends on this, not on the file. An interruption loses the chunk that each worker
has begun. Packing still fills its sequences: a chunk has about a million tokens.
"""

ROW_BYTES = 16 * 1024 * 1024
"""The most bytes of a row. A worker's memory is up to about 55 times that of its longest row."""

UNPACKED_RATIO = 200
"""The most bytes that each byte of a compressed file may become. Text of chats becomes 3 to 20."""

UNPACKED_BYTES = 1024**4
"""The most bytes of all unpacked files of one preparation."""

TEMPORARY = ".tmp"
"""The suffix of files that are being written."""

_ROWS_AT_ONCE = 64  # of a table, as Python objects
_CODECS = {".gz": "gzip", ".zst": "zstd"}

FileKind = Literal["jsonl", "parquet", "arrow"]


_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


def _opened(path: str) -> BinaryIO:
    place = source_path(path)
    return place.open("rb")


class SourceFile(NamedTuple):
    """A file of rows; `number` is its index among those of the source."""

    number: int
    path: Path | RemotePath
    kind: FileKind

    @property
    def is_packed(self) -> bool:
        """Return whether the file is compressed."""
        return self.path.suffix in _CODECS


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file: from `start` to `end`, in bytes, row groups or batches."""

    path: str
    kind: FileKind
    start: int
    end: int
    size: int
    """The approximate number of bytes."""
    copy: str | None = None
    """The unpacked copy that is read instead of a compressed file."""


class SourceRow(NamedTuple):
    """A row or a blank line, with its number in the chunk, from 0; or the problem in reading it.

    `end` is the number of bytes of the chunk up to the end of the row, about.
    """

    number: int
    raw: Any
    end: int
    problem: str | None = None
    is_blank: bool = False


class SourceFiles(NamedTuple):
    """The files of rows of a source, and the names of the files beside them that are not read."""

    read: list[SourceFile]
    unread: list[str]


def find_files(source: Path | RemotePath) -> list[SourceFile]:
    """Find the files of rows: one, or those of a folder or a pattern in the order of their names.

    A pattern is a path such as ``rows/*.jsonl`` or ``rows/**/*.parquet``, unless a file has that
    name. Raises `SourceError` where there are none.
    """
    return source_files(source).read


def source_files(source: Path | RemotePath) -> SourceFiles:
    """Find the files of rows as `find_files` does; also list the files that are not read.

    Their names are relative to a folder or an address. Hidden files, and those that belong to a
    data set but have no rows, are not among them.
    """
    if isinstance(source, RemotePath):
        return _remote_files(source)
    if not source.is_dir():
        is_pattern = glob.has_magic(str(source)) and not source.exists()
        return _matching_files(source) if is_pattern else SourceFiles([_single_file(source)], [])
    if (source / "dataset_dict.json").exists():
        raise SourceError(
            f"{source}: the data set has several splits; give the folder of one, such as "
            f"{source / 'train'}"
        )
    files: list[SourceFile] = []
    unread: list[str] = []
    for path in _folder_files(source):
        kind = _kind(path)
        if kind is None:
            unread.append(path.relative_to(source).as_posix())
        elif not _is_cache(path.name):
            files.append(SourceFile(len(files), path, kind))
    if not files:
        raise SourceError(
            f"{source}: no file in this folder ends in .jsonl, .jsonl.gz, .jsonl.zst, .parquet or "
            ".arrow"
        )
    return SourceFiles(files, _named(unread))


def _folder_files(folder: Path) -> list[Path]:
    """List the files of a folder and of all folders in it, without hidden ones.

    Links to folders are not followed, and some folders may not be opened: the list has them as they
    are.
    """
    found: list[Path] = []

    def keep_closed(error: OSError) -> None:
        found.append(Path(error.filename))

    for parent, folders, names in os.walk(folder, onerror=keep_closed):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += (Path(parent, name) for name in (*names, *links) if not name.startswith("."))
    return sorted(found)


def _is_cache(name: str) -> bool:
    return name.startswith("cache-") and name.endswith(".arrow")  # beside a saved data set


_BESIDE_ROWS = {
    *("README.md", "LICENSE"),
    *("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"),
}
"""The names of the files that data sets of Hugging Face have beside their rows."""


def _named(unread: Iterable[str]) -> list[str]:
    """Leave out what is no data of the user."""
    return sorted(name for name in unread if PurePosixPath(name).name not in _BESIDE_ROWS)


def _single_file(source: Path) -> SourceFile:
    kind = _kind(source)
    if not source.exists():
        remedy = "check the path"
        if kind is None and source.suffix:
            remedy = f"files that end in {source.suffix} are not read; expected {_EXPECTED}"
        raise SourceError(f"{source}: no such file; {remedy}")
    if kind is None:
        remedy = _OTHER_FILES.get(source.suffix, f"write {_EXAMPLE} on a line for each row")
        raise SourceError(f"{source}: expected {_EXPECTED}; {remedy.format(path=source)}")
    return SourceFile(0, source, kind)


def _matching_files(pattern: Path) -> SourceFiles:
    paths = [Path(name) for name in sorted(glob.glob(str(pattern), recursive=True))]
    kinds = [(path, kind) for path in paths if (kind := _kind(path)) is not None]
    if not kinds:
        problem = f"{pattern}: no file of this pattern is {_EXPECTED}"
        raise SourceError(f"{problem}; check the pattern")
    others: set[Path] = set()
    for path in paths:  # a folder that matches is not read, but the pattern may match its files
        others.update(_folder_files(path) if path.is_dir() else [path])
    others.difference_update(path for path, _ in kinds)
    files = [SourceFile(number, path, kind) for number, (path, kind) in enumerate(kinds)]
    return SourceFiles(files, _named(map(str, others)))


def _remote_files(source: RemotePath) -> SourceFiles:
    found: list[SourceFile] = []
    unread: list[str] = []
    for path in source.files():
        kind = _kind(path)
        # Arrow files are mapped into memory, which needs a disk.
        if kind in ("jsonl", "parquet"):
            found.append(SourceFile(len(found), path, kind))
            continue
        name = str(path).removeprefix(str(source).rstrip("/")).lstrip("/")
        if not (_is_cache(path.name) or any(part.startswith(".") for part in name.split("/"))):
            unread.append(name)
    if not found:
        raise SourceError(f"{source}: expected {_EXPECTED}; there is none at this address")
    return SourceFiles(found, _named(unread))


def find_chunks(
    files: Iterable[SourceFile],
    chunk_bytes: int = CHUNK_BYTES,
    unpacked: UnpackedFiles | None = None,
) -> list[Chunk]:
    """Cut files into chunks; those that are compressed need `unpacked` for their copies.

    Raises `SourceError` where a file is not what its name says, or has no conversations.
    """
    chunks: list[Chunk] = []
    for file in files:
        if not file.is_packed:
            try:
                chunks += _CHUNKS[file.kind](file.path, chunk_bytes)
            except pa.ArrowInvalid as error:
                raise SourceError(
                    f"{file.path}: this is not a complete {file.kind.title()} file ({error}); "
                    "write or download it again"
                ) from error
            continue
        if unpacked is None:
            raise ValueError(f"{file.path} is compressed; pass the folder for unpacked copies")
        try:
            size = unpacked.size(file.number, file.path)
        except OutputError:
            raise
        except OSError as error:
            raise SourceError(
                f"{file.path}: cannot be unpacked ({error}); compress or download it again"
            ) from error
        copy = unpacked.path(file.number)
        if copy.exists():
            _check_lines(file.path, copy)
        chunks += _byte_ranges(str(file.path), size, chunk_bytes, str(copy))
    return chunks


def read_chunk(chunk: Chunk, row_bytes: int = ROW_BYTES) -> Iterator[SourceRow]:
    """Read the rows of a chunk, one by one; longer rows than `row_bytes` are not parsed."""
    return _READERS[chunk.kind](chunk, row_bytes)


def _too_long(size: int, row_bytes: int) -> str:
    return (
        f"the row has {size:,} bytes, more than {row_bytes:,}; make it shorter, or raise "
        "--max-row-bytes"
    )


_SUFFIXES: dict[str, FileKind] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    **{f".jsonl{packed}": "jsonl" for packed in _CODECS},
    **{f".ndjson{packed}": "jsonl" for packed in _CODECS},
}


_EXPECTED = (
    "a file whose name ends in .jsonl, .jsonl.gz, .jsonl.zst or .parquet, or the folder of a "
    "data set"
)
_EXAMPLE = (
    '{{"messages": [{{"role": "user", "content": "..."}}, '
    '{{"role": "assistant", "content": "..."}}]}}'
)
_OTHER_FILES = {".json": "write each row on a line of its own: jq -c '.[]' {path} > rows.jsonl"}
"""The remedies for other files, by the end of their names."""


def _kind(path: Path | RemotePath) -> FileKind | None:
    last = path.suffixes[-2:] if path.suffix in _CODECS else path.suffixes[-1:]
    return _SUFFIXES.get("".join(last))


# Files that are written, and unpacked


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield another name to write a file under; it is renamed to `path` if nothing is raised.

    Raises `OutputError` if it cannot be written; errors about other files are left as they are.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        is_ours = error.errno in _NO_ROOM or error.filename == str(temporary)
        if isinstance(error, OutputError) or not is_ours:
            raise
        reason = os.strerror(error.errno) if error.errno else str(error)
        remedy = "free space and repeat the command to go on"
        raise OutputError(error.errno, f"{path}: {reason}; {remedy}") from error
    finally:
        temporary.unlink(missing_ok=True)


@dataclass(frozen=True)
class UnpackedFiles:
    """The unpacked copies that one preparation reads, by the number of the compressed file.

    The copies are removed when all shards are made. Their sizes stay, so that a preparation that
    is finished is recognised as such. `watch` is called with the bytes of a compressed file that
    are unpacked, and its size. A file may become `ratio` times as large, but small ones at least a
    megabyte; all files together `total` bytes.
    """

    folder: Path
    watch: Callable[[int, int], None] | None = None
    ratio: int = UNPACKED_RATIO
    total: int = UNPACKED_BYTES

    def path(self, number: int) -> Path:
        """Return the path of a copy, whether it exists or not."""
        return self.folder / f"{number:05}.jsonl"

    def size(self, number: int, packed: Path | RemotePath) -> int:
        """Return the bytes of an unpacked file; the first time, it is unpacked for that."""
        note = self.folder / f"{number:05}.size"
        if not note.exists():
            size = self.unpack(number, packed).stat().st_size
            with atomic_file(note) as path:
                path.write_text(str(size))
        return int(note.read_text())

    def unpack(self, number: int, packed: Path | RemotePath) -> Path:
        """Unpack a file, unless its copy exists; return the path of the copy.

        Raises `OSError` where the file is not compressed as its name says, or ends too early, and
        `UnpackedSizeError` where it becomes larger than allowed.
        """
        copy = self.path(number)
        if not copy.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            size = packed.stat().st_size
            others = sum(other.stat().st_size for other in self.folder.glob("*.jsonl"))
            limit = min(max(size * self.ratio, _BLOCK), self.total - others)
            with (
                atomic_file(copy) as path,
                _opened(str(packed)) as raw,
                pa.PythonFile(raw, "r") as file,
                pa.CompressedInputStream(file, _CODECS[packed.suffix]) as source,
                path.open("wb") as target,
            ):
                while block := source.read(_BLOCK):
                    if target.tell() + len(block) > limit:
                        raise UnpackedSizeError(self._too_large(packed, size, limit))
                    target.write(block)
                    if self.watch is not None:
                        self.watch(file.tell(), size)
        return copy

    def unpack_all(self, files: Iterable[SourceFile], paths: Collection[str]) -> None:
        """Unpack those of the files that have one of the paths."""
        for file in files:
            if str(file.path) in paths:
                self.unpack(file.number, file.path)

    def _too_large(self, packed: Path | RemotePath, size: int, limit: int) -> str:
        name, value = "--max-unpacked-ratio", self.ratio
        if limit < size * self.ratio:
            name, value = "--max-unpacked-bytes", self.total
        return (
            f"{packed}: its {size:,} bytes unpack to more than {limit:,}; if the file is meant to "
            f"be so large, raise {name} above {value:,}"
        )

    def remove(self) -> None:
        """Remove the copies, and keep the sizes."""
        for copy in self.folder.glob("*.jsonl"):
            copy.unlink()


# JSON lines


_BLOCK = 1024 * 1024
_HEAD_BYTES = 1000
_OTHER_CONTENTS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (
        re.compile(rb"\xff\xfe|\xfe\xff|.?\0", re.DOTALL),
        "the text is UTF-16, not UTF-8; convert it: iconv -f UTF-16 -t UTF-8 {path} > rows.jsonl",
    ),
    (re.compile(rb"\x1f\x8b"), "the file is compressed; change the end of its name to .jsonl.gz"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "the file is compressed; end its name in .jsonl.zst"),
    (re.compile(rb"PAR1"), "this is a Parquet file; change the end of its name to .parquet"),
    (
        re.compile(rb"(\xef\xbb\xbf)?\s*\[\s*\n"),
        "the file is one JSON array; write each row on a line of its own: "
        "jq -c '.[]' {path} > rows.jsonl",
    ),
    (
        re.compile(rb"(\xef\xbb\xbf)?\s*\{\s*\n\s+\""),
        "a JSON object takes several lines; write each row on a line of its own: "
        "jq -c . {path} > rows.jsonl",
    ),
)
"""How files begin that are not JSON lines, and the error."""


def _check_lines(path: Path | RemotePath, readable: Path | RemotePath) -> None:
    """Raise `SourceError` where the first bytes of a file, or of its copy, are no JSON lines."""
    with readable.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    problem = next((text for pattern, text in _OTHER_CONTENTS if pattern.match(head)), None)
    if problem is not None:
        raise SourceError(f"{path}: {problem.format(path=path)}")


def _jsonl_chunks(path: Path | RemotePath, chunk_bytes: int) -> Iterator[Chunk]:
    _check_lines(path, path)
    yield from _byte_ranges(str(path), path.stat().st_size, chunk_bytes)


def _byte_ranges(
    path: str, size: int, chunk_bytes: int, copy: str | None = None
) -> Iterator[Chunk]:
    for start in range(0, size, chunk_bytes):
        end = min(size, start + chunk_bytes)
        yield Chunk(path, "jsonl", start, end, end - start, copy)


def _jsonl_rows(chunk: Chunk, row_bytes: int) -> Iterator[SourceRow]:
    """Read the lines that begin in the chunk; their numbers count empty lines, too."""
    with _opened(chunk.copy or chunk.path) as file:
        if chunk.start:
            # One byte early, so that a line which begins exactly at the start is kept.
            file.seek(chunk.start - 1)
            _skip_line(file, chunk.end)  # the end of the line before
        number = 0
        while file.tell() < chunk.end:
            start = file.tell()
            line = file.readline(row_bytes + 1)
            # The line break is no byte of the row.
            if len(line) > row_bytes and line[-1:] != b"\n":
                _skip_line(file)
                problem = _too_long(file.tell() - start, row_bytes)
                end = min(file.tell(), chunk.end) - chunk.start
                yield SourceRow(number, repr(line[:1000]), end, problem)
                number += 1
                continue
            # Some editors begin a file with this mark, which JSON does not have.
            line = line.removeprefix(b"\xef\xbb\xbf")
            end = min(file.tell(), chunk.end) - chunk.start
            try:
                if not line or line.isspace():
                    row = SourceRow(number, None, end, is_blank=True)
                else:
                    row = SourceRow(number, parse_line(line), end)
            except UnicodeDecodeError as error:
                problem = f"not UTF-8 (at byte {error.start}); save the file as UTF-8"
                row = SourceRow(number, repr(line[:1000]), end, problem)
            except (ValueError, RecursionError) as error:
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                row = SourceRow(number, text, end, _json_problem(error))
            yield row
            number += 1


def _skip_line(file: BinaryIO, end: int | None = None) -> None:
    """Read up to the end of a line, or a bit beyond `end`, in blocks: a line may be very long."""
    while block := file.readline(_BLOCK):
        if block[-1:] == b"\n" or (end is not None and file.tell() >= end):
            return


def _json_problem(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "not valid JSON (nested too deeply)"
    if isinstance(error, json.JSONDecodeError):  # its line is always 1
        problem = f"{error.msg.removesuffix(' at')} at character {error.pos + 1}"
        return f"not valid JSON ({problem}); write one object in each line"
    return f"not valid JSON ({error!s:.200})"


# Tables


def _parquet_chunks(path: Path | RemotePath, _: int) -> Iterator[Chunk]:
    with path.open("rb") as raw, pq.ParquetFile(raw) as file:
        _check_columns(path, file.schema_arrow.names)
        meta = file.metadata
    for group in range(meta.num_row_groups):
        yield Chunk(str(path), "parquet", group, group + 1, meta.row_group(group).total_byte_size)


def _check_columns(path: Path | RemotePath, names: list[str]) -> None:
    """Raise `SourceError` where a table has no column of conversations."""
    try:
        detect_form({name: [] for name in names})
    except ConversationError as error:
        raise SourceError(f"{path}: {error}") from error


def _parquet_rows(chunk: Chunk, row_bytes: int) -> Iterator[SourceRow]:
    with _opened(chunk.path) as raw, pq.ParquetFile(raw) as file:
        groups = list(range(chunk.start, chunk.end))
        count = sum(file.metadata.row_group(group).num_rows for group in groups)
        batches = file.iter_batches(_ROWS_AT_ONCE, row_groups=groups)
        yield from _table_rows(batches, chunk.size / max(count, 1), row_bytes)


def _arrow_chunks(path: Path | RemotePath, chunk_bytes: int) -> Iterator[Chunk]:
    start = size = end = 0
    for end, batch in enumerate(_arrow_batches(path), 1):
        if end == 1:
            _check_columns(path, batch.schema.names)
        size += batch.nbytes
        if size >= chunk_bytes:
            yield Chunk(str(path), "arrow", start, end, size)
            start, size = end, 0
    if start < end:
        yield Chunk(str(path), "arrow", start, end, size)


def _arrow_rows(chunk: Chunk, row_bytes: int) -> Iterator[SourceRow]:
    numbered = enumerate(_arrow_batches(Path(chunk.path)))
    batches = [batch for index, batch in numbered if chunk.start <= index < chunk.end]
    slices = (
        batch.slice(start, _ROWS_AT_ONCE)
        for batch in batches
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE)
    )
    yield from _table_rows(slices, chunk.size / max(sum(map(len, batches)), 1), row_bytes)


def _arrow_batches(path: Path | RemotePath) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(path)) as mapped, pa.ipc.open_stream(mapped) as stream:
        yield from stream


def _table_rows(
    batches: Iterable[pa.RecordBatch], mean_bytes: float, row_bytes: int
) -> Iterator[SourceRow]:
    """Read rows; in a batch with more bytes than a row may have, each row is measured first."""
    number = 0
    for batch in batches:
        parts = [batch]
        if batch.nbytes > row_bytes:
            parts = [batch.slice(index, 1) for index in range(batch.num_rows)]
        for part in parts:
            end = int((number + 1) * mean_bytes)
            if part.nbytes > row_bytes:
                yield SourceRow(number, None, end, _too_long(part.nbytes, row_bytes))
                number += 1
                continue
            for raw in part.to_pylist():
                yield SourceRow(number, without_nulls(raw), int((number + 1) * mean_bytes))
                number += 1


_CHUNKS: dict[FileKind, Callable[[Path | RemotePath, int], Iterable[Chunk]]] = {
    "jsonl": _jsonl_chunks,
    "parquet": _parquet_chunks,
    "arrow": _arrow_chunks,
}
_READERS = {"jsonl": _jsonl_rows, "parquet": _parquet_rows, "arrow": _arrow_rows}
