"""Bytes of an event stream to its events, as the HTML standard defines them."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["EventReader"]


class EventReader:
    """Reads a stream in pieces of any size; what has not ended is kept for the next piece."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the data of each event that the piece completes."""
        # JSON may hold U+2028 and the like, at which str.splitlines would break it.
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            yield from self._take(line.removesuffix(b"\r"))

    def _take(self, line: bytes) -> Iterator[bytes]:
        if not line:
            if self._data:
                yield b"\n".join(self._data)
            self._data = []
            return
        name, _, value = line.partition(b":")
        # Older servers of llama.cpp have a field of their own for errors. An empty name is a
        # comment: a sign of life and nothing else.
        if name in (b"data", b"error"):
            value = value.removeprefix(b" ")
            self._data.append(b'{"error":%s}' % value if name == b"error" else value)
