"""Matchers, which compute the tokens that a grammar allows next.

`find_mismatch` compares a whole completion with a grammar.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple, Protocol

from llguidance import LLExecutor, LLMatcher, LLParserLimits

from ..encoding import load_harmony_encoding
from ..errors import wrong_type
from ..rendering.cache import SharedCache
from ..tokens.special_tokens import FIRST_SPECIAL, VOCABULARY_SIZE
from ..tokens.tokenizer import collection_of_ids
from .engine_trial import ENGINE_FUEL
from .errors import GrammarError
from .number_limits import (
    NUMBERS_LINE,
    forbid,
    is_allowed,
    large_numbers,
    may_be_refused,
    refused_after,
    text_token,
)
from .token_table import MODEL_VOCABULARY_SIZE, token_table

# Matchers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


BITMASK_WORDS = MODEL_VOCABULARY_SIZE // 32
"""The length of a bitmask in 32-bit words: one bit for each logit of the model, lowest first."""

_COUNTS_TOKENS = "[max_tokens="
_MARK_TOKENS = 64
_BYTES_OF_A_GRAMMAR = 80  # per character, when compiled; measured: 58 to 83
# Far more fuel than schemas of this library need; grammars of clients are not tried before.
_LIMITS = LLParserLimits(step_lexer_fuel=7 * ENGINE_FUEL, verbose_errors=False)
_compiled: SharedCache[str, tuple[str, LLMatcher]] = SharedCache(
    256 * 1024 * 1024, lambda entry: _BYTES_OF_A_GRAMMAR * len(entry[0])
)


def _compile(grammar: str) -> LLMatcher:
    """Return a compiled grammar, from the cache if possible; callers only copy it."""

    def compiled() -> tuple[str, LLMatcher]:
        matcher = LLMatcher(token_table(), grammar, log_level=0, limits=_LIMITS)
        if matcher.is_error():
            raise GrammarError(f"the grammar does not compile: {_problem(matcher)}")
        return grammar, matcher

    return _compiled.get_or_make(grammar, compiled)[1]


def _problem(matcher: LLMatcher) -> str:
    """Return the engine's error without its state, which follows in further lines."""
    return matcher.get_error().strip().partition("\n")[0][:300]


