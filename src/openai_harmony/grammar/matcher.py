"""A grammar at work: which tokens may come next, token by token, for engines.

`find_mismatch` compares a whole completion with a grammar.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import llguidance
from llguidance import LLExecutor, LLMatcher, TokenizerWrapper

from ..encoding import load_harmony_encoding
from ..rendering.cache import SharedCache
from ..tokens.special_tokens import FIRST_SPECIAL, SPECIAL_IDS, SPECIAL_TEXTS, VOCABULARY_SIZE
from ..tokens.vocabulary import load_vocabulary
from .errors import GrammarError

__all__ = [
    "BITMASK_WORDS",
    "MODEL_VOCABULARY_SIZE",
    "Matcher",
    "Mismatch",
    "fill_bitmasks",
    "find_mismatch",
]

# The vocabulary

MODEL_VOCABULARY_SIZE = 201_088
"""Logits of the gpt-oss models; the format's last special token has none."""

_SLICES = [
    r'[^<|"\\\x00-\x1F\x7F]{1,10}',
    r'[^<|"\\\x00-\x1F\x7F]{1,30}',
    r'[^<|"\\\x00-\x1F\x7F]+',
    r"[^<|]+",
]
"""Kinds of tokens whose masks llguidance computes beforehand: those allowed anywhere in JSON
strings, and those allowed anywhere in text, since no special token is spelled with them."""


class _Table:
    """The tokenizer of harmony in the form that llguidance takes."""

    def __init__(self) -> None:
        special = range(FIRST_SPECIAL, MODEL_VOCABULARY_SIZE)
        self.tokens = [*load_vocabulary(), *(SPECIAL_TEXTS[token].encode() for token in special)]
        self.special_token_ids = list(special)
        # Ends a sequence for llguidance; in harmony <|return|> and <|call|> do, inside the grammar.
        self.eos_token_id = SPECIAL_IDS["<|endoftext|>"]
        self.bos_token_id = None

    def __call__(self, text: bytes) -> list[int]:
        encoding = load_harmony_encoding("HarmonyGptOss")
        return encoding.tokenizer.encode_ordinary(text.decode("utf-8", "replace"))


@functools.cache
def token_table() -> llguidance.LLTokenizer:
    """Return the vocabulary in the form of llguidance, built once per process in some 0.4 s."""
    return llguidance.LLTokenizer(TokenizerWrapper(_Table()), slices=_SLICES)


# Matchers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


BITMASK_WORDS = MODEL_VOCABULARY_SIZE // 32
"""32-bit words of a bitmask: one bit for each logit of the model, the lowest bit first."""

_COUNTS_TOKENS = "[max_tokens="
_BYTES_OF_A_GRAMMAR = 80  # compiled, for each character of its text: 58 to 83 were measured
_compiled: SharedCache[str, tuple[str, LLMatcher]] = SharedCache(
    256 * 1024 * 1024, lambda entry: _BYTES_OF_A_GRAMMAR * len(entry[0])
)


def _compile(grammar: str) -> LLMatcher:
    """Return a compiled grammar, from the cache if possible; callers only copy it."""

    def compiled() -> tuple[str, LLMatcher]:
        matcher = LLMatcher(token_table(), grammar, log_level=0)
        if matcher.is_error():
            problem = " ".join(matcher.get_error().split())
            raise GrammarError(f"the grammar does not compile: {problem:.300}")
        return grammar, matcher

    return _compiled.get_or_make(grammar, compiled)[1]


class Matcher:
    """The state of a grammar within a completion, which begins after ``<|start|>assistant``.

    Equal grammars are compiled once and shared. A matcher belongs to one completion and one thread
    at a time. `bitmask` and `fill_bitmasks` work without the GIL.

    >>> from openai_harmony import Conversation, load_harmony_encoding
    >>> from openai_harmony.grammar import turn_grammar
    >>> encoding = load_harmony_encoding("HarmonyGptOss")
    >>> matcher = Matcher(turn_grammar(Conversation.from_messages([])))
    >>> completion = "<|channel|>final<|message|>hi<|return|>"
    >>> matcher.accept_all(encoding.encode(completion, allowed_special="all"))
    5
    >>> matcher.is_finished
    True
    """

    __slots__ = ("_grammar", "_matcher", "_tokens")

    def __init__(self, grammar: str) -> None:
        self._grammar = grammar
        self._matcher = _compile(grammar).deep_copy()
        self._tokens: list[int] = []

    @property
    def is_finished(self) -> bool:
        """True once the turn has ended with its stop token: nothing may follow."""
        return self._matcher.is_stopped() and not self._matcher.is_error()

    def bitmask(self) -> bytes:
        """Return one bit for each logit of the model, lowest first: set if the token may come next.

        25,136 bytes; ``numpy.unpackbits(…, bitorder="little")`` makes them bools.
        """
        mask = self._matcher.compute_bitmask()[: 4 * BITMASK_WORDS]  # it has a word more
        self.check()
        return mask

    def allowed_tokens(self) -> list[int]:
        """Return the ids that may come next, in order; slow if there are many."""
        if self.is_finished:
            return []
        mask = int.from_bytes(self.bitmask(), "little")
        bits = bin(mask)[:1:-1]
        return [token for token, bit in enumerate(bits) if bit == "1"]

    def forced_tokens(self) -> list[int]:
        """Return the tokens that must come next, up to the first with a choice."""
        return self._matcher.compute_ff_tokens()

    def accept(self, token: int) -> bool:
        """Take a token; where it is not allowed, change nothing and return False."""
        return self.accept_all((token,)) == 1

    def accept_all(self, tokens: Sequence[int]) -> int:
        """Take tokens up to the first that is not allowed; return how many were taken."""
        valid = _before_unknown(tokens)
        taken = self._matcher.try_consume_tokens(valid)
        self.check()
        self._tokens += valid[:taken]
        return taken

    def count_allowed(self, tokens: Sequence[int]) -> int:
        """Return how many of `tokens` (a draft) could be taken, without taking them."""
        return self._matcher.validate_tokens(_before_unknown(tokens))

    def rollback(self, count: int) -> None:
        """Take back the last `count` tokens."""
        kept = len(self._tokens) - count
        if not 0 <= kept <= len(self._tokens):
            raise ValueError(f"cannot take back {count} of {len(self._tokens)} tokens")
        if _COUNTS_TOKENS not in self._grammar and self._matcher.rollback(count):
            del self._tokens[kept:]
            return
        tokens = self._tokens[:kept]  # the engine cannot take tokens back that it counts
        self.reset()
        self.accept_all(tokens)

    def reset(self) -> None:
        """Take back all tokens."""
        self._matcher = _compile(self._grammar).deep_copy()
        self._tokens = []

    def copy(self) -> Matcher:
        """Return another matcher in the same state, as beam search needs it."""
        twin = Matcher.__new__(Matcher)
        twin._grammar = self._grammar
        twin._matcher = self._matcher.deep_copy()
        twin._tokens = self._tokens.copy()
        return twin

    def check(self) -> None:
        """Raise `GrammarError` if the engine gave up; that is final."""
        if self._matcher.is_error():
            problem = " ".join(self._matcher.get_error().split())
            raise GrammarError(f"the grammar cannot be followed any further: {problem:.300}")


