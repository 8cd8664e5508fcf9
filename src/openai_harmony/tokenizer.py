"""Text to token ids and back, over the packaged vocabulary.

Decoding needs only the vocabulary's bytes; the byte pair encoder is built when the first text
is encoded, so that a program that only parses never pays for it.
"""

from __future__ import annotations

import re
import threading
from array import array
from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from operator import index
from typing import TYPE_CHECKING, Literal

from .errors import VocabularyError
from .special_tokens import FIRST_SPECIAL, SPECIAL_IDS, SPECIAL_TEXTS, VOCABULARY_SIZE
from .vocabulary import Vocabulary, load_vocabulary

if TYPE_CHECKING:
    import tiktoken

__all__ = ["Tokenizer", "integer", "token_id", "token_ids"]

ASSISTANT = 173781
"""The token "assistant", the role that headers of completions name."""

# How o200k_base cuts text into words before byte pairs are merged. \p{..} are Unicode classes.
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_WORD_PATTERN = "|".join(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)

_ANY_SPECIAL = re.compile(
    r"<\|(?:startoftext|endoftext|return|constrain|channel|start|end|message|call|reserved_\d{6})\|>"
)


class _TokenBytes(dict[int, bytes]):
    """Token id to bytes, filled as ids are met."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._vocabulary = vocabulary

    def __missing__(self, token: int) -> bytes:
        if 0 <= token < FIRST_SPECIAL:
            piece = self._vocabulary[token]
        elif token in SPECIAL_TEXTS:
            piece = SPECIAL_TEXTS[token].encode()
        else:
            raise VocabularyError(_outside(token))
        self[token] = piece
        return piece


class _TokenTexts(dict[int, "str | None"]):
    """Ordinary token id to text, or None where only the neighbouring tokens complete it."""

    def __init__(self, pieces: _TokenBytes) -> None:
        super().__init__()
        self._pieces = pieces

    def __missing__(self, token: int) -> str | None:
        if not 0 <= token < FIRST_SPECIAL:
            return None
        try:
            text: str | None = self._pieces[token].decode()
        except UnicodeDecodeError:
            text = None
        self[token] = text
        return text


class Tokenizer:
    """Encode and decode; safe to share between threads.

    >>> tokenizer = Tokenizer()
    >>> tokenizer.decode(tokenizer.encode_ordinary("hello <|end|>"))
    'hello <|end|>'
    """

    def __init__(self) -> None:
        self.pieces = _TokenBytes(load_vocabulary())
        self.texts = _TokenTexts(self.pieces)
        self.texts_but_role = _TokenTexts(self.pieces)
        """The same, but None for the token "assistant", which may be more than text."""
        self.texts_but_role[ASSISTANT] = None
        self._bpe: tiktoken.Encoding | None = None
        self._bpe_lock = threading.Lock()

    def encode_ordinary(self, text: str) -> list[int]:
        """Encode `text`; whatever looks like a special token is text like any other.

        Lone surrogates become U+FFFD, pairs of them the character they stand for.
        """
        bpe = self._bpe or self._build_bpe()
        return bpe.encode_ordinary(text)

    def encode(
        self,
        text: str,
        allowed_special: Literal["all"] | AbstractSet[str],
        disallowed_special: Literal["all"] | Collection[str],
    ) -> list[int]:
        """Encode `text`, reading the allowed special tokens and refusing the disallowed ones."""
        if not isinstance(text, str):
            raise TypeError(f"text must be a str, not {type(text).__name__}")
        allowed = SPECIAL_IDS.keys() if allowed_special == "all" else allowed_special
        _refuse_disallowed(text, allowed, disallowed_special)
        if not allowed or "<|" not in text:
            return self.encode_ordinary(text)
        tokens: list[int] = []
        done = 0
        for match in _ANY_SPECIAL.finditer(text):
            spelling = match[0]
            if spelling in allowed and spelling in SPECIAL_IDS:
                tokens += self.encode_ordinary(text[done : match.start()])
                tokens.append(SPECIAL_IDS[spelling])
                done = match.end()
        tokens += self.encode_ordinary(text[done:])
        return tokens

    def decode_bytes(self, tokens: Iterable[int]) -> bytes:
        """Join the bytes of `tokens`; special tokens give their spelling."""
        return b"".join(map(self.pieces.__getitem__, token_ids(tokens)))

    def decode(self, tokens: Iterable[int], errors: str = "replace") -> str:
        """Join the text of `tokens`; `errors` says what happens to invalid UTF-8."""
        return self.decode_bytes(tokens).decode("utf-8", errors)

    def _build_bpe(self) -> tiktoken.Encoding:
        with self._bpe_lock:
            if self._bpe is None:
                import tiktoken  # 20 ms that a program which only parses need not spend

                self._bpe = tiktoken.Encoding(
                    "o200k_base",
                    pat_str=_WORD_PATTERN,
                    mergeable_ranks=load_vocabulary().ranks(),
                    special_tokens={},
                )
            return self._bpe


def token_ids(tokens: Iterable[int]) -> array[int]:
    """Token ids of any kind (list, NumPy array, tensor) as plain ones, or a clear error."""
    if isinstance(tokens, (str, bytes)):
        raise VocabularyError(f"expected token ids, found {type(tokens).__name__}; encode it first")
    known = tokens if isinstance(tokens, Collection) else list(tokens)
    try:
        return array("I", known)
    except (TypeError, OverflowError, ValueError):
        return array("I", map(token_id, known))


def token_id(token: object) -> int:
    """One token id as an `int`, or a clear error.

    >>> token_id(-1)
    Traceback (most recent call last):
    openai_harmony.errors.VocabularyError: token id -1 is outside the vocabulary (0 to 201088)
    """
    number = integer(token)
    if not 0 <= number < VOCABULARY_SIZE:
        raise VocabularyError(_outside(number))
    return number


def integer(token: object) -> int:
    """Any kind of integer as an `int`, or a clear error."""
    try:
        return index(token)  # type: ignore[arg-type]
    except TypeError:
        raise VocabularyError(
            f"a token id is an integer, not {token!r} ({type(token).__name__})"
        ) from None


def _outside(token: int) -> str:
    return f"token id {token} is outside the vocabulary (0 to {VOCABULARY_SIZE - 1})"


def _refuse_disallowed(
    text: str,
    allowed: AbstractSet[str],
    disallowed_special: Literal["all"] | Collection[str],
) -> None:
    if disallowed_special == "all":
        if "<|" not in text:
            return
        spellings = (match[0] for match in _ANY_SPECIAL.finditer(text))
        found = next((s for s in spellings if s in SPECIAL_IDS and s not in allowed), None)
    else:
        present = (s for s in disallowed_special if s in text)
        found = min(present, key=text.index, default=None)
    if found is not None:
        raise VocabularyError(
            f"the text contains {found!r}, which is disallowed here. To encode it as a special "
            f"token pass allowed_special={{{found!r}}}; to encode it as ordinary text pass "
            f"disallowed_special=(encoding.special_tokens_set - {{{found!r}}}), or "
            "disallowed_special=() to do so for all special tokens."
        )
