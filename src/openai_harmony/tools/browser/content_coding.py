"""Compressed bodies, decompressed piece by piece up to a size."""

from __future__ import annotations

import zlib

__all__ = ["ACCEPTED_CODINGS", "BoundedBody"]

ACCEPTED_CODINGS = "gzip, deflate"
"""What a request may accept."""

_STEP = 1 << 20  # bytes that are decompressed at once


class BoundedBody:
    """Collects a body that may be compressed, and stops at `limit` bytes of what it means.

    Raises `ValueError` for a coding that is not known, and for damaged data.

    >>> body = BoundedBody("gzip", limit=10)
    >>> import gzip
    >>> body.add(gzip.compress(b"." * 1_000_000)), len(body.data), body.cut
    (False, 10, True)
    """

    def __init__(self, coding: str, limit: int) -> None:
        self._coding = coding.strip().lower()
        if self._coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ValueError(f"the answer is encoded as {coding[:50]}, which was not asked for")
        self._limit = limit
        self._inflate: zlib._Decompress | None = None
        self._head = b""  # of a compressed body, as long as it does not say how
        self._pieces = list[bytes]()
        self._length = 0
        self.cut = False
        """Whether there was more than the limit."""

    @property
    def data(self) -> bytes:
        """What was collected."""
        return b"".join(self._pieces)

    def add(self, piece: bytes) -> bool:
        """Add a piece as it was sent; return whether there is room for more."""
        if self._coding in ("", "identity"):
            self._keep(piece)
            return not self.cut
        if self._inflate is None:
            piece, self._head = self._head + piece, b""
            if len(piece) < 2:
                self._head = piece
                return True
            self._inflate = self._new(piece)
        while piece and not self.cut:
            piece = self._expand(self._inflate, piece)
        return not self.cut

    def _expand(self, inflate: zlib._Decompress, piece: bytes) -> bytes:
        """Decompress the beginning of a piece; return what is left of it."""
        if inflate.eof:  # another file may follow
            self._inflate = None
            self.add(piece)
            return b""
        try:
            self._keep(inflate.decompress(piece, _STEP))
        except zlib.error as error:
            raise ValueError(f"the answer cannot be decompressed: {error}") from error
        return inflate.unconsumed_tail or inflate.unused_data

    def _keep(self, found: bytes) -> None:
        room = self._limit - self._length
        self.cut = len(found) > room
        self._pieces.append(found[:room])
        self._length += min(len(found), room)

    def _new(self, head: bytes) -> zlib._Decompress:
        if "gzip" in self._coding:
            return zlib.decompressobj(16 + zlib.MAX_WBITS)
        has_header = head[0] & 15 == 8 and int.from_bytes(head[:2], "big") % 31 == 0
        return zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
