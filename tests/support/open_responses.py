"""What Open Responses requires of responses, items and events, as JSON Schema; our own words.

The facts are those of the specification of 2026-04-24: which fields there are, which may be null.
Fields beyond these are allowed everywhere.
"""

from __future__ import annotations

from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}


def one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def record(optional: Schema | None = None, /, **required: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
    }


def by_type(kinds: dict[str, Schema]) -> Schema:
    """One of several objects that their `type` tells apart, so that problems are told of one."""
    cases: list[Schema] = [
        {"if": {"properties": {"type": {"const": name}}}, "then": schema}
        for name, schema in kinds.items()
    ]
    return {**record(type=one_of(*kinds)), "allOf": cases}


STATUS = one_of("in_progress", "completed", "incomplete")
EFFORT = one_of("none", "minimal", "low", "medium", "high", "xhigh")

TOP_LOGPROB = record(token=STRING, logprob=NUMBER, bytes=list_of(INTEGER))
LOGPROB = record(
    token=STRING, logprob=NUMBER, bytes=list_of(INTEGER), top_logprobs=list_of(TOP_LOGPROB)
)
LOGPROBS: Schema = {"logprobs": list_of(LOGPROB)}
TEXT = record(text=STRING)

PART = by_type(
    {
        "input_text": TEXT,
        "output_text": record(LOGPROBS, text=STRING, annotations=list_of(OBJECT)),
        "text": TEXT,
        "summary_text": TEXT,
        "reasoning_text": TEXT,
        "refusal": record(refusal=STRING),
        "input_image": record(image_url=or_null(STRING), detail=one_of("low", "high", "auto")),
        "input_file": record({"filename": STRING, "file_url": STRING}),
    }
)

ITEM = by_type(
    {
        "message": record(
            {"phase": one_of("commentary", "final_answer")},
            id=STRING,
            status=STATUS,
            role=one_of("user", "assistant", "system", "developer"),
            content=list_of(PART),
        ),
        "function_call": record(
            id=STRING, call_id=STRING, name=STRING, arguments=STRING, status=STATUS
        ),
        "function_call_output": record(
            id=STRING, call_id=STRING, output={"type": ["string", "array"]}, status=STATUS
        ),
        "reasoning": record(
            {"content": list_of(PART), "encrypted_content": STRING},
            id=STRING,
            summary=list_of(PART),
        ),
        "compaction": record({"created_by": STRING}, id=STRING, encrypted_content=STRING),
    }
)

FUNCTION_CHOICE = record({"name": STRING}, type=one_of("function"))
TOOL_CHOICE: Schema = {
    "anyOf": [
        one_of("none", "auto", "required"),
        FUNCTION_CHOICE,
        record(
            type=one_of("allowed_tools"),
            tools=list_of(FUNCTION_CHOICE),
            mode=one_of("none", "auto", "required"),
        ),
    ]
}

USAGE = record(
    input_tokens=INTEGER,
    output_tokens=INTEGER,
    total_tokens=INTEGER,
    input_tokens_details=record(cached_tokens=INTEGER),
    output_tokens_details=record(reasoning_tokens=INTEGER),
)

RESPONSE = record(
    id=STRING,
    object=one_of("response"),
    created_at=INTEGER,
    completed_at=or_null(INTEGER),
    status=STRING,
    incomplete_details=or_null(record(reason=STRING)),
    model=STRING,
    previous_response_id=or_null(STRING),
    instructions=or_null(STRING),
    output=list_of(ITEM),
    error=or_null(record(code=STRING, message=STRING)),
    tools=list_of(
        record(
            type=one_of("function"),
            name=STRING,
            description=or_null(STRING),
            parameters=or_null(OBJECT),
            strict=or_null(BOOLEAN),
        )
    ),
    tool_choice=TOOL_CHOICE,
    truncation=one_of("auto", "disabled"),
    parallel_tool_calls=BOOLEAN,
    text=record(
        {"verbosity": one_of("low", "medium", "high")},
        format=record(type=one_of("text", "json_object", "json_schema")),
    ),
    top_p=NUMBER,
    presence_penalty=NUMBER,
    frequency_penalty=NUMBER,
    top_logprobs=INTEGER,
    temperature=NUMBER,
    reasoning=or_null(
        record(effort=or_null(EFFORT), summary=or_null(one_of("concise", "detailed", "auto")))
    ),
    usage=or_null(USAGE),
    max_output_tokens=or_null(INTEGER),
    max_tool_calls=or_null(INTEGER),
    store=BOOLEAN,
    background=BOOLEAN,
    service_tier=STRING,
    metadata=OBJECT,
    safety_identifier=or_null(STRING),
    prompt_cache_key=or_null(STRING),
)

COMPACTION = record(
    id=STRING,
    object=one_of("response.compaction"),
    output=list_of(ITEM),
    created_at=INTEGER,
    usage=USAGE,
)


def _event(optional: Schema | None = None, /, **required: Schema) -> Schema:
    return record(optional, sequence_number=INTEGER, **required)


_WHOLE = _event(response=RESPONSE)
_ITEM = _event(output_index=INTEGER, item=ITEM)
_OF_ITEM = {"item_id": STRING, "output_index": INTEGER}
_OF_PART = {**_OF_ITEM, "content_index": INTEGER}
_PART = _event(**_OF_PART, part=PART)
_DELTA = _event(**_OF_PART, delta=STRING)
_DONE = _event(**_OF_PART, text=STRING)

_EVENTS = {
    "response.created": _WHOLE,
    "response.queued": _WHOLE,
    "response.in_progress": _WHOLE,
    "response.completed": _WHOLE,
    "response.failed": _WHOLE,
    "response.incomplete": _WHOLE,
    "response.output_item.added": _ITEM,
    "response.output_item.done": _ITEM,
    "response.content_part.added": _PART,
    "response.content_part.done": _PART,
    "response.output_text.delta": _event(LOGPROBS, **_OF_PART, delta=STRING),
    "response.output_text.done": _event(LOGPROBS, **_OF_PART, text=STRING),
    "response.function_call_arguments.delta": _event(**_OF_ITEM, delta=STRING),
    "response.function_call_arguments.done": _event(**_OF_ITEM, arguments=STRING),
    "error": _event(
        error=record(type=STRING, code=or_null(STRING), message=STRING, param=or_null(STRING))
    ),
}
_REASONING = {
    "open-responses": {"response.reasoning.delta": _DELTA, "response.reasoning.done": _DONE},
    "openai": {"response.reasoning_text.delta": _DELTA, "response.reasoning_text.done": _DONE},
}

WEBSOCKET_ERROR = record(
    type=one_of("error"),
    status=INTEGER,
    error=record({"type": STRING, "param": or_null(STRING)}, code=STRING, message=STRING),
)

TERMINAL = ("response.completed", "response.failed", "response.incomplete")


def event_schema(event_names: str) -> Schema:
    """Of an event, with the names that a server's setting gives to those of reasoning."""
    return by_type({**_EVENTS, **_REASONING[event_names]})


def check(schema: Schema, value: Any) -> None:
    """Fail, and tell where, if the value is not as required."""
    problem = best_match(Draft202012Validator(schema).iter_errors(value))
    where = "" if problem is None else "/".join(map(str, problem.absolute_path))
    assert problem is None, f"{where}: {problem.message}"


def check_response(value: Any) -> dict[str, Any]:
    """Check a whole response and return it."""
    check(RESPONSE, value)
    return cast("dict[str, Any]", value)
