"""A grammar at work: which tokens may come next, token by token, for engines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from llguidance import LLExecutor, LLMatcher

from ..rendering.cache import BoundedCache
from .errors import GrammarError
from .token_table import MODEL_VOCABULARY_SIZE, token_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BITMASK_WORDS", "Matcher", "fill_bitmasks"]

BITMASK_WORDS = MODEL_VOCABULARY_SIZE // 32
"""32-bit words of a bitmask: one bit for each logit of the model, the lowest bit first."""

_COUNTS_TOKENS = "[max_tokens="
_BYTES_OF_A_GRAMMAR = 80  # compiled, for each character of its text: 58 to 83 were measured
_compiled: BoundedCache[str, tuple[str, LLMatcher]] = BoundedCache(
    256 * 1024 * 1024, lambda entry: _BYTES_OF_A_GRAMMAR * len(entry[0])
)


def _compile(grammar: str) -> LLMatcher:
    """Compile a grammar, or find it; what comes back is only ever copied."""
    known = _compiled.get(grammar)
    if known is None:
        matcher = LLMatcher(token_table(), grammar, log_level=0)
        if matcher.is_error():
            problem = " ".join(matcher.get_error().split())
            raise GrammarError(f"the grammar does not compile: {problem:.300}")
        known = grammar, matcher
        _compiled.put(grammar, known)
    return known[1]


class Matcher:
    """Where a completion stands in a grammar; it begins after ``<|start|>assistant``.

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
        """Whether the turn has ended with its stop token: nothing may follow."""
        return self._matcher.is_stopped() and not self._matcher.is_error()

    def bitmask(self) -> bytes:
        """One bit for each logit of the model, the lowest first: set where the token may come next.

        25,136 bytes; ``numpy.unpackbits(…, bitorder="little")`` makes them bools.
        """
        mask = self._matcher.compute_bitmask()[: 4 * BITMASK_WORDS]  # it has a word more
        self.check()
        return mask

    def allowed_tokens(self) -> list[int]:
        """The ids that may come next, in order; slow where these are many."""
        if self.is_finished:
            return []
        mask = int.from_bytes(self.bitmask(), "little")
        bits = bin(mask)[:1:-1]
        return [token for token, bit in enumerate(bits) if bit == "1"]

    def forced_tokens(self) -> list[int]:
        """The tokens that must come next, as far as there is no choice; empty where there is."""
        return self._matcher.compute_ff_tokens()

    def accept(self, token: int) -> bool:
        """Take a token; where it is not allowed, change nothing and return False."""
        return self.accept_all((token,)) == 1

    def accept_all(self, tokens: Sequence[int]) -> int:
        """Take tokens up to the first that is not allowed; return how many were taken."""
        known = _before_unknown(tokens)
        taken = self._matcher.try_consume_tokens(known)
        self.check()
        self._tokens += known[:taken]
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
        """Return another matcher in the same place, as beam search needs it."""
        twin = Matcher.__new__(Matcher)
        twin._grammar = self._grammar
        twin._matcher = self._matcher.deep_copy()
        twin._tokens = self._tokens.copy()
        return twin

    def check(self) -> None:
        """Raise `GrammarError` where the engine gave up; that is final."""
        if self._matcher.is_error():
            problem = " ".join(self._matcher.get_error().split())
            raise GrammarError(f"the grammar cannot be followed any further: {problem:.300}")


def _before_unknown(tokens: Sequence[int]) -> list[int]:
    """The tokens up to the first that the model does not have."""
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
    chosen = [(row, one) for row, one in matchers if not one.is_finished]
    work = [(one._matcher, row) for row, one in chosen]
    if work:
        rows, words = bitmasks.shape
        _executor.unsafe_compute_mask_ptr(work, bitmasks.ctypes.data, 4 * words, rows)
    for _, one in chosen:
        one.check()
