"""Where a completion leaves a grammar, and what was allowed there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..encoding import load_harmony_encoding
from ..tokens.special_tokens import VOCABULARY_SIZE
from .matcher import Matcher

__all__ = ["Departure", "find_departure"]

_SHOWN_ALLOWED = 8
_SHOWN_BEFORE = 10


class Departure(NamedTuple):
    """The first token that the grammar does not allow; None where the completion ends too early.

    `allowed` are all the ids that could have stood there.
    """

    position: int
    token: int | None
    allowed: list[int]

    def explained(self, tokens: Sequence[int]) -> str:
        """Say for people where the completion `tokens` leaves the grammar, and what could stand.

        >>> from openai_harmony import Conversation
        >>> from openai_harmony.grammar import turn_grammar
        >>> tokens = [200005, 1]
        >>> departure = find_departure(turn_grammar(Conversation.from_messages([])), tokens)
        >>> print(departure.explained(tokens).partition(";")[0])
        token 1 ('"') leaves the grammar after '<|channel|>'
        """
        decode = load_harmony_encoding("HarmonyGptOss").decode
        allowed = self.allowed
        shown = ", ".join(repr(decode([one])) for one in allowed[:_SHOWN_ALLOWED])
        left = len(allowed) - _SHOWN_ALLOWED
        more = f" and {left:,} more" if left > 0 else ""
        expected = f"allowed there: {shown}{more}" if allowed else "the turn ended before it"
        before = decode(tokens[max(self.position - _SHOWN_BEFORE, 0) : self.position])
        place = f"after {before!r}" if before else "at the beginning"
        if self.token is None:
            return f"the completion ends before the turn does, {place}; {expected}"
        text = repr(decode([self.token])) if self.token < VOCABULARY_SIZE else str(self.token)
        return f"token {self.position} ({text}) leaves the grammar {place}; {expected}"


def find_departure(grammar: str, tokens: Sequence[int]) -> Departure | None:
    """Compare a completion with a grammar; None where it is a whole turn.

    >>> from openai_harmony import Conversation
    >>> from openai_harmony.grammar import turn_grammar
    >>> find_departure(turn_grammar(Conversation.from_messages([])), [200005, 1])[:2]
    (1, 1)
    """
    matcher = Matcher(grammar)
    taken = matcher.accept_all(tokens)
    if taken == len(tokens) and matcher.is_finished:
        return None
    token = tokens[taken] if taken < len(tokens) else None
    return Departure(taken, token, matcher.allowed_tokens())
