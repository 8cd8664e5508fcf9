"""The fields of requests for reasoning and the form of the answer, as several servers name them.

==============================================  =================================================
``reasoning_effort``, ``reasoning.effort``,     the effort
``chat_template_kwargs.reasoning_effort``
``reasoning.max_tokens``,                       the most tokens of reasoning in a turn
``thinking_token_budget``
``reasoning.enabled``,                          False forbids reasoning
``chat_template_kwargs.enable_thinking``
``reasoning.exclude``, ``include_reasoning``    whether the client sees the reasoning
``response_format``, ``text.format``            JSON, or free text
``verbosity``, ``text.verbosity``               a sentence of instructions, unless it is medium
``structured_outputs``, ``guided_json``, ...    the same, regular expressions, choices, grammars
==============================================  =================================================

OpenAI's own fields come first in each row; the others are those of vLLM and OpenRouter. If two
fields contradict each other, reading them raises `ConversationError`. The effort has several
spellings; of a budget, it is the one that may use as many tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ..conversation.content import ReasoningEffort
from ..conversation.json_field import JsonField
from .conversation_builder import RequestedFormat, read_response_format

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
    template = _optional_object(body["chat_template_kwargs"])
    for name in template.object():
        if name not in _TEMPLATE_FIELDS:
            known = ", ".join(sorted(_TEMPLATE_FIELDS))
            raise template[name].error(f"the chat template has no such argument; send {known}")
    reasoning = _optional_object(body["reasoning"])
    effort = _agreeing(body["reasoning_effort"], reasoning["effort"], template["reasoning_effort"])
    return read_effort(effort, default)


def requested_reasoning_tokens(body: JsonField) -> int | None:
    """Return the most tokens of reasoning in a turn; None if the request has no limit.

    >>> requested_reasoning_tokens(JsonField({"reasoning": {"enabled": False}}))
    0
    """
    reasoning = _optional_object(body["reasoning"])
    template = _optional_object(body["chat_template_kwargs"])
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
    is_excluded = _optional_object(body["reasoning"])["exclude"].value is True
    return not is_excluded and body["include_reasoning"].value is not False


def requested_format(body: JsonField, own: JsonField) -> RequestedFormat | None:
    """Read the form of the answer; `own` is the field of OpenAI's API. None is free text.

    >>> own = JsonField(None, "response_format")
    >>> requested_format(JsonField({"guided_choice": ["yes", "no"]}), own).text
    {'type': 'choice', 'choices': ['yes', 'no']}
    """
    outputs = _optional_object(body["structured_outputs"])
    for name, value in outputs.object().items():
        if name not in _FORMATS and value not in (None, False):
            raise outputs[name].error(f"this cannot be enforced; send one of {', '.join(_FORMATS)}")
    requested = [
        (field, read)
        for name, read in _FORMATS.items()
        for field in (outputs[name], body[f"guided_{name}"])
        if field.value not in (None, False)
    ]
    answer = read_response_format(own)
    given = [*([] if answer is None else [own]), *(field for field, _ in requested)]
    if len(given) > 1:
        problem = f"{given[0].path} requests another form of the answer; send one of them"
        raise given[1].error(problem)
    if not requested:
        return answer
    field, read = requested[0]
    return read(field)


def verbosity_instructions(verbosity: JsonField) -> list[str]:
    """Return what the model reads about the length of its answer; nothing for a medium length.

    >>> verbosity_instructions(JsonField("medium"))
    []
    """
    if verbosity.is_null:
        return []
    if verbosity.text() not in _VERBOSITIES:
        raise verbosity.unexpected(f"one of {', '.join(_VERBOSITIES)}")
    return _VERBOSITIES[verbosity.value]


_VERBOSITIES = {
    "low": ["Keep the final answer short: a few sentences, without details nobody asked for."],
    "medium": [],
    "high": ["Write a long and thorough final answer, with explanations and details."],
}


def _optional_object(field: JsonField) -> JsonField:
    """Return an object, an empty one for null."""
    value = {} if field.is_null else field.object()
    return JsonField(value, field.path)


def _agreeing(*fields: JsonField) -> JsonField:
    """Return the first of several fields for the same thing that is not null."""
    first, *others = [field for field in fields if not field.is_null] or fields[:1]
    for other in others:
        if other.value != first.value:
            raise other.error(f"{first.path} has another value; send one of them")
    return first


def _read_object(field: JsonField, expected: str) -> dict[str, Any]:
    """Read an object that may be sent as a text of JSON."""
    value: object = field.value
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise field.error(f"this is not JSON; send {expected}") from None
    if not isinstance(value, Mapping):
        raise field.unexpected(expected)
    return dict(value)


def _read_choices(field: JsonField) -> RequestedFormat:
    choices = [choice.text() for choice in field.items()]
    if not choices:
        raise field.error("the list of choices is empty; send at least one text")
    return RequestedFormat(text={"type": "choice", "choices": choices})


_FORMATS: Mapping[str, Callable[[JsonField], RequestedFormat]] = {
    "json": lambda field: RequestedFormat("answer", _read_object(field, "a JSON Schema")),
    "json_object": lambda _: RequestedFormat(),
    "regex": lambda field: RequestedFormat(text={"type": "regex", "pattern": field.text()}),
    "choice": _read_choices,
    "grammar": lambda field: RequestedFormat(text={"type": "grammar", "grammar": field.text()}),
    "structural_tag": lambda field: RequestedFormat(
        text={**_read_object(field, "a structural tag"), "type": "structural_tag"}
    ),
}
