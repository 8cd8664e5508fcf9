"""The effort of reasoning: its spellings, the effort of a budget, the tokens that it may use."""

from __future__ import annotations

from ..conversation.content import ReasoningEffort
from ..conversation.json_field import JsonField

_EFFORTS = {
    "none": ReasoningEffort.LOW,  # the model always reasons
    "minimal": ReasoningEffort.LOW,
    "low": ReasoningEffort.LOW,
    "medium": ReasoningEffort.MEDIUM,
    "high": ReasoningEffort.HIGH,
    "xhigh": ReasoningEffort.HIGH,
    "max": ReasoningEffort.HIGH,
}


def read_effort(effort: JsonField, default: ReasoningEffort | None) -> ReasoningEffort | None:
    """Map a reasoning effort of the APIs to one of the model's three efforts.

    >>> read_effort(JsonField("minimal"), None)
    <ReasoningEffort.LOW: 'Low'>
    """
    if effort.is_null:
        return default
    if effort.text() not in _EFFORTS:
        raise effort.unexpected(f"one of {', '.join(_EFFORTS)}")
    return _EFFORTS[effort.value]


_BUDGETS = ((10_000, ReasoningEffort.HIGH), (5_000, ReasoningEffort.MEDIUM))
"""The least budget of each effort, as LiteLLM maps them; smaller budgets mean low effort."""


def effort_of_budget(tokens: int) -> ReasoningEffort:
    """Return the effort that a budget of reasoning tokens stands for.

    >>> effort_of_budget(6_000)
    <ReasoningEffort.MEDIUM: 'Medium'>
    """
    return next((effort for least, effort in _BUDGETS if tokens >= least), ReasoningEffort.LOW)


_SHARES = (12, 2, 1, 1)  # of the messages of a turn, in sixteenths of its budget


def message_limits(
    room: int, effort: ReasoningEffort | None = None, reasoning_tokens: int | None = None
) -> tuple[int, ...]:
    """Return the token limits of the messages before the answer or call; `room` is for the turn.

    Together they have a quarter of the room with low effort, a half with medium (the default) and
    three quarters with high, so there is always room for the call or the answer. A request may set
    another number of `reasoning_tokens`, up to three quarters; 0 forbids such messages. The room is
    rounded down to three binary digits, so that requests share their grammars.

    >>> message_limits(5000)
    (1536, 256, 128, 128)
    """
    rounded = room - room % (1 << max(room.bit_length() - 3, 0))
    most = rounded * 3 // 4
    if reasoning_tokens is not None:
        budget = min(reasoning_tokens, most)
    elif effort is ReasoningEffort.LOW:
        budget = rounded // 4
    else:
        budget = most if effort is ReasoningEffort.HIGH else rounded // 2
    limits = (budget * share // sum(_SHARES) for share in _SHARES)
    return tuple(limit for limit in limits if limit)
