"""The o200k_base vocabulary, which is part of the package: token id in, token bytes out.

The file's hash is checked when it is loaded. No network, cache folder or environment variable is
used. ``scripts/build_vocabulary.py`` makes the file from the official one and documents its format.
"""

from __future__ import annotations

import functools
import hashlib
import zlib
from array import array
from collections.abc import Iterator
from importlib import resources
from itertools import accumulate, chain, pairwise

from ..errors import VocabularyError
from .special_tokens import FIRST_SPECIAL

_FILE = "o200k_base.vocab"
_SHA256 = "8b314bcbdb4ef34a3b08f0b6169ad9627df13f002bca3eacdd9929b503adc209"

BLOCK = 8192
"""The number of tokens that are compressed together: few enough that a program that decodes some
tokens unpacks little, enough that the file stays small."""


class Vocabulary:
    """The bytes of the 199,998 ordinary tokens; a block is unpacked when it is first needed.

    >>> load_vocabulary()[24912]
    b'hello'
    """

    __slots__ = ("_packed", "_unpacked")

    def __init__(self, file: bytes) -> None:
        # One wrong byte would give wrong prompts, and no error anywhere.
        if hashlib.sha256(file).hexdigest() != _SHA256:
            raise VocabularyError(
                f"{_FILE} is damaged: it does not have the expected SHA-256; reinstall the package"
            )
        count = -(-FIRST_SPECIAL // BLOCK)
        sizes = (int.from_bytes(file[4 * at : 4 * at + 4], "little") for at in range(count))
        ends = accumulate(sizes, initial=4 * count)
        self._packed = [file[start:end] for start, end in pairwise(ends)]
        self._unpacked: list[tuple[bytes, array[int]] | None] = [None] * count

    def __len__(self) -> int:
        return FIRST_SPECIAL

    def __getitem__(self, token: int) -> bytes:
        number, at = divmod(token, BLOCK)
        pieces, ends = self._unpacked[number] or self._unpack(number)
        return pieces[ends[at] : ends[at + 1]]

    def __iter__(self) -> Iterator[bytes]:
        blocks = (self._unpacked[at] or self._unpack(at) for at in range(len(self._packed)))
        return chain.from_iterable(
            [pieces[start:end] for start, end in pairwise(ends)] for pieces, ends in blocks
        )

    def _unpack(self, number: int) -> tuple[bytes, array[int]]:
        payload = zlib.decompress(self._packed[number])
        count = min(BLOCK, FIRST_SPECIAL - number * BLOCK)
        ends = array("I", accumulate(payload[:count], initial=count))
        # Without a lock: two threads that unpack the same block store equal values.
        self._unpacked[number] = payload, ends
        return payload, ends

    def ranks(self) -> dict[bytes, int]:
        """The tokens with their ids, in the form that a byte pair encoder takes."""
        return dict(zip(self, range(FIRST_SPECIAL), strict=True))


@functools.cache
def load_vocabulary() -> Vocabulary:
    """Read the packaged vocabulary, once per process."""
    return Vocabulary((resources.files("gpt_oss_harmony") / "data" / _FILE).read_bytes())
