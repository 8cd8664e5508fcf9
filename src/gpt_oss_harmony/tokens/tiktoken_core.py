"""Text to token ids and back by tiktoken, whose class `CoreBPE` is private.

Building it takes 130 ms.
"""

from __future__ import annotations

import functools
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .special_tokens import SPECIAL_IDS, SPECIAL_TEXTS, VOCABULARY_SIZE
from .vocabulary import load_vocabulary

# How o200k_base cuts text into words before byte pairs are merged. \p{..} are Unicode classes.
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
# The outer group lets the encoder try all alternatives at once instead of one after the other.
WORD_PATTERN = "|".join(
    (
        rf"(?:[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+)",
        r"\s+(?!\S)",
        r"\s+",
    )
)

WHITE_LIMIT = 250_000
"""White space of this length is encoded separately (see `_long_white_words`)."""

_SLICE = 100_000  # ids

_WHITE_CHARACTERS = (
    "\t\v\f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)  # what \s matches in the pattern, except \r and \n
_WHITE = re.compile(f"[{_WHITE_CHARACTERS}]+")

# A reserved special token separates texts that are encoded in one call. It is ASCII, so ASCII texts
# need no conversion. No suffix of it is also a prefix, so the text beside it cannot move a match.
_SEPARATOR_ID = VOCABULARY_SIZE - 1
_SEPARATOR = SPECIAL_TEXTS[_SEPARATOR_ID]
_SEPARATOR_BYTES = array("I", [_SEPARATOR_ID]).tobytes()

TESTED_TIKTOKEN = ("0.13", "0.14")
"""The supported releases of tiktoken, as in pyproject.toml."""


class TiktokenCore:
    """Encode and decode with tiktoken. A text with lone surrogates raises `UnicodeEncodeError`."""

    def __init__(self, ranks: Mapping[bytes, int]) -> None:
        self.bpe = _new_bpe(ranks)
        self.decode_bytes = self.bpe.decode_bytes
        """Ids to bytes, including special tokens; unknown ids raise `KeyError`."""

    def encode(self, text: str) -> list[int]:
        """Encode a text without special tokens."""
        if len(text) >= WHITE_LIMIT:
            return self._encode_long(text)
        tokens: list[int] = self.bpe.encode_ordinary(text)
        return tokens

    def _encode_long(self, text: str) -> list[int]:
        tokens: list[int] = []
        done = 0
        for start, end in _long_white_words(text, WHITE_LIMIT):
            tokens += _encoded_parts(self.bpe, text[done:start])
            tokens += _encoded_parts(self._word_bpe, text[start:end])
            done = end
        return tokens + _encoded_parts(self.bpe, text[done:])

    def encode_many(self, texts: Sequence[str]) -> list[array[int]]:
        """Encode each text separately, but all in one call.

        tiktoken releases the GIL during a call. With one call per text, threads would wait for each
        other between the calls.
        """
        joined = _SEPARATOR.join(texts)
        if joined.count(_SEPARATOR) != len(texts) - 1 or (
            len(joined) >= WHITE_LIMIT and any(_long_white_words(joined, WHITE_LIMIT))
        ):
            return [array("I", self.encode(text)) for text in texts]
        # tiktoken's encode_to_numpy wraps this in an array: the ids as bytes in memory.
        buffer = self.bpe.encode_to_tiktoken_buffer(joined, {_SEPARATOR})
        # The separator's bytes cannot match across ids: the last byte of every id is zero, and the
        # separator's other bytes are not.
        return [array("I", part) for part in bytes(buffer).split(_SEPARATOR_BYTES)]

    @functools.cached_property
    def _word_bpe(self) -> Any:
        """An encoder that reads every text as one word.

        The main encoder's own method for one word holds the GIL: about 15 s for 16 MiB.
        """
        return _new_bpe(load_vocabulary().ranks(), r"[\s\S]+")


def _encoded_parts(bpe: Any, text: str) -> list[int]:
    """Encode a long text; other threads can run meanwhile."""
    return id_list(array("I", bytes(bpe.encode_to_tiktoken_buffer(text, set()))))


def id_list(ids: array[int]) -> list[int]:
    """Return an array as a list, as ``ids.tolist()`` does, in parts: other threads can run between.

    >>> id_list(array("I", [200006, 200007]))
    [200006, 200007]
    """
    if len(ids) <= _SLICE:
        return ids.tolist()
    tokens: list[int] = []
    for start in range(0, len(ids), _SLICE):
        tokens += ids[start : start + _SLICE].tolist()
    return tokens


def _new_bpe(ranks: Mapping[bytes, int], pattern: str = WORD_PATTERN) -> Any:
    """Build the encoder inside `tiktoken.Encoding`, which itself would keep 20 MB of `ranks`."""
    import tiktoken  # takes 20 ms, and programs that only parse do not need it
    from tiktoken import _tiktoken  # type: ignore[attr-defined]

    if ".".join(tiktoken.__version__.split(".")[:2]) not in TESTED_TIKTOKEN:
        raise ImportError(
            f"tiktoken {tiktoken.__version__} is installed, but gpt_oss_harmony needs "
            f"{' or '.join(TESTED_TIKTOKEN)}: pip install 'tiktoken=={TESTED_TIKTOKEN[-1]}.*'"
        )
    return _tiktoken.CoreBPE(ranks, SPECIAL_IDS, pattern)


def _long_white_words(text: str, limit: int) -> Iterator[tuple[int, int]]:
    r"""Find the words of white space (start, end) that are about `limit` long or longer.

    tiktoken panics if ``\s+(?!\S)`` matches a million characters, so such words are cut out and
    merged separately. A run is a maximal sequence of two or more white space characters without
    ``\r`` and ``\n``.

    - A word begins where the run begins. Words of other characters contain white space only as
      their first character, or ``\r`` and ``\n`` at their end. White space that ends in ``\r`` or
      ``\n`` is a word of its own (``\s*[\r\n]+``).
    - If ``\r`` or ``\n`` follows the run, the run is the beginning of such a word. tiktoken
      matches it without a stack, so nothing is cut.
    - At the end of the text, the word is the whole run. Elsewhere it is the run without its last
      character, which may belong to the next word.

    Every run of `limit` characters contains a multiple of `limit` (less one), so only these
    positions are checked.
    """
    done = 0
    for at in range(limit - 1, len(text), limit):
        run = _WHITE.match(text, at) if at >= done else None
        if run is None:
            continue
        done = run.end()
        start = at - limit + 1 + len(text[at - limit + 1 : at].rstrip(_WHITE_CHARACTERS))
        if done - start >= limit and text[done : done + 1] not in ("\r", "\n"):
            yield start, done if done == len(text) else done - 1
