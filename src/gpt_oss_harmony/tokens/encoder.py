"""Text to token ids, by the byte pair encoder of tiktoken.

Building the encoder takes 130 ms. A program's first texts are encoded in Python if they are short
and ASCII, so a program that renders one small prompt never builds the encoder. Where tiktoken is
not installed, all texts are encoded in Python.
"""

from __future__ import annotations

import functools
import re
import threading
from array import array
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from .python_encoder import PythonEncoder, ascii_words, merged, without_surrogates
from .special_tokens import SPECIAL_IDS, SPECIAL_TEXTS, VOCABULARY_SIZE
from .vocabulary import load_vocabulary

__all__ = ["WORD_PATTERN", "Encoder", "FirstTexts", "id_list", "new_encoder"]

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
"""The supported releases of tiktoken, as in pyproject.toml: its class `CoreBPE` is private."""


def new_encoder() -> Encoder | PythonEncoder:
    """Use tiktoken if it is installed, and Python alone where it is not."""
    try:
        found = find_spec("tiktoken") is not None
    except ImportError:  # a finder that refuses the package
        found = False
    return Encoder() if found else PythonEncoder()


class Encoder:
    """Encode text without special tokens; safe to share between threads.

    >>> Encoder().encode("hello <|end|>")
    [24912, 464, 91, 419, 91, 29]
    """

    def __init__(self) -> None:
        self.core: Any = None
        """The encoder of tiktoken once it is built; it also decodes, including special tokens."""
        self._first: FirstTexts | None = FirstTexts()  # until the encoder is built
        self._lock = threading.Lock()

    def encode(self, text: str) -> list[int]:
        """Encode a text. A lone surrogate becomes U+FFFD, a surrogate pair its character."""
        first = self._first
        if first is not None and (tokens := first.encode(text)) is not None:
            return tokens
        core = self.core or self._build()
        try:
            if len(text) >= WHITE_LIMIT:
                return self._encode_long(core, text)
            short: list[int] = core.encode_ordinary(text)
        except UnicodeEncodeError:  # lone surrogates
            return self.encode(without_surrogates(text))
        return short

    def _encode_long(self, core: Any, text: str) -> list[int]:
        tokens: list[int] = []
        done = 0
        for start, end in _long_white_words(text, WHITE_LIMIT):
            tokens += _encoded_parts(core, text[done:start])
            tokens += _encoded_parts(self._word_core, text[start:end])
            done = end
        return tokens + _encoded_parts(core, text[done:])

    def encode_many(self, texts: Sequence[str]) -> list[array[int]]:
        """Encode each text separately, but all in one call.

        The encoder releases the GIL during a call. With one call per text, threads would wait for
        each other between the calls.
        """
        joined = _SEPARATOR.join(texts)
        first = self._first
        if (
            (first is not None and len(joined) <= first.left)
            or joined.count(_SEPARATOR) != len(texts) - 1
            or (len(joined) >= WHITE_LIMIT and any(_long_white_words(joined, WHITE_LIMIT)))
        ):
            return [array("I", self.encode(text)) for text in texts]
        core = self.core or self._build()
        try:
            # tiktoken's encode_to_numpy wraps this in an array: the ids as bytes in memory.
            buffer = core.encode_to_tiktoken_buffer(joined, {_SEPARATOR})
        except UnicodeEncodeError:  # lone surrogates
            return [array("I", self.encode(text)) for text in texts]
        # The separator's bytes cannot match across ids: the last byte of every id is zero, and the
        # separator's other bytes are not.
        return [array("I", part) for part in bytes(buffer).split(_SEPARATOR_BYTES)]

    @functools.cached_property
    def _word_core(self) -> Any:
        """An encoder that reads every text as one word.

        The main encoder's own method for one word holds the GIL: about 15 s for 16 MiB.
        """
        return _new_core(FirstTexts().ranks, r"[\s\S]+")

    def _build(self) -> Any:
        with self._lock:
            if self.core is None:
                self.core = _new_core((self._first or FirstTexts()).ranks)
                self._first = None
            return self.core


def _encoded_parts(core: Any, text: str) -> list[int]:
    """Encode a long text; other threads can run meanwhile."""
    return id_list(array("I", bytes(core.encode_to_tiktoken_buffer(text, set()))))


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


def _new_core(ranks: Mapping[bytes, int], pattern: str = WORD_PATTERN) -> Any:
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


LIMIT = 20_000
"""Characters in total; for more of them the encoder is built. Even if no word is a token, Python
encodes as many in a tenth of the time that building takes."""

LONGEST_WORD = 100
"""The most characters of a word; tiktoken merges the bytes of longer ones much faster."""


class FirstTexts:
    """Encode a program's first texts, in Python.

    >>> FirstTexts().encode("hello world")
    [24912, 2375]
    >>> FirstTexts().encode("héllo") is None
    True
    """

    def __init__(self) -> None:
        self.left = LIMIT
        """The number of characters that may still be encoded here."""

    @functools.cached_property
    def ranks(self) -> dict[bytes, int]:
        """The tokens with their ids."""
        return load_vocabulary().ranks()

    def encode(self, text: str) -> list[int] | None:
        """Encode `text`, or return None if the encoder must do it."""
        if len(text) > self.left or not text.isascii():
            return None
        self.left -= len(text)
        tokens: list[int] = []
        for word in ascii_words(text):
            piece = word.encode()
            token = self.ranks.get(piece)
            if token is not None:
                tokens.append(token)
            elif len(piece) <= LONGEST_WORD:
                tokens += merged(piece, self.ranks)
            else:
                return None
        return tokens
