"""The form of the answer that a request asks for, as several servers name the fields.

==============================================  =================================================
``response_format``, ``text.format``            JSON, or free text
``structured_outputs``, ``guided_json``, ...    the same, regular expressions, choices, grammars
``verbosity``, ``text.verbosity``               a sentence of instructions, unless it is medium
==============================================  =================================================

OpenAI's own fields come first; the others are vLLM's. Two that ask for something else raise
`ConversationError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..conversation.json_field import JsonField, strict_json
from .conversation_builder import RequestedFormat, read_response_format


def requested_format(body: JsonField, own: JsonField) -> RequestedFormat | None:
    """Read the form of the answer; `own` is the field of OpenAI's API. None is free text.

    >>> own = JsonField(None, "response_format")
    >>> requested_format(JsonField({"guided_choice": ["yes", "no"]}), own).text
    {'type': 'choice', 'choices': ['yes', 'no']}
    """
    outputs = body["structured_outputs"].optional_object()
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


def _read_object(field: JsonField, expected: str) -> dict[str, Any]:
    """Read an object that may be sent as a text of JSON."""
    value: object = field.value
    if isinstance(value, str):
        try:
            value = strict_json(value)
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
