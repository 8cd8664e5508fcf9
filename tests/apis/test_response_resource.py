"""The resource of the Responses API: every field there, and what the request asked for."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import Response as SdkResponse

from gpt_oss_harmony import ReasoningEffort
from gpt_oss_harmony.apis import (
    IncompleteDetails,
    Response,
    ResponseError,
    ResponsesRequest,
    ResponseUsage,
    response_of,
)
from gpt_oss_harmony.engines import Sampling

# What the specification of Open Responses requires, and what of it must not be null.
REQUIRED = {
    "id", "object", "created_at", "completed_at", "status", "incomplete_details", "model",
    "previous_response_id", "instructions", "output", "error", "tools", "tool_choice",
    "truncation", "parallel_tool_calls", "text", "top_p", "presence_penalty",
    "frequency_penalty", "top_logprobs", "temperature", "reasoning", "user", "usage",
    "max_output_tokens", "max_tool_calls", "store", "background", "service_tier", "metadata",
    "safety_identifier", "prompt_cache_key",
}  # fmt: skip
NULLABLE = {
    "completed_at", "incomplete_details", "previous_response_id", "instructions", "error",
    "reasoning", "user", "usage", "max_output_tokens", "max_tool_calls", "safety_identifier",
    "prompt_cache_key",
}  # fmt: skip
INTEGERS = {"created_at", "completed_at", "top_logprobs", "max_output_tokens", "max_tool_calls"}

# What the SDK has for features that there are none of here.
NOT_HERE = {
    "access_programs", "image", "input_transformations", "moderation", "prompt_cache_diagnostics",
    "prompt_cache_options", "tool_usage",
}  # fmt: skip


def response(**fields: Any) -> Response:
    request = ResponsesRequest.model_validate({"input": "hi", **fields})
    return response_of(request, id="resp_1", created_at=1_700_000_000, model="gpt-oss-20b")


FUNCTION = {"type": "function", "name": "now"}
MESSAGE = {
    "type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
    "phase": "final_answer",
    "content": [{"type": "output_text", "text": "Hi!", "annotations": [], "logprobs": []}],
}  # fmt: skip
STATES: dict[str, dict[str, Any]] = {
    "in_progress": {},
    "completed": {
        "completed_at": 1_700_000_001,
        "output": [MESSAGE],
        "usage": ResponseUsage.of(10, 8, 5, 2),
    },
    "incomplete": {"incomplete_details": IncompleteDetails(reason="max_output_tokens")},
    "failed": {"error": ResponseError(code="server_error", message="The engine is gone.")},
}
REQUESTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "everything": {
        "instructions": "Be brief.", "previous_response_id": "resp_0", "metadata": {"a": "b"},
        "max_output_tokens": 5, "max_tool_calls": 2, "prompt_cache_key": "key",
        "prompt_cache_retention": "24h", "safety_identifier": "someone", "user": "someone",
        "service_tier": "flex", "truncation": "auto", "temperature": 0, "top_p": 0.5,
        "presence_penalty": 1, "frequency_penalty": -1, "top_logprobs": 3, "background": True,
        "parallel_tool_calls": False, "reasoning": {"effort": "xhigh", "summary": "auto"},
        "text": {"format": {"type": "json_object"}, "verbosity": "low"},
        "tools": [FUNCTION], "tool_choice": "required",
    },
    "conversation": {"conversation": "conv_1", "store": False},
    "tools": {
        "tools": [
            {"type": "function", "function": {"name": "f", "parameters": {}, "strict": True}},
            {"type": "custom", "name": "patch"},
            {"type": "custom", "custom": {"name": "cut", "description": "Cuts."}},
            {"type": "namespace", "name": "files", "tools": [FUNCTION]},
            {"type": "web_search"},
        ],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [FUNCTION]},
    },
    "a named tool": {"tools": [FUNCTION], "tool_choice": FUNCTION},
    "a schema": {"text": {"format": {"type": "json_schema", "name": "any", "schema": {}}}},
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("asked", REQUESTS)
def test_every_state_is_as_specified(asked: str, state: str) -> None:
    made = response(**REQUESTS[asked]).model_copy(update={"status": state, **STATES[state]})
    written = made.to_dict()
    assert written.keys() >= REQUIRED
    assert {name for name in REQUIRED if written[name] is None} <= NULLABLE
    assert all(isinstance(written[name], int) for name in INTEGERS if written[name] is not None)
    read = SdkResponse.model_validate(written)
    assert set(SdkResponse.model_fields) - NOT_HERE <= set(written)
    assert read.status == written["status"] == state
    assert set(written["reasoning"]) == {"effort", "summary"}


def test_what_was_asked_is_repeated() -> None:
    asked = REQUESTS["everything"]
    written = response(**asked).to_dict()
    changed = {
        "service_tier": "default",  # there is one
        "reasoning": {"effort": "high", "summary": "auto"},  # as the model was told
        "tools": [{**FUNCTION, "description": None, "parameters": None, "strict": None}],
    }
    assert {name: written[name] for name in asked} == {**asked, **changed}


def test_defaults_are_those_of_the_server() -> None:
    sampling = Sampling(temperature=0.5, top_p=0.9, presence_penalty=0.1)
    made = response_of(
        ResponsesRequest(input="hi"), id="resp_1", created_at=0, model="m",
        effort=ReasoningEffort.LOW, sampling=sampling,
    )  # fmt: skip
    assert (made.temperature, made.top_p, made.presence_penalty) == (0.5, 0.9, 0.1)
    assert made.reasoning.effort == "low"
    assert made.store
    assert made.parallel_tool_calls


def test_tools_are_repeated_flat_and_whole() -> None:
    assert response(**REQUESTS["tools"]).tools == [
        {"type": "function", "name": "f", "description": None, "parameters": {}, "strict": True},
        {"type": "custom", "name": "patch", "description": None, "format": {"type": "text"}},
        {"type": "custom", "name": "cut", "description": "Cuts.", "format": {"type": "text"}},
        {
            "type": "namespace",
            "name": "files",
            "description": "",
            "tools": [{**FUNCTION, "description": None, "parameters": None, "strict": None}],
        },
        {"type": "web_search"},
    ]


@pytest.mark.parametrize(
    ("choice", "shown"),
    [
        (None, "auto"),
        ("none", "none"),
        ({"type": "required"}, "required"),
        ({"type": "function", "function": {"name": "now"}}, FUNCTION),
        ({"type": "custom", "custom": {"name": "a"}}, {"type": "custom", "name": "a"}),
        (
            {"type": "allowed_tools", "tools": [FUNCTION]},
            {"type": "allowed_tools", "mode": "auto", "tools": [FUNCTION]},
        ),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "now"}}],
                },
            },
            {"type": "allowed_tools", "mode": "required", "tools": [FUNCTION]},
        ),
    ],
)
def test_choices_are_repeated_flat(choice: Any, shown: Any) -> None:
    assert response(tool_choice=choice).tool_choice == shown


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        (None, {"type": "text"}),
        ({"type": "json_object"}, {"type": "json_object"}),
        (
            {"type": "json_schema", "json_schema": {"name": "a", "strict": True}},
            {
                "type": "json_schema",
                "name": "a",
                "description": None,
                "schema": {},
                "strict": True,
            },
        ),
    ],
)
def test_formats_are_repeated_flat(wanted: Any, shown: Any) -> None:
    assert response(text={"format": wanted}).text.format == shown


def test_usage_adds_up() -> None:
    assert ResponseUsage.of(10, 8, 5, 2).model_dump() == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2, "forced_tokens": 0},
        "total_tokens": 15,
    }
