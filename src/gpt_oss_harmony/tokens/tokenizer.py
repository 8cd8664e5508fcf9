"""Text to token ids and back, with the packaged vocabulary; checks of token ids."""

from __future__ import annotations

import functools
import re
import sys
from array import array
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from operator import index, itemgetter
from typing import Any, Literal

from ..errors import VocabularyError
from .encoder import new_encoder
from .special_tokens import FIRST_SPECIAL, SPECIAL_IDS, SPECIAL_TEXTS, VOCABULARY_SIZE
from .tiktoken_core import TiktokenCore
from .vocabulary import Vocabulary, load_vocabulary

ASSISTANT = 173781
"""The token "assistant". In a body it may be the role of a header that lacks ``<|start|>``."""

_ANY_SPECIAL = re.compile(
    r"<\|(?:startoftext|endoftext|return|constrain|channel|start|end|message|call|reserved_\d{6})\|>"
)


class _TokenBytes(dict[int, bytes]):
    """A table from token id to bytes, filled on demand."""

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


@functools.cache
def load_tokenizer() -> Tokenizer:
    """Return the tokenizer, which is built once per process."""
    return Tokenizer()


class Tokenizer:
    """Encode and decode text; safe to share between threads.

    >>> tokenizer = Tokenizer()
    >>> tokenizer.decode(tokenizer.encode_ordinary("hello <|end|>"))
    'hello <|end|>'
    """

    def __init__(self) -> None:
        self.pieces = _TokenBytes(load_vocabulary())
        self.body_texts = _empty_table()
        """The text of each token that can only be text in the body of a message."""
        self.no_texts = _empty_table()
        """An empty table, for states in which no token is only text."""
        self.encoder = new_encoder()

    def __reduce__(self) -> tuple[Any, ...]:
        return load_tokenizer, ()  # a copy is the one tokenizer of its process

    @functools.cached_property
    def _ids(self) -> tuple[int, ...]:
        """One integer object for each id."""
        return tuple(range(VOCABULARY_SIZE))

    @functools.cached_property
    def _byte_texts(self) -> list[str | None]:
        """The bytes of tokens as Latin-1 characters, which Python joins faster than bytes."""
        return [None] * VOCABULARY_SIZE

    def encode_ordinary(self, text: str) -> list[int]:
        """Encode `text`; the spelling of a special token is ordinary text.

        A lone surrogate becomes U+FFFD, a surrogate pair its character.
        """
        return self.encoder.encode(text)

    def encode_many(self, texts: Sequence[str]) -> list[array[int]]:
        """Encode each text separately, in one call; other threads can run meanwhile."""
        return self.encoder.encode_many(texts)

    def shared(self, tokens: Iterable[int]) -> list[int]:
        """Return the same ids as shared integer objects, which saves memory."""
        ids = self._ids
        return [ids[token] for token in tokens]

    def encode(
        self,
        text: str,
        allowed_special: Literal["all"] | AbstractSet[str],
        disallowed_special: Literal["all"] | Collection[str],
    ) -> list[int]:
        """Encode `text` and its allowed special tokens; others raise `VocabularyError`."""
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
            # The pattern also matches `reserved_` with ids that do not exist.
            if spelling in allowed and spelling in SPECIAL_IDS:
                tokens += self.encode_ordinary(text[done : match.start()])
                tokens.append(SPECIAL_IDS[spelling])
                done = match.end()
        tokens += self.encode_ordinary(text[done:])
        return tokens

    def decode_bytes(self, tokens: Iterable[int]) -> bytes:
        """Return the bytes of `tokens`; those of a special token are its spelling."""
        core = self.encoder.core
        if isinstance(core, TiktokenCore):
            tokens = collection_of_ids(tokens)
            try:
                data: bytes = core.decode_bytes(tokens)
                return data
            except (KeyError, OverflowError, TypeError):
                pass  # a NumPy array, or a value that is not a token id (an error below)
        checked = token_ids(tokens)  # a negative id would count from the end of the table
        # `itemgetter` is faster with plain integers than with NumPy's.
        ids = tokens if type(tokens) is list else checked
        try:
            # Of one id, `itemgetter` returns the text alone, which joins to itself.
            return "".join(itemgetter(*ids)(self._byte_texts)).encode("latin-1")
        except (TypeError, IndexError):  # not an id, an id not yet in the table, or an unknown one
            for token in set(ids):
                self._byte_texts[token] = self.pieces[token].decode("latin-1")
            return b"".join(map(self.pieces.__getitem__, ids))

    def decode(self, tokens: Iterable[int], errors: str = "replace") -> str:
        """Return the text of `tokens`; `errors` handles invalid UTF-8, as in `bytes.decode`."""
        try:
            data = self.decode_bytes(tokens)
        except VocabularyError as error:  # in the reference's words, which programs may look for
            problem = str(error).removeprefix("token id ")
            raise VocabularyError(f"Invalid token for decoding: {problem}") from None
        return data.decode("utf-8", errors)


