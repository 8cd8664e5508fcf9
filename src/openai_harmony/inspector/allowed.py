"""A completion beside the grammar of its turn: what may stand at each place, where it leaves it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from typing_extensions import TypedDict  # of Python 3.12, which tells pydantic more

from ..grammar import Matcher, Mismatch, TurnOptions, turn_grammar
from ..tokens.special_tokens import FIRST_SPECIAL
from ..written_tokens import written_tokens
from .source import read_source
from .token_list import TokenList, token_list
from .wire import AllowedBody

__all__ = ["Allowed", "AllowedStep", "allowed"]

_MOST_STEPS = 200
_SHOWN = 20


class AllowedStep(TypedDict):
    """How many tokens may stand at the place `at`, and the first: special ones, then by id."""

    at: int
    count: int
    first: TokenList


class MismatchJson(TypedDict):
    """The index of the token that the grammar does not allow, and what to say of it."""

    position: int
    explanation: str


Allowed = TypedDict(
    "Allowed",
    {
        "grammar": str,
        "tokens": TokenList,
        "from": int,
        "steps": list[AllowedStep],
        "mismatch": "MismatchJson | None",
        "finished": bool,
    },
)
"""A completion in its grammar; one that may go on has no mismatch, and is not finished."""


def allowed(body: AllowedBody) -> Allowed:
    """Follow a completion through the grammar.

    There is a step for each place from `from` on, up to the one behind the last token, or the one
    where the completion leaves the grammar; 200 at most. Raises `GrammarError` for what cannot be
    enforced, and `ConversationError` for a source that cannot be read.
    """
    source = read_source(body)
    options = TurnOptions(
        tool_choice=source.tool_choice if body.tool_choice is None else body.tool_choice,
        response_format=source.response_format,
        reasoning=body.reasoning,
    )
    grammar = turn_grammar(source.conversation, options)
    tokens = written_tokens(body.completion)
    matcher = Matcher(grammar)
    taken = matcher.accept_all(tokens[: body.start])
    steps: list[AllowedStep] = []
    if taken == body.start:
        while len(steps) < _MOST_STEPS and not matcher.is_finished:
            steps.append(_step(taken, matcher))
            if taken == len(tokens) or not matcher.accept(tokens[taken]):
                break
            taken += 1
    taken += matcher.accept_all(tokens[taken:])
    return {
        "grammar": grammar,
        "tokens": token_list(tokens),
        "from": body.start,
        "steps": steps,
        "mismatch": _mismatch(matcher, tokens, taken),
        "finished": matcher.is_finished and taken == len(tokens),
    }


def _mismatch(matcher: Matcher, tokens: list[int], taken: int) -> MismatchJson | None:
    if taken == len(tokens):
        return None
    mismatch = Mismatch(taken, tokens[taken], matcher.allowed_tokens())
    return {"position": taken, "explanation": mismatch.explained(tokens)}


def _step(at: int, matcher: Matcher) -> AllowedStep:
    mask = int.from_bytes(matcher.bitmask(), "little")
    ordinary = mask & ((1 << FIRST_SPECIAL) - 1)
    special = mask >> FIRST_SPECIAL
    first = [FIRST_SPECIAL + bit for bit in islice(_set_bits(special), _SHOWN)]
    first += islice(_set_bits(ordinary), _SHOWN - len(first))
    return {"at": at, "count": mask.bit_count(), "first": token_list(first)}


def _set_bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
