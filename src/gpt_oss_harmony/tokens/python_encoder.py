"""Text to token ids in Python alone: a readable twin of tiktoken, with exactly its results.

It is used where tiktoken cannot be installed, such as in a browser. It cuts a text into words,
looks each word up in the vocabulary, and merges the bytes of words that are not tokens. A program's
first texts are encoded by the same functions; see `encoder`.
"""

from __future__ import annotations

import functools
import heapq
import re
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from .vocabulary import load_vocabulary


class _Classes(NamedTuple):
    """Classes of characters, as they stand inside the brackets of a pattern of `re`."""

    upper: str
    lower: str
    caseless: str
    mark: str
    number: str
    white: str

    def word_pattern(self) -> str:
        """Write the pattern that cuts text into words, which is `WORD_PATTERN` of the encoder.

        Contractions ignore the case, and U+017F is a small s.
        """
        upper, lower, caseless, mark, number, white = self
        letter = upper + lower + caseless
        contraction = "(?:'(?:[sStTmMdD\u017f]|[rRvV][eE]|[lL][lL]))?"
        return "|".join(
            (
                rf"[^\r\n{letter}{number}]?[{upper}{caseless}{mark}]*"
                rf"[{lower}{caseless}{mark}]+{contraction}",
                rf"[^\r\n{letter}{number}]?[{upper}{caseless}{mark}]+"
                rf"[{lower}{caseless}{mark}]*{contraction}",
                rf"[{number}]{{1,3}}",
                rf" ?[^{white}{letter}{number}]+[\r\n/]*",
                rf"[{white}]*[\r\n]+",
                rf"[{white}]+(?![^{white}])",
                rf"[{white}]+",
            )
        )


_ASCII = _Classes("A-Z", "a-z", "", "", "0-9", "\t-\r ")

_STAND_INS = {"u": "\xc0", "l": "\xdf", "c": "\xaa", "m": "\u0300", "n": "\xb2", "o": "\xa1"}
"""A character of each class that any character beyond U+FFFF has."""

_BEYOND = re.compile("[\U00010000-\U0010ffff]")


class _Words:
    """Cuts texts into words, with the classes of all characters.

    `re` finds a character up to U+FFFF in a class at once, but compares others with one range after
    the other. So the table finds the class of those, and a stand-in of the class takes the place of
    each in the text that the pattern reads.
    """

    def __init__(self) -> None:
        from .character_classes import RUNS

        runs = re.findall(r"(\d+)(\w)", RUNS)
        self._starts = list(accumulate((int(length) for length, _ in runs), initial=0))
        self._names = [name for _, name in runs]
        ranges = dict.fromkeys("ulcmnwo", "")
        for (start, end), name in zip(pairwise(self._starts), self._names, strict=True):
            if start < 0x10000:
                last = min(end, 0x10000) - 1
                ranges[name] += f"\\u{start:04x}-\\u{last:04x}"
        self._find = re.compile(_Classes(*(ranges[name] for name in "ulcmnw")).word_pattern())

    def _stand_in(self, match: re.Match[str]) -> str:
        return _STAND_INS[self._names[bisect_right(self._starts, ord(match[0])) - 1]]

    def __call__(self, text: str) -> list[str]:
        if _BEYOND.search(text) is None:
            return self._find.findall(text)
        read = _BEYOND.sub(self._stand_in, text)
        return [text[match.start() : match.end()] for match in self._find.finditer(read)]


@functools.cache
def _all_words() -> _Words:
    return _Words()


@functools.cache
def _ascii_pattern() -> re.Pattern[str]:
    return re.compile(_ASCII.word_pattern())


def ascii_words(text: str) -> list[str]:
    """Cut an ASCII text into words, without the table of characters."""
    return _ascii_pattern().findall(text)


def words(text: str) -> list[str]:
    """Cut a text into words: no token goes beyond one, and together they are the text.

    >>> words("Hello, wörld's 2025!")
    ['Hello', ',', " wörld's", ' ', '202', '5', '!']
    """
    return ascii_words(text) if text.isascii() else _all_words()(text)


def merged(piece: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    """Merge neighbours, the pair of the lowest rank first, until no pair is a token.

    Of equal pairs, the first goes first. A piece of n bytes takes n log n steps.
    """
    # A part is known by its start. Its end is the start of the next part, or 0 if the part was
    # merged into the one before. A pair is known by the start of its first part.
    count = len(piece)
    get = ranks.get
    ends = list(range(1, count + 1))
    before = list(range(-1, count - 1))
    pair_ranks = [get(piece[start : start + 2], -1) for start in range(count - 1)]
    pair_ranks.append(-1)
    # One integer orders pairs by rank, then by start.
    waiting = [rank * count + start for start, rank in enumerate(pair_ranks) if rank >= 0]
    heapq.heapify(waiting)
    while waiting:
        rank, start = divmod(heapq.heappop(waiting), count)
        if pair_ranks[start] != rank:
            continue  # a part of that pair has been merged with another part
        middle = ends[start]
        end = ends[start] = ends[middle]
        ends[middle], pair_ranks[middle], pair_ranks[start] = 0, -1, -1
        if end < count:
            before[end] = start
            rank = pair_ranks[start] = get(piece[start : ends[end]], -1)
            if rank >= 0:
                heapq.heappush(waiting, rank * count + start)
        first = before[start]
        if first >= 0:
            rank = pair_ranks[first] = get(piece[first:end], -1)
            if rank >= 0:
                heapq.heappush(waiting, rank * count + first)
    return [ranks[piece[start:end]] for start, end in enumerate(ends) if end]


def without_surrogates(text: str) -> str:
    r"""Return the text with U+FFFD for surrogates that are not in pairs, so it can be encoded.

    >>> without_surrogates("a\ud800") == "a\ufffd"
    True
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class PythonEncoder:
    """Encode text without special tokens, as `Encoder` does; safe to share between threads.

    >>> PythonEncoder().encode("hello <|end|>")
    [24912, 464, 91, 419, 91, 29]
    """

    name = "Python"
    core: Any = None
    """The encoder of tiktoken, which is not there: the tokenizer decodes with its own tables."""

    @functools.cached_property
    def _ranks(self) -> dict[bytes, int]:
        return load_vocabulary().ranks()

    def encode(self, text: str) -> list[int]:
        """Encode a text. A lone surrogate becomes U+FFFD, a surrogate pair its character."""
        ranks = self._ranks
        tokens: list[int] = []
        try:
            for word in words(text):
                piece = word.encode()
                token = ranks.get(piece)
                if token is not None:
                    tokens.append(token)
                else:
                    tokens += merged(piece, ranks)
        except UnicodeEncodeError:  # lone surrogates
            return self.encode(without_surrogates(text))
        return tokens

    def encode_many(self, texts: Sequence[str]) -> list[array[int]]:
        """Encode each text separately."""
        return [array("I", self.encode(text)) for text in texts]