class Matcher:
    """The state of a grammar in a completion, which begins after ``<|start|>assistant``.

    Equal grammars are compiled once and shared. Use a matcher for one completion and in one thread
    at a time. `bitmask` and `fill_bitmasks` release the GIL. Raises `GrammarError` if the grammar
    does not compile.

    >>> from gpt_oss_harmony import Conversation, load_harmony_encoding
    >>> from gpt_oss_harmony.grammar import turn_grammar
    >>> encoding = load_harmony_encoding("HarmonyGptOss")
    >>> matcher = Matcher(turn_grammar(Conversation.from_messages([])))
    >>> completion = "<|channel|>final<|message|>hi<|return|>"
    >>> matcher.accept_all(encoding.encode(completion, allowed_special="all"))
    5
    >>> matcher.is_finished
    True
    """

    __slots__ = (
        "_compiled",
        "_counts",
        "_grammar",
        "_limits_numbers",
        "_marks",
        "_matcher",
        "_tokens",
    )

    def __init__(self, grammar: str) -> None:
        if not isinstance(grammar, str):
            remedy = "turn_grammar() writes it for a conversation"
            raise wrong_type("grammar", "the text of a grammar", grammar, remedy)
        self._grammar = grammar
        self._counts = _COUNTS_TOKENS in grammar
        self._limits_numbers = NUMBERS_LINE in grammar
        self._tokens: list[int] = []
        # If the engine counts tokens, it cannot take them back; it then needs two states.
        self._marks: list[tuple[int, LLMatcher]] = []
        self._compiled = _compile(grammar)
        self._matcher = self._compiled.deep_copy()

    @property
    def grammar(self) -> str:
        """The grammar; one of `turn_grammar` has its rules."""
        return self._grammar

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens that were taken."""
        return tuple(self._tokens)

    @property
    def is_finished(self) -> bool:
        """True after the turn's stop token; no token may follow."""
        return self._matcher.is_stopped() and not self._matcher.is_error()

    @property
    def plain(self) -> Matcher | None:
        """The matcher itself if its mask is the engine's; None if a number may become too large."""
        return None if self._limits_numbers and may_be_refused(self._tokens) else self

    def bitmask(self) -> bytes:
        """Return a bit for each logit of the model, lowest first: 1 if the token may come next.

        It has 25,136 bytes; ``numpy.unpackbits(…, bitorder="little")`` turns it into bits.
        """
        mask = self._engine_mask()
        refused = refused_after(self._tokens, mask) if self._limits_numbers else ()
        if not refused:
            return mask
        without = bytearray(mask)
        for token in refused:
            forbid(without, token)
        return bytes(without)

    def _engine_mask(self) -> bytes:
        mask = self._matcher.compute_bitmask()
        if self._matcher.is_error():
            self.recover()
            mask = self._matcher.compute_bitmask()
            self.check()
        return mask[: 4 * BITMASK_WORDS]  # without the engine's last word

    def allowed_tokens(self) -> list[int]:
        """Return the ids that may come next, in order; slow if there are many."""
        if self.is_finished:
            return []
        mask = int.from_bytes(self.bitmask(), "little")
        bits = bin(mask)[:1:-1]
        return [token for token, bit in enumerate(bits) if bit == "1"]

    def forced_tokens(self) -> list[int]:
        """Return the tokens that must come next, up to the first with a choice.

        This includes limits on tokens: if a text has reached its limit, its end is forced.
        """
        forced = self._matcher.compute_ff_tokens()
        if not self._counts:
            return forced
        twin = self.copy()  # the engine ignores limits on tokens while it looks ahead
        del forced[twin.accept_all(forced) :]
        while not twin.is_finished:
            mask = int.from_bytes(twin.bitmask(), "little")
            if mask.bit_count() != 1:
                break
            forced.append(mask.bit_length() - 1)
            twin.accept(forced[-1])
        return forced

    def accept(self, token: int) -> bool:
        """Take a token; if it is not allowed, change nothing and return False."""
        return self.accept_all((token,)) == 1

    def accept_all(self, tokens: Sequence[int]) -> int:
        """Take tokens up to the first that is not allowed; return how many were taken."""
        valid = _before_unknown(tokens)
        taken = 0
        # The limit holds for the numbers of JSON. In a text, where letters are allowed too, digits
        # are free.
        for place in large_numbers(self._tokens, valid) if self._limits_numbers else ():
            taken += self._take(valid[taken:place])
            if taken < place or not is_allowed(self._engine_mask(), text_token()):
                return taken
        return taken + self._take(valid[taken:])

    def _take(self, valid: list[int]) -> int:
        taken = self._matcher.try_consume_tokens(valid)
        self._tokens += valid[:taken]
        if taken < len(valid) and self._gave_up(valid[taken]):
            self.recover()
            more = self._matcher.try_consume_tokens(valid[taken:])
            self.check()
            self._tokens += valid[taken : taken + more]
            taken += more
        if self._counts:
            last = self._marks[-1][0] if self._marks else 0
            if len(self._tokens) - last >= _MARK_TOKENS:
                # A new list, because copies share the old one. It has two marks: a rollback to a
                # place before the newer one starts from the older one.
                mark = len(self._tokens), self._matcher.deep_copy()
                self._marks = [*self._marks[-1:], mark]
        return taken

    def _gave_up(self, token: int) -> bool:
        """Return whether the engine failed; False if it only rejected this token."""
        if self.is_finished:
            return False
        mask = self._matcher.compute_bitmask()
        return self._matcher.is_error() or is_allowed(mask, token)

    def count_allowed(self, tokens: Sequence[int]) -> int:
        """Return how many of `tokens` (a draft) are allowed, without taking them.

        The result is the same as that of `accept_all`.
        """
        valid = _before_unknown(tokens)
        # The engine ignores limits on tokens while it looks ahead.
        if self._counts or (self._limits_numbers and large_numbers(self._tokens, valid)):
            return self.copy().accept_all(valid)
        return self._matcher.validate_tokens(valid)

    def fill_draft(self, tokens: Sequence[int], bitmasks: NDArray[np.int32]) -> int:
        """Compute the bitmasks that a model needs to verify a draft, without taking its tokens.

        `bitmasks` is as in `fill_bitmasks`, with a row for each token of the draft and one more:
        row `n` has the tokens that may follow the first `n` tokens. Returns how many tokens of the
        draft are allowed. Later rows, and the row after the end of a turn, are not changed.
        """
        _check_bitmasks(bitmasks)
        if len(bitmasks) <= len(tokens):
            raise ValueError(
                f"a draft of {len(tokens)} tokens needs {len(tokens) + 1} rows, not {len(bitmasks)}"
            )
        twin = self.copy()
        for row, token in enumerate((*tokens, None)):
            if twin.is_finished:
                return row
            bitmasks[row] = memoryview(twin.bitmask()).cast("i")
            if token is None or not twin.accept(token):
                return row
        return len(tokens)

    def rollback(self, count: int) -> None:
        """Take back the last `count` tokens."""
        kept = len(self._tokens) - count
        if not 0 <= kept <= len(self._tokens):
            raise ValueError(f"cannot take back {count} of {len(self._tokens)} tokens")
        if not self._counts and self._matcher.rollback(count):
            del self._tokens[kept:]
            return
        self._marks = [mark for mark in self._marks if mark[0] <= kept]
        if not self._marks:
            self._compiled = _compile(self._grammar)
        start, state = self._marks[-1] if self._marks else (0, self._compiled)
        tokens = self._tokens[start:kept]
        del self._tokens[start:]
        self._matcher = state.deep_copy()
        self.accept_all(tokens)

    def reset(self) -> None:
        """Take back all tokens."""
        self.rollback(len(self._tokens))

    def copy(self) -> Matcher:
        """Return another matcher in the same state, for example for beam search."""
        twin = Matcher.__new__(Matcher)
        twin._grammar = self._grammar
        twin._counts = self._counts
        twin._limits_numbers = self._limits_numbers
        twin._marks = self._marks
        twin._compiled = self._compiled
        twin._matcher = self._matcher.deep_copy()
        twin._tokens = self._tokens.copy()
        return twin

    def recover(self) -> None:
        """Compile the grammar again and take the tokens again, after the engine failed.

        All matchers of a grammar share the engine's lexer, which grows while they run. If it grows
        beyond a limit, all of them fail; a new lexer has room again.
        """
        self._drop_compiled()
        self._compiled = _compile(self._grammar)
        self._matcher = self._compiled.deep_copy()
        self._marks = []
        self._matcher.try_consume_tokens(self._tokens)
        self.check()

    def _drop_compiled(self) -> None:
        entry = _compiled.get(self._grammar)
        # Another matcher of this grammar may have compiled it anew already.
        if entry is not None and entry[1] is self._compiled:
            _compiled.discard(self._grammar)

    def check(self) -> None:
        """Raise `GrammarError` if the engine failed; the matcher then cannot be used any more."""
        if self._matcher.is_error():
            self._drop_compiled()
            raise GrammarError(
                f"the engine cannot follow the grammar any further: {_problem(self._matcher)}",
                remedy="write the grammar with turn_grammar, which rejects such schemas",
            )


