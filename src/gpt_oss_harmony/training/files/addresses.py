"""Addresses that fsspec opens, such as ``s3://bucket/rows``, and the errors of input and output."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

_BUFFER = 1024 * 1024
_VERSIONS = (
    "etag",
    "ETag",
    "mtime",
    "LastModified",
    "last_modified",
    "sha256",
    "blob_id",
    "created",
)


class SourceError(ValueError):
    """The input has no readable rows, or the output folder cannot be used."""


class OutputFolderError(SourceError):
    """The output folder is no folder, is in the input, or has other files; the text names it."""


class UnpackedSizeError(SourceError):
    """A compressed file unpacks to more bytes than allowed."""


class OutputError(OSError):
    """A file of the output cannot be written: the disk is full, or the folder is not ours."""


class RemoteStat(NamedTuple):
    """The size of a remote file, and a number that changes with its content."""

    st_size: int
    st_mtime_ns: int


@dataclass(frozen=True)
class RemotePath:
    """A file or a folder at an address that fsspec can open; with the methods of `Path` used here.

    Raises `SourceError` where the address cannot be read, and `OutputError` where it cannot be
    written.
    """

    address: str

    def __str__(self) -> str:
        return self.address

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self.address.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """The last part of the address."""
        return PurePosixPath(self.address).name

    @property
    def suffix(self) -> str:
        """The end of the name, from its last point."""
        return PurePosixPath(self.name).suffix

    @property
    def suffixes(self) -> list[str]:
        """The ends of the name, from each of its points, as those of a `Path`."""
        return PurePosixPath(self.name).suffixes

    def open(self, _mode: str = "rb") -> BinaryIO:
        """Open the file for reading."""
        with self._errors(SourceError):
            files, path = self._opened()
            return io.BufferedReader(_Stream(files.open(path, "rb")), _BUFFER)

    def stat(self) -> RemoteStat:
        """Return the size, and a number from what the store says about the version."""
        with self._errors(SourceError):
            files, path = self._opened()
            info = files.info(path)
        version = json.dumps(
            {name: str(info[name]) for name in _VERSIONS if info.get(name) is not None}
        )
        digest = hashlib.blake2b(version.encode(), digest_size=6).digest()
        return RemoteStat(int(info["size"] or 0), int.from_bytes(digest, "big"))

    def files(self) -> list[RemotePath]:
        """Return the files of a folder and of all folders in it, or the file itself."""
        with self._errors(SourceError):
            files, path = self._opened()
            if files.isdir(path):
                return [RemotePath(files.unstrip_protocol(name)) for name in files.find(path)]
            if files.exists(path):
                return [self]
        raise SourceError(f"{self}: nothing is at this address; check it")

    def names(self) -> list[str]:
        """Return the names of the files and folders in this folder, in order; none without it."""
        with self._errors(SourceError):
            files, path = self._opened()
            # fsspec remembers listings, but other machines write to the same folder.
            files.invalidate_cache()
            if not files.isdir(path):
                return []
            found = files.ls(path, detail=False)
            return sorted({PurePosixPath(name.rstrip("/")).name for name in found})

    def download(self, to: Path) -> None:
        """Write the file's content to a local file."""
        with self._errors(SourceError):
            files, path = self._opened()
            files.get_file(path, str(to))

    def upload(self, file: Path) -> None:
        """Write a local file's content to this address; S3 shows it when it is whole."""
        with self._errors(OutputError):
            files, path = self._opened()
            files.makedirs(files._parent(path), exist_ok=True)
            files.put_file(str(file), path)

    def remove(self) -> None:
        """Remove the file, or the folder with all files in it, if it is there."""
        with self._errors(OutputError):
            files, path = self._opened()
            files.invalidate_cache()
            if files.exists(path):
                files.rm(path, recursive=True)

    @contextmanager
    def _errors(self, kind: type[Exception]) -> Iterator[None]:
        """Raise errors of this kind; each store has others, and some are of no common class."""
        try:
            yield
        except Exception as error:
            raise kind(f"{self}: {error}") from error

    def _opened(self) -> tuple[Any, str]:
        import fsspec  # type: ignore[import-untyped]

        opened: tuple[Any, str] = fsspec.core.url_to_fs(self.address)
        return opened


class _Stream(io.RawIOBase):
    """A file of fsspec with all methods of a file; those of S3 cannot read a part of a line."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read: bytes = self._file.read(len(buffer))
        buffer[: len(read)] = read
        return len(read)

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self._file.close()
        super().close()


def source_path(source: Path | RemotePath | str) -> Path | RemotePath:
    """Return a path, or an address such as ``s3://bucket/rows.jsonl`` as a `RemotePath`."""
    if isinstance(source, RemotePath):
        return source
    return RemotePath(source) if isinstance(source, str) and "://" in source else Path(source)
