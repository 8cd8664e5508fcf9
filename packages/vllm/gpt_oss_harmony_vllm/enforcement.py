"""Our grammars in vLLM's engine: a matcher follows the turn and counts its tokens.

vLLM's scheduler has a grammar object for each constrained request. It asks the object for the mask
of each step, and gives it each sampled token. For a grammar of a whole turn, this module puts our
own matcher there. It ends a required call or a JSON answer within the request's tokens, and keeps
the limit of numbers, which is not a part of the grammar's text.

All of this happens in the process of the scheduler, which knows each token: it works with both
model runners, with asynchronous scheduling and with drafts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from gpt_oss_harmony.grammar import ClosingMatcher, Matcher, fill_bitmasks
from gpt_oss_harmony.grammar.number_limits import NUMBERS_LINE
from gpt_oss_harmony.grammar.token_table import MODEL_VOCABULARY_SIZE

from .constraint import CLOSING_LINE
from .drafts import PLACEHOLDER

__all__ = ["TurnEnforcement", "turn_enforcement"]

_BITS = [*(1 << bit for bit in range(31)), -(1 << 31)]  # of signed words


def turn_enforcement(request: Any, vllm_config: Any) -> TurnEnforcement | None:
    """Return what enforces the grammar of a request; None if vLLM enforces it itself.

    Raises `GrammarError` if the grammar does not compile.
    """
    grammar = request.sampling_params.structured_outputs.grammar
    is_ours = isinstance(grammar, str) and (NUMBERS_LINE in grammar or CLOSING_LINE in grammar)
    if not is_ours or vllm_config.model_config.get_vocab_size() != MODEL_VOCABULARY_SIZE:
        return None
    tokens = request.max_tokens if CLOSING_LINE in grammar else None
    matcher = Matcher(grammar) if tokens is None else ClosingMatcher(grammar, tokens)
    return TurnEnforcement(matcher, drafts=vllm_config.num_speculative_tokens)


class TurnEnforcement:
    """The methods of vLLM's `StructuredOutputGrammar`; `drafts` tokens can be taken back."""

    def __init__(self, matcher: Matcher | ClosingMatcher, *, drafts: int = 0) -> None:
        self._matcher = matcher
        self._earlier: deque[Matcher | ClosingMatcher] = deque(maxlen=drafts + 1)
        self._drafts = drafts

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Take tokens; return whether all are allowed. What follows the end of a turn is free."""
        for token in tokens:
            if self._matcher.is_finished:
                return True
            if self._drafts:
                self._earlier.append(self._matcher.copy())
            if not self._matcher.accept(token):
                return False
        return True

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """Return the tokens of a draft up to the first that is not allowed.

        The tokens that must come next take the place of `PLACEHOLDER`.
        """
        if tokens == [PLACEHOLDER]:
            return self._matcher.forced_tokens()[: self._drafts]
        return tokens[: _count_allowed(self._matcher.copy(), tokens)]

    def rollback(self, num_tokens: int) -> None:
        """Take back tokens of a draft."""
        for _ in range(num_tokens):
            self._matcher = self._earlier.pop()

    def fill_bitmask(self, bitmask: Any, idx: int) -> None:
        """Write the mask of the next token into a row of a tensor.

        With drafts, a text that must come next has only its usual tokens. Its other tokens, such as
        single letters, would make a draft wrong.
        """
        rows = bitmask.numpy()
        forced = self._matcher.forced_tokens() if self._drafts else ()
        if forced:
            rows[idx] = 0
            rows[idx, forced[0] // 32] = _BITS[forced[0] % 32]
        else:
            fill_bitmasks([(idx, self._matcher)], rows)

    def is_terminated(self) -> bool:
        """Return whether the turn has ended."""
        return self._matcher.is_finished

    def reset(self) -> None:
        """vLLM calls this for no request."""
        raise NotImplementedError


def _count_allowed(matcher: Matcher | ClosingMatcher, tokens: Sequence[int]) -> int:
    """Count the tokens that the masks allow, which near the end of a turn are fewer."""
    for count, token in enumerate(tokens):
        is_allowed = matcher.bitmask()[token >> 3] >> (token & 7) & 1 if token >= 0 else 0
        if matcher.is_finished or not is_allowed or not matcher.accept(token):
            return count
    return len(tokens)