def _before_unknown(tokens: Sequence[int]) -> list[int]:
    """Return the tokens before the first one that the model does not have."""
    ids = range(MODEL_VOCABULARY_SIZE)
    return list(takewhile(ids.__contains__, tokens))


class MaskSource(Protocol):
    """What has the mask of the next token: a `Matcher`, or one that restricts it further."""

    @property
    def is_finished(self) -> bool:
        """True after the turn's stop token."""

    @property
    def plain(self) -> Matcher | None:
        """The matcher whose mask this is; None if the mask is another."""

    def bitmask(self) -> bytes:
        """Return a bit for each logit."""


_executor: LLExecutor | None = None


def _forget_executor() -> None:
    """Make a new one when it is needed: a process that was forked has none of its threads."""
    global _executor
    _executor = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_executor)


def fill_bitmasks(matchers: Iterable[tuple[int, MaskSource]], bitmasks: NDArray[np.int32]) -> None:
    """Compute the bitmasks of a batch, on all cores.

    `matchers` has pairs of a row number and a matcher. `bitmasks` has the shape (rows,
    `BITMASK_WORDS`) and the type int32. Each matcher fills its row. Rows of finished matchers and
    rows without a matcher are not changed.
    """
    global _executor
    _check_bitmasks(bitmasks)
    if _executor is None:
        _executor = LLExecutor()
    unfinished = [(row, matcher) for row, matcher in matchers if not matcher.is_finished]
    plain = [(row, matcher.plain) for row, matcher in unfinished]
    work = [(matcher._matcher, row) for row, matcher in plain if matcher is not None]
    if work:
        rows, words = bitmasks.shape
        _executor.unsafe_compute_mask_ptr(work, bitmasks.ctypes.data, 4 * words, rows)
    for (row, matcher), (_, of_grammar) in zip(unfinished, plain, strict=True):
        # `bitmask` forbids numbers that are too large, and recovers from an error of the engine.
        if of_grammar is None or of_grammar._matcher.is_error():
            bitmasks[row] = memoryview(matcher.bitmask()).cast("i")


