"""The o200k_base vocabulary that travels with the package: token id in, token bytes out.

The file is checked by hash when it is loaded; no network, cache folder or environment variable
is involved. ``tools/build_vocabulary.py`` makes it from the official file.
"""

from __future__ import annotations

import functools
import hashlib
import zlib
from collections.abc import Iterable
from importlib import resources
from itertools import accumulate, pairwise

from .errors import VocabularyError
from .special_tokens import FIRST_SPECIAL

__all__ = ["Vocabulary", "load_vocabulary"]

_FILE = "o200k_base.vocab"
_PAYLOAD_SHA256 = "440741350e7cfa1c0f4869ce742d1b043550adbda5187adcac9e787edac6fba9"


_BLOCK = 256


class Vocabulary:
    """The bytes of the 199,998 ordinary tokens, sliced out of one buffer on demand.

    >>> load_vocabulary()[24912]
    b'hello'
    """

    __slots__ = ("_blocks", "_bytes", "_lengths")

    def __init__(self, packed: bytes) -> None:
        payload = _unpack(packed)
        self._lengths = payload[:FIRST_SPECIAL]
        self._bytes = payload[FIRST_SPECIAL:]
        # Where every 256th token begins; whoever meets few tokens need not add up all lengths.
        starts = range(0, FIRST_SPECIAL, _BLOCK)
        sums = (sum(self._lengths[start : start + _BLOCK]) for start in starts)
        self._blocks = list(accumulate(sums, initial=0))

    def __len__(self) -> int:
        return FIRST_SPECIAL

    def __getitem__(self, token: int) -> bytes:
        block = token // _BLOCK
        start = self._blocks[block] + sum(self._lengths[block * _BLOCK : token])
        return self._bytes[start : start + self._lengths[token]]

    def ranks(self, ids: Iterable[int]) -> dict[bytes, int]:
        """All tokens with their ids (the objects of `ids`), as a byte pair encoder wants them."""
        pieces = self._bytes
        ends = list(accumulate(self._lengths, initial=0))
        tokens = [pieces[start:end] for start, end in pairwise(ends)]
        return dict(zip(tokens, ids, strict=False))


def _unpack(packed: bytes) -> bytes:
    try:
        payload = zlib.decompress(packed)
    except zlib.error as error:
        raise VocabularyError(f"{_FILE} is damaged ({error}); reinstall the package") from error
    if hashlib.sha256(payload).hexdigest() != _PAYLOAD_SHA256:
        raise VocabularyError(f"{_FILE} does not have the expected SHA-256; reinstall the package")
    return payload


@functools.cache
def load_vocabulary() -> Vocabulary:
    """Read the packaged vocabulary, once per process."""
    return Vocabulary((resources.files(__package__) / "data" / _FILE).read_bytes())
