"""Text to token ids, by the fastest byte pair encoder that is installed: quicktok or tiktoken.

Building the encoder takes 130 ms or more. A program's first texts are encoded in Python if they are
short and ASCII, so a program that renders one small prompt never builds the encoder. Where tiktoken
is not installed, all texts are encoded in Python.
"""

from __future__ import annotations

import functools
import os
import threading
import warnings
from array import array
from collections.abc import Sequence
from importlib.util import find_spec

from ..errors import VocabularyError
from .python_encoder import PythonEncoder, ascii_words, merged, without_surrogates
from .quicktok_core import QuicktokCore
from .tiktoken_core import TiktokenCore
from .vocabulary import load_vocabulary

CHOICE = "HARMONY_TOKENIZER"
"""The environment variable that chooses the encoder: ``tiktoken`` or ``quicktok``."""


def installed_encoder() -> str:
    """Return which encoder is used: the chosen one, or the fastest that is installed.

    Raises `VocabularyError` if the choice is unknown.
    """
    chosen = os.environ.get(CHOICE, "")
    if chosen not in ("", "quicktok", "tiktoken"):
        raise VocabularyError(f"{CHOICE}={chosen!r} is unknown; choose tiktoken or quicktok")
    if not _is_installed("tiktoken"):
        return "Python"
    return chosen or ("quicktok" if _is_installed("quicktok") else "tiktoken")


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ImportError:  # a finder that refuses the package
        return False


def new_encoder() -> Encoder | PythonEncoder:
    """Return the encoder that `installed_encoder` names."""
    name = installed_encoder()
    return PythonEncoder() if name == "Python" else Encoder(tries_quicktok=name == "quicktok")


class Encoder:
    """Encode text without special tokens; safe to share between threads.

    >>> Encoder().encode("hello <|end|>")
    [24912, 464, 91, 419, 91, 29]
    """

    def __init__(self, *, tries_quicktok: bool = False) -> None:
        self.core: TiktokenCore | QuicktokCore | None = None
        """The encoder in C++ or Rust once it is built."""
        self._tries_quicktok = tries_quicktok
        self._first: FirstTexts | None = FirstTexts()  # until the encoder is built
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The package that encodes, or that will."""
        if self.core is None:
            return "quicktok" if self._tries_quicktok else "tiktoken"
        return "quicktok" if isinstance(self.core, QuicktokCore) else "tiktoken"

    def encode(self, text: str) -> list[int]:
        """Encode a text. A lone surrogate becomes U+FFFD, a surrogate pair its character."""
        # A local name, because another thread may build the encoder meanwhile.
        first = self._first
        if first is not None and (tokens := first.encode(text)) is not None:
            return tokens
        core = self.core or self._build()
        try:
            return core.encode(text)
        except (UnicodeEncodeError, TypeError):  # lone surrogates
            return core.encode(without_surrogates(text))

    def encode_many(self, texts: Sequence[str]) -> list[array[int]]:
        """Encode each text separately, but all in one call."""
        first = self._first
        if first is not None and sum(map(len, texts)) <= first.left:
            return [array("I", self.encode(text)) for text in texts]
        core = self.core or self._build()
        try:
            return core.encode_many(texts)
        except (UnicodeEncodeError, TypeError):  # lone surrogates
            return [array("I", self.encode(text)) for text in texts]

    def _build(self) -> TiktokenCore | QuicktokCore:
        with self._lock:
            if self.core is None:
                self.core = self._quicktok() or TiktokenCore((self._first or FirstTexts()).ranks)
                self._first = None
            return self.core

    def _quicktok(self) -> QuicktokCore | None:
        if not self._tries_quicktok:
            return None
        try:
            return QuicktokCore()
        except (ImportError, VocabularyError, RuntimeError) as error:
            warnings.warn(f"{error}; tiktoken is used instead", RuntimeWarning, stacklevel=5)
            return None


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
