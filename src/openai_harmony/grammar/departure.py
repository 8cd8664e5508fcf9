"""Where a completion leaves a grammar, and what was allowed there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .matcher import Matcher

__all__ = ["Departure", "find_departure"]


class Departure(NamedTuple):
    """The first token that the grammar does not allow; None where the completion ends too early.

    `allowed` are all the ids that could have stood there.
    """

    position: int
    token: int | None
    allowed: list[int]


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
