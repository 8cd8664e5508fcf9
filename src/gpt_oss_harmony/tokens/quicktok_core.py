"""Text to token ids by quicktok, which is several times as fast as tiktoken.

It is young, so it is used only if it is installed (extra `fast`), and is compared with recorded
results of tiktoken before its first use. It brings a vocabulary of its own, which is compared as
well. Texts with characters that it puts into other classes are encoded by tiktoken. It does not
decode: the tables of `Tokenizer` are as fast.
"""

from __future__ import annotations

import functools
import hashlib
import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from ..errors import VocabularyError
from .special_tokens import FIRST_SPECIAL
from .tiktoken_core import TiktokenCore, id_list
from .vocabulary import load_vocabulary

_LONG_TEXT = 100_000
"""Characters; the list of a longer text's ids is built in parts, so that other threads can run."""

# quicktok 0.4 has an older Unicode: the letters and marks of Unicode 17 are none for it. And after
# the contraction 's with the long s, U+017F, it reads no second contraction. The ranges are coarse.
_OTHER_CLASSES = re.compile(
    "[\u017f\u088f\u0c5c\u0cdc\u1acf-\u1aeb\ua7ce-\ua7f1\U00010940-\U0001e6ff\U0002b73a-\U00033479]"
)

_VOCABULARY_SHA256 = "3bf84d1481dd580b8c08ca6cdac1922903f362637d412c3bd591cd74d6189d53"
_SAMPLES_SHA256 = "f0a1bfed668c0eb122baa09a8d71c35bc12fc0fc6a7ad02bfe7cc05d35648573"
"""Of the ordinary tokens' bytes, one behind the other; of the ids and lengths of sample texts."""

_SAMPLES = 2_000
_PARTS = (
    *("the", " hello", "World", "HTTPServer", "isn't", "I'LL", "'S", "'s", "don\u2019t"),
    *("naïve", "x", "Z", "_", "0", "7", "12345", "1e9", "\u0663", "\xb2", "\u00bd", "e\u0301"),
    *(" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n", "\u3000", "\xa0", "\x85", "\v"),
    *("\u2028", "\u0301", ".", "...", "?!", "://", '{"', '":', "}]", "$", "€", "/", "//\n"),
    *("<|end|>", "<|", "\0", "\x7f", "你好", "漢字", "日本語の", "カタカナ", "한국어"),
    *("Привет", "ΩΣς", "שלום", "عربى", "हिन्दी", "ไทย", "\u01c5", "\u02b0", "\xaa", "\u200d"),
    *("\ufeff", "\ufffd", "😀", "👩\u200d👧", "\U00020000", "𝔘", "\u0378"),
)  # fmt: skip


def sample_texts() -> Iterator[str]:
    """Make the texts of the comparison: words, white space, signs and scripts in any order.

    >>> next(sample_texts())
    '7שלום_\xa0².'
    """
    state = 1
    for _ in range(_SAMPLES):
        parts = []
        for _ in range(6):
            # Knuth's generator of MMIX, so that the texts do not depend on a release of Python.
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            # The low bits of such a generator repeat after a few steps.
            parts.append(_PARTS[(state >> 33) % len(_PARTS)])
        yield "".join(parts)


class QuicktokCore:
    """Encode with quicktok. A text with lone surrogates raises `TypeError`.

    Raises `ImportError` if it is missing, and `VocabularyError` if its results are not those of
    tiktoken.
    """

    def __init__(self) -> None:
        import quicktok

        self._tokenizer: Any = quicktok.get_encoding("o200k_harmony")
        self._encode_short = self._tokenizer.encode_ordinary
        self._check(quicktok.__version__)

    def encode(self, text: str) -> list[int]:
        """Encode a text without special tokens."""
        if _differs(text):
            return self._tiktoken.encode(text)
        if len(text) >= _LONG_TEXT:
            return id_list(self._encoded([text])[0])
        tokens: list[int] = self._encode_short(text)
        return tokens

    def encode_many(self, texts: Sequence[str]) -> list[array[int]]:
        """Encode each text separately, but all in one call; other threads can run meanwhile."""
        if not any(map(_differs, texts)):
            return self._encoded(texts)
        return [array("I", self.encode(text)) for text in texts]

    def _encoded(self, texts: Sequence[str]) -> list[array[int]]:
        ids, ends = self._tokenizer.encode_batch(texts, 1, False)  # one thread, no special tokens
        data = memoryview(ids)
        return [array("I", data[start:end].tobytes()) for start, end in pairwise(ends.tolist())]

    @functools.cached_property
    def _tiktoken(self) -> TiktokenCore:
        return TiktokenCore(load_vocabulary().ranks())

    def _check(self, version: str) -> None:
        """Compare the vocabulary and the ids of the sample texts with tiktoken's."""
        vocabulary = self._tokenizer.decode_bytes(range(FIRST_SPECIAL))
        encoded = self._encoded(list(sample_texts()))
        lengths = array("I", map(len, encoded))
        if (
            hashlib.sha256(vocabulary).hexdigest() != _VOCABULARY_SHA256
            or _sha256(lengths, *encoded) != _SAMPLES_SHA256
        ):
            raise VocabularyError(f"quicktok {version} does not give the tokens of tiktoken")


def _differs(text: str) -> bool:
    return not text.isascii() and _OTHER_CLASSES.search(text) is not None


def _sha256(*ids: array[int]) -> str:
    return hashlib.sha256(b"".join(one.tobytes() for one in ids)).hexdigest()