def _before_unknown(tokens: Sequence[int]) -> list[int]:
    """Return the tokens up to the first that the model does not have."""
    ids = range(MODEL_VOCABULARY_SIZE)
    return list(takewhile(ids.__contains__, tokens))


_executor: LLExecutor | None = None


def fill_bitmasks(matchers: Iterable[tuple[int, Matcher]], bitmasks: NDArray[np.int32]) -> None:
    """Compute the bitmasks of a batch, on all cores.

    `bitmasks` has the shape (rows, `BITMASK_WORDS`) and the type int32; each matcher fills the row
    of its number. The rows of finished matchers are left alone, and so are those that no matcher
    names.
    """
    global _executor
    if bitmasks.ndim != 2 or bitmasks.shape[1] != BITMASK_WORDS or bitmasks.dtype != "int32":
        raise ValueError(
            f"bitmasks must have the shape (rows, {BITMASK_WORDS}) and the type int32, "
            f"not {bitmasks.shape} and {bitmasks.dtype}"
        )
    if not bitmasks.flags.c_contiguous:
        raise ValueError("bitmasks must be contiguous")
    if _executor is None:
        _executor = LLExecutor()
    unfinished = [(row, matcher) for row, matcher in matchers if not matcher.is_finished]
    work = [(matcher._matcher, row) for row, matcher in unfinished]
    if work:
        rows, words = bitmasks.shape
        _executor.unsafe_compute_mask_ptr(work, bitmasks.ctypes.data, 4 * words, rows)
    for _, matcher in unfinished:
        matcher.check()


# Mismatches

_SHOWN_ALLOWED = 8
_SHOWN_BEFORE = 10


class Mismatch(NamedTuple):
    """The first token that the grammar does not allow; None if the completion ends too early.

    `allowed` are all the ids that are allowed there.
    """

    position: int
    token: int | None
    allowed: list[int]

    def explained(self, tokens: Sequence[int]) -> str:
        """Explain where the completion `tokens` leaves the grammar, and what is allowed there.

        >>> from openai_harmony import Conversation
        >>> from openai_harmony.grammar import turn_grammar
        >>> tokens = [200005, 1]
        >>> mismatch = find_mismatch(turn_grammar(Conversation.from_messages([])), tokens)
        >>> print(mismatch.explained(tokens).partition(";")[0])
        token 1 ('"') leaves the grammar after '<|channel|>'
        """
        decode = load_harmony_encoding("HarmonyGptOss").decode
        allowed = self.allowed
        shown = ", ".join(repr(decode([token])) for token in allowed[:_SHOWN_ALLOWED])
        hidden = len(allowed) - _SHOWN_ALLOWED
        more = f" and {hidden:,} more" if hidden > 0 else ""
        expected = f"allowed there: {shown}{more}" if allowed else "the turn ended before it"
        before = decode(tokens[max(self.position - _SHOWN_BEFORE, 0) : self.position])
        where = f"after {before!r}" if before else "at the beginning"
        if self.token is None:
            return f"the completion ends before the turn does, {where}; {expected}"
        text = repr(decode([self.token])) if self.token < VOCABULARY_SIZE else str(self.token)
        return f"token {self.position} ({text}) leaves the grammar {where}; {expected}"


def find_mismatch(grammar: str, tokens: Sequence[int]) -> Mismatch | None:
    """Compare a completion with a grammar; return None if it is a whole turn.

    >>> from openai_harmony import Conversation
    >>> from openai_harmony.grammar import turn_grammar
    >>> find_mismatch(turn_grammar(Conversation.from_messages([])), [200005, 1])[:2]
    (1, 1)
    """
    matcher = Matcher(grammar)
    taken = matcher.accept_all(tokens)
    if taken == len(tokens) and matcher.is_finished:
        return None
    token = tokens[taken] if taken < len(tokens) else None
    return Mismatch(taken, token, matcher.allowed_tokens())
