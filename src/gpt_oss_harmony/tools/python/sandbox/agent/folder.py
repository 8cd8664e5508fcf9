"""The folder of the notebook: its changes since the last cell, and its plain files."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

_SCANNED_FILES = 10_000
_LISTED_FILES = 200


class Folder:
    """The folder of the notebook; it never follows symbolic links."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._states: dict[str, tuple[int, ...]] = {}

    def scan(self) -> dict[str, tuple[int, ...]]:
        """Return the state of each plain file: any change alters it; its last item is the size."""
        states: dict[str, tuple[int, ...]] = {}
        for name in self._names():
            try:
                status = os.stat(os.path.join(self.path, name), follow_symlinks=False)
            except OSError:  # a process has deleted it, or its path is too long
                continue
            if stat.S_ISREG(status.st_mode):
                states[name] = (
                    status.st_ino,
                    status.st_mtime_ns,
                    status.st_ctime_ns,
                    status.st_size,
                )
        return states

    def _names(self) -> Iterator[str]:
        seen = 0
        for top, folders, files in os.walk(self.path):
            seen += len(folders) + len(files)
            if seen > _SCANNED_FILES:
                return
            for name in sorted(files):
                yield os.path.relpath(os.path.join(top, name), self.path)

    def changes(self) -> dict[str, Any]:
        """Return what is new, changed or gone since the last call; the rest comes with the next."""
        states = self.scan()
        changed = [name for name, state in states.items() if self._states.get(name) != state]
        gone = [name for name in self._states if name not in states]
        for name in changed[:_LISTED_FILES]:
            self._states[name] = states[name]
        for name in gone[:_LISTED_FILES]:
            del self._states[name]
        listed = [
            {"path": _readable_name(name), "size": states[name][-1]}
            for name in changed[:_LISTED_FILES]
        ]
        return {
            "files": listed,
            "files_left_out": len(changed) - len(listed),
            "files_gone": [_readable_name(name) for name in gone[:_LISTED_FILES]],
        }

    def read(self, path: str, offset: int, size: int) -> tuple[bytes, int]:
        """Read at most `size` bytes of a plain file; also return its whole size."""
        flags = os.O_RDONLY | os.O_NONBLOCK
        with os.fdopen(self._open(path, flags), "rb") as file:
            file.seek(offset)
            return file.read(size), os.fstat(file.fileno()).st_size

    def write(self, path: str, offset: int, data: bytes) -> None:
        """Write to a file, and empty it first if `offset` is 0; it does not count as changed."""
        flags = os.O_WRONLY | os.O_CREAT | (0 if offset else os.O_TRUNC)
        with os.fdopen(self._open(path, flags, make=True), "wb") as file:
            file.seek(offset)
            file.write(data)
        state = self.scan().get(path)
        if state is not None:
            self._states[path] = state

    def _open(self, path: str, flags: int, *, make: bool = False) -> int:
        parts = path.split("/")
        folder = self._open_folder(parts[:-1], make=make)
        try:
            flags |= os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open(parts[-1], flags, 0o666, dir_fd=folder)
        finally:
            os.close(folder)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(errno.EINVAL, "not a plain file")
        return file

    def _open_folder(self, parts: list[str], *, make: bool) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folder = os.open(self.path, flags)
        for part in parts:
            try:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                inner = os.open(part, flags, dir_fd=folder)
            finally:
                os.close(folder)
            folder = inner
        return folder


def _readable_name(name: str) -> str:
    """Return the name of a file as text; if it is not UTF-8, the text names no file."""
    return os.fsencode(name).decode("utf-8", "replace")