def _check_bitmasks(bitmasks: NDArray[np.int32]) -> None:
    if bitmasks.ndim != 2 or bitmasks.shape[1] != BITMASK_WORDS or bitmasks.dtype != "int32":
        raise ValueError(
            f"bitmasks must have the shape (rows, {BITMASK_WORDS}) and the type int32, "
            f"not {bitmasks.shape} and {bitmasks.dtype}"
        )
    if not bitmasks.flags.c_contiguous:
        raise ValueError("bitmasks must be contiguous")


# Mismatches

_SHOWN_ALLOWED = 8
_SHOWN_BEFORE = 10


class Mismatch(NamedTuple):
    """The first token that the grammar does not allow; None if the completion ends too early.

    `position` is the token's index, and `allowed` has all ids that are allowed there.
    """

    position: int
    token: int | None
    allowed: list[int]

    def explained(self, tokens: Sequence[int]) -> str:
        """Explain where the completion `tokens` leaves the grammar, and which tokens are allowed.

        >>> from gpt_oss_harmony import Conversation
        >>> from gpt_oss_harmony.grammar import turn_grammar
        >>> tokens = [200005, 1]
        >>> mismatch = find_mismatch(turn_grammar(Conversation.from_messages([])), tokens)
        >>> print(mismatch.explained(tokens).partition(";")[0])
        token 1 ('"') leaves the grammar after '<|channel|>'
        """
        decode = load_harmony_encoding("HarmonyGptOss").decode
        allowed = self.allowed
        # Special tokens first: beside thousands of texts, they say how the body may end.
        first = sorted(allowed, key=lambda token: token < FIRST_SPECIAL)[:_SHOWN_ALLOWED]
        shown = ", ".join(repr(decode([token])) for token in first)
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

    >>> from gpt_oss_harmony import Conversation
    >>> from gpt_oss_harmony.grammar import turn_grammar
    >>> find_mismatch(turn_grammar(Conversation.from_messages([])), [200005, 1])[:2]
    (1, 1)
    """
    collection_of_ids(tokens)  # a text would be compared letter by letter
    matcher = Matcher(grammar)
    taken = matcher.accept_all(tokens)
    if taken == len(tokens) and matcher.is_finished:
        return None
    token = tokens[taken] if taken < len(tokens) else None
    return Mismatch(taken, token, matcher.allowed_tokens())
