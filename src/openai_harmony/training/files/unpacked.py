"""Compressed files of JSON lines, unpacked beside the output so that any part can be read alone.

Nobody can begin in the middle of what gzip or zstd wrote, and each process has to. The copies go
when all parts are made; their sizes stay, by which a finished preparation is known to be one.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]

from .whole_file import whole_file

__all__ = ["PACKED_SUFFIXES", "UnpackedFiles"]

PACKED_SUFFIXES = (".gz", ".zst")
"""By these pyarrow tells how a file is compressed."""


class UnpackedFiles:
    """The copies that one preparation reads; a file is known by its number in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def place(self, number: int) -> Path:
        """Tell where the copy of a file is, or would be."""
        return self._folder / f"{number:05}.jsonl"

    def size(self, number: int, packed: Path) -> int:
        """Tell the bytes of what a file holds, for which it is unpacked the first time."""
        note = self._folder / f"{number:05}.size"
        if not note.exists():
            size = self.unpack(number, packed).stat().st_size
            with whole_file(note) as path:
                path.write_text(str(size))
        return int(note.read_text())

    def unpack(self, number: int, packed: Path) -> Path:
        """Unpack a file, unless its copy is there; return the copy.

        Raises `OSError` where the file is not compressed as its name says, or ends too early.
        """
        place = self.place(number)
        if not place.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            with (
                whole_file(place) as path,
                pa.input_stream(str(packed)) as source,
                path.open("wb") as copy,
            ):
                shutil.copyfileobj(source, copy, 1024 * 1024)
        return place

    def remove(self) -> None:
        """Remove the copies, and keep the sizes."""
        for copy in self._folder.glob("*.jsonl"):
            copy.unlink()
