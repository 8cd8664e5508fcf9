"""The python tool's state in one conversation: which notebook it has, and its files."""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated, Literal

from pydantic import BaseModel, Field, PlainSerializer, PlainValidator, PrivateAttr, model_validator

from .attachment import is_plain_path

__all__ = ["PythonSession"]


def _decoded(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return base64.b64decode(value, validate=True)
    raise ValueError("the bytes of a file are a text in base64")


_FileBytes = Annotated[
    bytes,
    PlainValidator(_decoded),
    PlainSerializer(lambda data: base64.b64encode(data).decode("ascii"), return_type=str),
]


class PythonSession(BaseModel):
    """Which notebook the conversation has, and the files in its folder.

    The variables, functions and imports are in the memory of the notebook's kernel alone. They are
    there as long as the notebook is; from stored JSON, only the files come back.

    >>> session = PythonSession()
    >>> session.add_file("sales.csv", b"1,2")
    >>> PythonSession.from_json(session.to_json()).files
    {'sales.csv': b'1,2'}
    """

    kernel_memory: Literal["not kept"] = "not kept"
    notebook: str = ""
    """The notebook's name, by which the tool knows it; empty before the first call."""
    cells: int = Field(default=0, ge=0)
    """The calls that were answered; a notebook that has answered others is not this one's."""
    images: int = Field(default=0, ge=0)
    """The images that were shown."""
    files: dict[str, _FileBytes] = Field(default_factory=dict)
    """The files in ``/mnt/data``, by their paths below it."""
    files_left_out: list[str] = Field(default_factory=list)
    """Those that are too large to be kept here; they end with the notebook."""

    _new_files: set[str] = PrivateAttr(default_factory=set)
    _lock: asyncio.Lock = PrivateAttr(default_factory=asyncio.Lock)

    @model_validator(mode="after")
    def _check(self) -> PythonSession:
        wrong = next((path for path in self.files if not is_plain_path(path)), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r:.200} is no path below a folder")
        self._new_files.update(self.files)
        return self

    def to_json(self) -> str:
        """Return the session as JSON text."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, stored: str) -> PythonSession:
        """Read the JSON text of a session; raises `ValueError` where it is none."""
        return cls.model_validate_json(stored)

    def add_file(self, path: str, data: bytes) -> None:
        """Put a file into ``/mnt/data``, where the next call finds it.

        Raises `ValueError` for a path that is not one below a folder.
        """
        if not is_plain_path(path):
            raise ValueError(f"{path!r:.200} is no path below a folder, such as 'data/table.csv'")
        self.files[path] = data
        self._new_files.add(path)

    @property
    def lock(self) -> asyncio.Lock:
        """What a call holds, so that the next one waits for it."""
        return self._lock

    def begin(self, notebook: str) -> None:
        """Begin a notebook, which has none of the files yet."""
        self.notebook = notebook
        self.files_left_out.clear()
        self._new_files.update(self.files)

    def take_new_files(self) -> dict[str, bytes]:
        """Return the files that were added since the last time."""
        new = {path: self.files[path] for path in sorted(self._new_files) if path in self.files}
        self._new_files.clear()
        return new

    def keep_file(self, path: str, data: bytes | None) -> None:
        """Note what is in a file of the notebook; None where that is too much to be kept."""
        self.forget_file(path)
        if data is None:
            self.files_left_out.append(path)
        else:
            self.files[path] = data

    def forget_file(self, path: str) -> None:
        """Note that a file is gone."""
        self.files.pop(path, None)
        self._new_files.discard(path)
        if path in self.files_left_out:
            self.files_left_out.remove(path)

    def kept_bytes(self) -> int:
        """Return the size of all files that are kept."""
        return sum(map(len, self.files.values()))
