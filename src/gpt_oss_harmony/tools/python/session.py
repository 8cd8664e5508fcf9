"""The state of the python tool in one conversation: the name of its notebook, and its files."""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated, Literal

from pydantic import BaseModel, Field, PlainSerializer, PlainValidator, PrivateAttr, model_validator

_LONGEST_PATH = 1024  # bytes
_MOST_LEFT_OUT = 100  # paths


def is_plain_path(path: str) -> bool:
    """Return whether a path names a file below a folder, readably and on every system.

    >>> [is_plain_path(path) for path in ("a/b.txt", "../a", "/etc/passwd", "a//b", "a\\\\b")]
    [True, False, False, False, False]
    """
    if not path.isprintable() or "\\" in path:  # lone surrogates are not printable either
        return False
    if len(path.encode("utf-8")) > _LONGEST_PATH:
        return False
    return all(part not in ("", ".", "..") for part in path.split("/"))


def _decoded(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return base64.b64decode(value, validate=True)
    raise ValueError("the bytes of a file must be text in base64")


_FileBytes = Annotated[
    bytes,
    PlainValidator(_decoded),
    PlainSerializer(lambda data: base64.b64encode(data).decode("ascii"), return_type=str),
]


class PythonSession(BaseModel):
    """The notebook of a conversation, by name, and the files in its folder.

    Variables, functions and imports exist only in the memory of the notebook's kernel, and end with
    it. A session that was stored as JSON restores only the files.

    >>> session = PythonSession()
    >>> session.add_file("sales.csv", b"1,2")
    >>> PythonSession.from_json(session.to_json()).files
    {'sales.csv': b'1,2'}
    """

    kernel_memory: Literal["not kept"] = "not kept"
    notebook: str = ""
    """The name of the notebook in the pool; empty before the first call."""
    cells: int = Field(default=0, ge=0)
    """The number of finished calls; a notebook with another number has run another branch."""
    images: int = Field(default=0, ge=0)
    """The number of images that were shown."""
    files: dict[str, _FileBytes] = Field(default_factory=dict)
    """The files in ``/mnt/data``, by their paths below it."""
    files_left_out: list[str] = Field(default_factory=list)
    """Files too large to store here, a hundred at most; they end with the notebook."""

    owner: str = Field(default="", exclude=True)
    """The user whose conversation it is, for fair turns at the notebooks; it is not stored."""
    uploads: list[str] = Field(default_factory=list)
    """The ids of files of a client that were put into the folder; each is put there once."""

    new_files: list[str] = Field(default_factory=list)
    """Of `files`, those that the notebook has not got yet. The others are its own: it may hold them
    open, or have changed them since they were stored."""

    _lock: asyncio.Lock = PrivateAttr(default_factory=asyncio.Lock)

    @model_validator(mode="after")
    def _check(self) -> PythonSession:
        wrong = next((path for path in self.files if not is_plain_path(path)), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r:.200} is not a path below a folder")
        return self

    def to_json(self) -> str:
        """Return the session as JSON text."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, stored: str) -> PythonSession:
        """Read the JSON text of a session; raises `ValueError` if it is invalid."""
        return cls.model_validate_json(stored)

    def add_file(self, path: str, data: bytes) -> None:
        """Put a file into ``/mnt/data``, where the next call finds it.

        Raises `ValueError` for a path that is not one below a folder.
        """
        if not is_plain_path(path):
            raise ValueError(
                f"{path!r:.200} is not a path below a folder, such as 'data/table.csv'"
            )
        self.files[path] = data
        if path not in self.new_files:
            self.new_files.append(path)

    def add_upload(self, id: str, path: str, data: bytes) -> None:
        """Put a file of a client into ``/mnt/data``, as `add_file` does, and note its id."""
        self.add_file(path, data)
        self.uploads.append(id)

    @property
    def lock(self) -> asyncio.Lock:
        """The lock that a call holds until it ends."""
        return self._lock

    def begin(self, notebook: str) -> None:
        """Begin a new notebook; none of the files exist in it yet."""
        self.notebook = notebook
        self.files_left_out.clear()
        self.new_files = [*self.files]

    def take_new_files(self) -> dict[str, bytes]:
        """Return the files that were added since the last call."""
        new = {path: self.files[path] for path in sorted(self.new_files) if path in self.files}
        self.new_files.clear()
        return new

    def store_file(self, path: str, data: bytes | None, most: int) -> None:
        """Store a file of the notebook, or only its path if there is no room, or no `data`.

        `most` is the most bytes that all stored files have together with their paths.
        """
        # First, so that its earlier version takes up no room.
        self.forget_file(path)
        room = most - self.stored_bytes() - len(path.encode())
        if data is not None and len(data) <= room:
            self.files[path] = data
        elif len(self.files_left_out) < _MOST_LEFT_OUT:
            self.files_left_out.append(path)

    def forget_file(self, path: str) -> None:
        """Remove a file that the notebook no longer has."""
        self.files.pop(path, None)
        if path in self.new_files:
            self.new_files.remove(path)
        if path in self.files_left_out:
            self.files_left_out.remove(path)

    def stored_bytes(self) -> int:
        """Return the total size of the stored files and their paths."""
        return sum(len(path.encode()) + len(data) for path, data in self.files.items())
