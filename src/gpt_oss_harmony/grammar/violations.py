"""Validation of a sampled turn against whole schemas, also the keywords that no grammar enforced.

A grammar with ``on_unsupported="loosen"`` leaves keywords out. This module validates the calls and
the answer of a sampled turn against the original schemas.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

import jsonschema_rs

from ..conversation.messages import Conversation, Message
from .errors import GrammarError
from .json_schema.documents import child_pointer, plain_schema
from .options import TurnOptions, declared_calls, requested_schemas

_BACKTRACK_LIMIT = 100_000
_SHOWN = 300
_VIOLATION_LIMIT = 20


class Violation(NamedTuple):
    """A value that a schema does not allow.

    - `pointer`: the JSON pointer of the keyword, as in the errors of `turn_constraint`, such as
      ``tools/functions.f#/properties/tags/uniqueItems``.
    - `instance`: the JSON pointer of the value in the arguments or the answer, such as ``#/tags``.
    - `message`: the problem.
    """

    pointer: str
    instance: str
    message: str


def find_violations(
    messages: Iterable[Message], conversation: Conversation, options: TurnOptions | None = None
) -> list[Violation]:
    """Validate the calls and the answer in the sampled `messages` of a turn.

    `conversation` and `options` are those of the turn's grammar. If there are several response
    formats, the answer must follow one. An invalid schema is not checked; the errors of
    `turn_constraint` report it.

    >>> from gpt_oss_harmony import Role
    >>> schema = {"type": "array", "uniqueItems": True}
    >>> options = TurnOptions(response_format={"type": "json_schema", "schema": schema})
    >>> answer = Message.from_role_and_content(Role.ASSISTANT, "[1, 1]").with_channel("final")
    >>> find_violations([answer], Conversation.from_messages([]), options)[0].pointer
    'response_format#/uniqueItems'
    """
    options = options or TurnOptions()
    declared = declared_calls(conversation.messages)
    calls = {name: call for name, call in declared.items() if name not in options.tool_texts}
    formats = requested_schemas(conversation, options)
    violations: list[Violation] = []
    for message in messages:
        text = message.text
        call = None if message.recipient is None else calls.get(message.recipient)
        if call is not None and call.schema is not None:
            violations += _violations(text, call.schema, f"tools/{call.recipient}#")
        elif message.recipient is None and message.channel == "final" and formats:
            of_formats = (_violations(text, schema, pointer) for pointer, schema in formats)
            # Those of the format that the answer nearly follows; none if it follows one.
            violations += sorted(of_formats, key=len)[0]
    return violations


def _violations(text: str, schema: object, pointer: str) -> list[Violation]:
    validator = _validator(_written(schema, pointer))
    if validator is None:
        return []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return [Violation(pointer, "#", f"it is not JSON: {error}")]
    violations: list[Violation] = []
    for problem in validator.iter_errors(value):
        violations.append(
            Violation(
                child_pointer(pointer, *problem.schema_path),
                child_pointer("#", *problem.instance_path),
                problem.message[:_SHOWN],
            )
        )
        if len(violations) == _VIOLATION_LIMIT:
            break
    return violations


def _written(schema: object, pointer: str) -> str:
    """Write a schema as JSON; what is wrong with it, `_validator` finds once for all its values."""
    try:
        return json.dumps(schema)
    except (TypeError, ValueError, RecursionError):  # such as the type of a pydantic model
        try:
            return json.dumps(plain_schema(schema, pointer))
        except GrammarError:
            return ""


@functools.lru_cache(maxsize=256)
def _validator(written: str) -> Any:
    """Return the validator of a schema, or None if it is invalid."""
    try:
        return jsonschema_rs.validator_for(
            plain_schema(json.loads(written), "#"),
            validate_formats=True,
            retriever=_refuse_retrieval,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT),
        )
    except (GrammarError, ValueError):  # ValueError: jsonschema_rs cannot read the schema
        return None


def _refuse_retrieval(address: str) -> NoReturn:
    raise ValueError(f"{address} is outside the schema; nothing is fetched")