def _empty_table() -> list[str | None]:
    """Make a table from id to text, which is filled on demand.

    It is twice as long as the vocabulary, so a negative index, which counts from the end, gives
    None as well.
    """
    return [None] * (2 * VOCABULARY_SIZE)


def token_ids(tokens: Iterable[int]) -> array[int]:
    """Return token ids (a list, NumPy array or tensor) as an array, or raise `VocabularyError`."""
    ids = collection_of_ids(tokens)
    try:
        return id_array(ids)
    except (TypeError, OverflowError, ValueError):
        return array("I", map(token_id, ids))


def id_array(ids: Collection[int]) -> array[int]:
    """Return ids as an array; raise `array`'s error if one is not an unsigned 32-bit integer."""
    if not isinstance(ids, list):
        return array("I", ids)
    converted = array("I")
    converted.fromlist(ids)  # takes two thirds of the constructor's time
    return converted


def collection_of_ids(tokens: Iterable[int]) -> Collection[int]:
    """Return tokens as a collection, which can be read twice; text raises `VocabularyError`."""
    if type(tokens) is list:  # nearly always, and the checks below are slow
        return tokens
    if isinstance(tokens, (str, bytes, bytearray)):
        raise VocabularyError(f"expected token ids, found {type(tokens).__name__}; encode it first")
    if isinstance(tokens, Collection):
        return tokens
    if not isinstance(tokens, Iterable):
        raise TypeError(
            f"expected a list of token ids, found {type(tokens).__name__}; write [token] for one"
        )
    return list(tokens)


def token_id(token: object) -> int:
    """Return a token id as an `int`, or raise `VocabularyError`.

    >>> token_id(-1)
    Traceback (most recent call last):
    gpt_oss_harmony.errors.VocabularyError: token id -1 is outside the vocabulary (0 to 201088)
    """
    number = integer(token)
    if not 0 <= number < VOCABULARY_SIZE:
        raise VocabularyError(_outside(number))
    return number


def integer(token: object) -> int:
    """Return any kind of integer as an `int`, or raise `VocabularyError`."""
    try:
        return index(token)  # type: ignore[arg-type]
    except TypeError:
        raise VocabularyError(
            f"a token id must be an integer, not {token!r:.80} ({type(token).__name__})"
            f"{advice(token)}"
        ) from None


def advice(token: object) -> str:
    """Return how to mend a value that is not a token id, for the end of an error message."""
    if isinstance(token, (str, bytes)):
        return "; encode() turns text into token ids"
    if isinstance(token, Iterable):
        return "; pass one row of a batch, such as batch[0]; process_many() takes a list of ids"
    return "; write an id such as 200006"


def _outside(token: int) -> str:
    shown = token if abs(token) < 10**30 else "with more than 30 digits"  # slow to print
    return f"token id {shown} is outside the vocabulary (0 to {VOCABULARY_SIZE - 1})"


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
            f"Encountered text corresponding to disallowed special token {found!r}. To encode it "
            f"as a special token pass allowed_special={{{found!r}}}; to encode it as ordinary text "
            f"pass disallowed_special=(encoding.special_tokens_set - {{{found!r}}}), or "
            "disallowed_special=() to do so for all special tokens."
        )


def special_positions(ids: array[int]) -> list[int]:
    """Return the positions of special tokens and of ids outside the vocabulary.

    The third byte of every special id is 3, and a search for a byte runs at C speed. Only few
    ordinary ids (those from 196608) also have a 3 there.
    """
    data = ids.tobytes()
    third, fourth = (2, 3) if sys.byteorder == "little" else (1, 0)
    high = data[third::4]
    if high.translate(None, b"\x00\x01\x02\x03") or data[fourth::4] != bytes(len(ids)):
        return [at for at, token in enumerate(ids) if token >= FIRST_SPECIAL]
    candidates = (match.start() for match in _HIGH_BYTE.finditer(high))
    return [at for at in candidates if ids[at] >= FIRST_SPECIAL]


_HIGH_BYTE = re.compile(rb"\x03")
