"""A completion beside the grammar of its turn: the allowed tokens, and the first mismatch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

from typing_extensions import TypedDict  # of Python 3.12, which pydantic needs

from ..grammar import Matcher, Mismatch, TurnOptions, turn_grammar
from ..tokens.special_tokens import FIRST_SPECIAL
from ..written_tokens import written_tokens
from .source import read_source
from .wire import AllowedBody, TokenList, token_list

_MOST_STEPS = 200
_SHOWN = 20


class AllowedStep(TypedDict):
    """The number of tokens allowed at an index, and the first ones; special tokens first."""

    index: int
    count: int
    first: TokenList


class MismatchJson(TypedDict):
    """The index of the token that the grammar does not allow, and an explanation."""

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
"""A completion in its grammar; without a mismatch, it may still be unfinished."""


def allowed(body: AllowedBody) -> Allowed:
    """Follow a completion through the grammar.

    There is a step for each index from `from` on, at most 200 of them. The last one is that after
    the last token, or that of the first mismatch. Raises `GrammarError` for a source that cannot be
    enforced, and `ConversationError` for one that cannot be read.
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
    accepted = matcher.accept_all(tokens[: body.start])
    steps: list[AllowedStep] = []
    if accepted == body.start:
        while len(steps) < _MOST_STEPS and not matcher.is_finished:
            mask = int.from_bytes(matcher.bitmask(), "little")
            ordinary, special = mask & ((1 << FIRST_SPECIAL) - 1), mask >> FIRST_SPECIAL
            first = [FIRST_SPECIAL + bit for bit in islice(_set_bits(special), _SHOWN)]
            first += islice(_set_bits(ordinary), _SHOWN - len(first))
            count = mask.bit_count()
            steps.append({"index": accepted, "count": count, "first": token_list(first)})
            if accepted == len(tokens) or not matcher.accept(tokens[accepted]):
                break
            accepted += 1
    accepted += matcher.accept_all(tokens[accepted:])
    mismatch: MismatchJson | None = None
    if accepted < len(tokens):
        ids = matcher.allowed_tokens()
        begin = bisect_left(ids, FIRST_SPECIAL)
        # Special tokens come first, as above.
        found = Mismatch(accepted, tokens[accepted], ids[begin:] + ids[:begin])
        mismatch = {"position": accepted, "explanation": found.explained(tokens)}
    return {
        "grammar": grammar,
        "tokens": token_list(tokens),
        "from": body.start,
        "steps": steps,
        "mismatch": mismatch,
        "finished": matcher.is_finished and accepted == len(tokens),
    }


def _set_bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
