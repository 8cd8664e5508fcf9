"""Text to token ids and back, over the packaged vocabulary.

Decoding needs only the vocabulary's bytes; the byte pair encoder is built when the first text
is encoded, so that a program that only parses never pays for it.
"""

from __future__ import annotations

import functools
import re
import sys
import threading
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from operator import index, itemgetter
from typing import TYPE_CHECKING, Any, Literal

from ..errors import VocabularyError
from .first_texts import FirstTexts
from .special_tokens import FIRST_SPECIAL, SPECIAL_IDS, SPECIAL_TEXTS, VOCABULARY_SIZE
from .vocabulary import Vocabulary, load_vocabulary

if TYPE_CHECKING:
    import tiktoken

__all__ = [
    "Tokenizer",
    "collection_of_ids",
    "integer",
    "load_tokenizer",
    "special_positions",
    "token_id",
    "token_ids",
]

ASSISTANT = 173781
"""The token "assistant": in a body, too, it may be the role of a header that lost its start."""

# How o200k_base cuts text into words before byte pairs are merged. \p{..} are Unicode classes.
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
# The outer group lets the encoder try all of these at once; alone, each is tried by itself.
_WORD_PATTERN = "|".join(
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
"""White space of this length is encoded apart: see `_long_white_words`."""

_WHITE_CHARACTERS = (
    "\t\v\f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)  # what \s matches in the pattern, except \r and \n
_WHITE = re.compile(f"[{_WHITE_CHARACTERS}]+")

# Stands between texts that are encoded in one call; known to the encoder alone. It is ASCII, so
# that texts in ASCII need not be converted, and no end of it is a beginning of it, so that no text
# beside it can move the place where it is found.
_SEPARATOR = "\x1f<|separator|>\x1e"
_SEPARATOR_ID = VOCABULARY_SIZE
_SEPARATOR_BYTES = array("I", [_SEPARATOR_ID]).tobytes()

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


@functools.cache
def load_tokenizer() -> Tokenizer:
    """Return the tokenizer; made once per process."""
    return Tokenizer()


class Tokenizer:
    """Encode and decode; safe to share between threads.

    >>> tokenizer = Tokenizer()
    >>> tokenizer.decode(tokenizer.encode_ordinary("hello <|end|>"))
    'hello <|end|>'
    """

    def __init__(self) -> None:
        self.pieces = _TokenBytes(load_vocabulary())
        self.body_texts = _empty_table()
        """Text of the tokens that are nothing but text in the body of a message."""
        self.no_texts = _empty_table()
        """Never filled: what holds where no token is just text."""
        self._first: FirstTexts | None = FirstTexts()  # until there is an encoder
        self._bpe: tiktoken.Encoding | None = None
        self._bpe_lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return load_tokenizer, ()  # its copies are the one of the process

    @functools.cached_property
    def _ids(self) -> tuple[int, ...]:
        """Every id as one object."""
        return tuple(range(VOCABULARY_SIZE))

    @functools.cached_property
    def _texts(self) -> list[str | None]:
        """Text of all tokens that are whole characters, special ones by their spelling."""
        table = self.body_texts.copy()
        for token, text in SPECIAL_TEXTS.items():
            table[token] = text
        return table

    def encode_ordinary(self, text: str) -> list[int]:
        """Encode `text`; whatever looks like a special token is text like any other.

        Lone surrogates become U+FFFD, pairs of them the character they stand for.
        """
        first = self._first
        if first is not None and (known := first.encode(text)) is not None:
            return known
        bpe = self._bpe or self._build_bpe()
        if len(text) < WHITE_LIMIT:
            return bpe.encode_ordinary(text)
        tokens: list[int] = []
        done = 0
        for start, end in _long_white_words(text, WHITE_LIMIT):
            tokens += bpe.encode_ordinary(text[done:start])
            tokens += bpe._encode_single_piece(text[start:end])
            done = end
        return tokens + bpe.encode_ordinary(text[done:])

    def encode_many(self, texts: Sequence[str]) -> list[array[int]]:
        """Encode each text by itself, all in one call: the encoder works without the GIL, and
        threads that ask it for one text after the other would wait for each other in between.
        """
        joined = _SEPARATOR.join(texts)
        first = self._first
        if (
            (first is not None and first.takes(joined))
            or joined.count(_SEPARATOR) != len(texts) - 1
            or (len(joined) >= WHITE_LIMIT and any(_long_white_words(joined, WHITE_LIMIT)))
        ):
            return [array("I", self.encode_ordinary(text)) for text in texts]
        bpe = self._bpe or self._build_bpe()
        try:
            # What encode_to_numpy wraps in an array: the ids as they lie in memory.
            buffer = bpe._core_bpe.encode_to_tiktoken_buffer(joined, {_SEPARATOR})
        except UnicodeEncodeError:  # lone surrogates
            return [array("I", self.encode_ordinary(text)) for text in texts]
        # A separator's bytes are found nowhere else: the last byte of every id is zero.
        return [array("I", part) for part in bytes(buffer).split(_SEPARATOR_BYTES)]

    def shared(self, tokens: Iterable[int]) -> list[int]:
        """The same ids, each as the one object that stands for it wherever tokens are kept."""
        ids = self._ids
        return [ids[token] for token in tokens]

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
        known = collection_of_ids(tokens)
        try:
            array("I", known)  # refuses negative ids, which would count from the table's end
            return "".join(itemgetter(*known)(self._texts))
        except (TypeError, IndexError, OverflowError):  # a token that is not in the table
            return self._decode_any(known, errors)

    def learn(self, token: int) -> str | None:
        """Enter a token into the tables; return its text if it is nothing but text in a body."""
        if not 0 <= token < FIRST_SPECIAL:
            return None
        try:
            text = self.pieces[token].decode()
        except UnicodeDecodeError:
            return None
        if token == ASSISTANT:
            return None
        self.body_texts[token] = text
        return text

    def decode_body(self, tokens: Sequence[int]) -> str | None:
        """Join the text of ordinary tokens; None where they do not give whole characters."""
        try:
            return "".join(itemgetter(*tokens)(self.body_texts))
        except TypeError:  # a token that is not in the table
            for token in tokens:
                self.learn(token)
        try:
            return b"".join(map(self.pieces.__getitem__, tokens)).decode()
        except UnicodeDecodeError:
            return None

    def _decode_any(self, tokens: Collection[int], errors: str) -> str:
        ids = token_ids(tokens)
        data = b"".join(map(self.pieces.__getitem__, ids))  # refuses ids beyond the tables
        for token in set(ids):
            self._texts[token] = self.learn(token) or self._texts[token]
        return data.decode("utf-8", errors)

    def _build_bpe(self) -> tiktoken.Encoding:
        with self._bpe_lock:
            if self._bpe is None:
                import tiktoken  # 20 ms that a program which only parses need not spend

                first = self._first or FirstTexts()
                bpe = tiktoken.Encoding(
                    "o200k_base",
                    pat_str=_WORD_PATTERN,
                    mergeable_ranks=first.ranks,
                    special_tokens={_SEPARATOR: _SEPARATOR_ID},
                )
                bpe._mergeable_ranks = {}  # 20 MB that it would keep for nothing
                self._bpe, self._first = bpe, None
            return self._bpe


def _long_white_words(text: str, limit: int) -> Iterator[tuple[int, int]]:
    r"""Find the words of white space (start, end) that are about `limit` long or longer.

    tiktoken panics where ``\s+(?!\S)`` meets a million characters, so such words are cut off
    and merged by themselves. Take a run: all the white space (two characters or more, none of
    them ``\r`` or ``\n``) between two characters that are not such white space.

    - A word begins where the run begins. Words of other characters hold white space only as their
      first character, or ``\r`` and ``\n`` at their end; and after white space that ends in
      ``\r`` or ``\n`` a word of white space ends (``\s*[\r\n]+``).
    - If ``\r`` or ``\n`` follows, the run is the beginning of such a word, which is matched
      without a stack.
    - Else the word is the whole run at the end of the text, and elsewhere the run without its
      last character, which may belong to the next word.

    A run of `limit` characters covers a multiple of `limit` (less one): only these places are
    looked at.
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


def _empty_table() -> list[str | None]:
    """Make a table from id to text, filled as ids are met.

    It is twice as long as there are ids, so that a negative index, which counts from the end,
    finds None as well.
    """
    return [None] * (2 * VOCABULARY_SIZE)


def token_ids(tokens: Iterable[int]) -> array[int]:
    """Token ids of any kind (list, NumPy array, tensor) as plain ones, or a clear error."""
    known = collection_of_ids(tokens)
    try:
        return array("I", known)
    except (TypeError, OverflowError, ValueError):
        return array("I", map(token_id, known))


def collection_of_ids(tokens: Iterable[int]) -> Collection[int]:
    """The same tokens as something that can be read twice; text is refused."""
    if isinstance(tokens, (str, bytes, bytearray)):
        raise VocabularyError(f"expected token ids, found {type(tokens).__name__}; encode it first")
    return tokens if isinstance(tokens, Collection) else list(tokens)


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
    shown = token if token.bit_length() < 100 else "with more than 30 digits"  # slow, or refused
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
            f"the text contains {found!r}, which is disallowed here. To encode it as a special "
            f"token pass allowed_special={{{found!r}}}; to encode it as ordinary text pass "
            f"disallowed_special=(encoding.special_tokens_set - {{{found!r}}}), or "
            "disallowed_special=() to do so for all special tokens."
        )


def special_positions(ids: array[int]) -> list[int]:
    """Where `ids` holds special tokens, or ids beyond the vocabulary.

    The third byte of every special id is a 3, which is searched at C speed; few ordinary ids
    (those from 196608) have a 3 there.
    """
    data = ids.tobytes()
    third, fourth = (2, 3) if sys.byteorder == "little" else (1, 0)
    high = data[third::4]
    if high.translate(None, b"\x00\x01\x02\x03") or data[fourth::4] != bytes(len(ids)):
        return [at for at, token in enumerate(ids) if token >= FIRST_SPECIAL]
    candidates = (match.start() for match in _HIGH_BYTE.finditer(high))
    return [at for at in candidates if ids[at] >= FIRST_SPECIAL]


_HIGH_BYTE = re.compile(rb"\x03")
