"""The reasoning that a request asks for: its effort and budget, as several servers name the fields.

==============================================  =================================================
``reasoning_effort``, ``reasoning.effort``,     the effort
``chat_template_kwargs.reasoning_effort``
``reasoning.max_tokens``,                       the most tokens of reasoning in a turn
``thinking_token_budget``
``reasoning.enabled``,                          False forbids reasoning
``chat_template_kwargs.enable_thinking``
``reasoning.exclude``, ``include_reasoning``    whether the client sees the reasoning
==============================================  =================================================

OpenAI's own fields come first in each row; the others are those of vLLM and OpenRouter. If two
fields contradict each other, reading them raises `ConversationError`. The effort has several
spellings; of a budget, it is the one that may use as many tokens.
"""

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


# The fields

_TEMPLATE_FIELDS = {"reasoning_effort", "enable_thinking", "thinking"}


def requested_effort(body: JsonField, default: ReasoningEffort | None) -> ReasoningEffort | None:
    """Read the effort of a request.

    >>> requested_effort(JsonField({"reasoning": {"effort": "high"}}), None)
    <ReasoningEffort.HIGH: 'High'>
    """
    template = body["chat_template_kwargs"].optional_object()
    for name in template.object():
        if name not in _TEMPLATE_FIELDS:
            known = ", ".join(sorted(_TEMPLATE_FIELDS))
            raise template[name].error(f"the chat template has no such argument; send {known}")
    reasoning = body["reasoning"].optional_object()
    effort = _agreeing(body["reasoning_effort"], reasoning["effort"], template["reasoning_effort"])
    return read_effort(effort, default)


def requested_reasoning_tokens(body: JsonField) -> int | None:
    """Return the most tokens of reasoning in a turn; None if the request has no limit.

    >>> requested_reasoning_tokens(JsonField({"reasoning": {"enabled": False}}))
    0
    """
    reasoning = body["reasoning"].optional_object()
    template = body["chat_template_kwargs"].optional_object()
    switches = reasoning["enabled"], template["enable_thinking"], template["thinking"]
    if any(switch.value is False for switch in switches):
        return 0
    budget = _agreeing(reasoning["max_tokens"], body["thinking_token_budget"])
    if budget.is_null or budget.value == -1:
        return None
    if not isinstance(budget.value, int) or isinstance(budget.value, bool) or budget.value < 0:
        raise budget.unexpected("a number of tokens")
    return budget.value


def shows_reasoning(body: JsonField) -> bool:
    """Return whether the client sees the reasoning."""
    is_excluded = body["reasoning"].optional_object()["exclude"].value is True
    return not is_excluded and body["include_reasoning"].value is not False


def _agreeing(*fields: JsonField) -> JsonField:
    """Return the first of several fields for the same thing that is not null."""
    first, *others = [field for field in fields if not field.is_null] or fields[:1]
    for other in others:
        if other.value != first.value:
            raise other.error(f"{first.path} has another value; send one of them")
    return first
