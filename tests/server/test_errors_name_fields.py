"""Every place of a request with something wrong in it: the error names the field, in our words.

Each place of a rich request holds one wrong value at a time, or is left out.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from gpt_oss_harmony.server import Settings, create_app
from support.local_client import LocalClient
from support.scripted_engine import TalkingEngine
from support.wrong_requests import RAW, places

ABSENT = object()
WRONG: list[Any] = [None, [None], -1, "", ABSENT]

PARAMETERS = {"type": "object", "properties": {"a": {"type": "string"}}}
FUNCTION = {"name": "f", "description": "d", "parameters": PARAMETERS}
CHAT_TOOL = {"type": "function", "function": FUNCTION}
USER = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
REQUESTS: dict[str, dict[str, Any]] = {
    "/v1/responses": {
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": "x"},
        ],
        "tools": [{"type": "function", **FUNCTION}],
        "tool_choice": {"type": "function", "name": "f"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
        "reasoning": {"effort": "low"},
        "temperature": 1,
        "max_output_tokens": 20,
    },
    "/v1/chat/completions": {
        "messages": [
            {"role": "system", "content": "s"},
            USER,
            {"role": "assistant", "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ]},
            {"role": "tool", "tool_call_id": "1", "content": "x"},
        ],
        "tools": [CHAT_TOOL],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {
            "type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}
        },
        "stop": ["x"],
        "n": 1,
        "max_tokens": 20,
    },
    "/v1/messages": {
        "system": [{"type": "text", "text": "s"}],
        "messages": [
            USER,
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "1", "name": "f", "input": {}}
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "1",
                 "content": [{"type": "text", "text": "x"}]}
            ]},
        ],
        "tools": [{"name": "f", "description": "d", "input_schema": PARAMETERS}],
        "tool_choice": {"type": "auto"},
        "stop_sequences": ["x"],
        "max_tokens": 20,
    },
    "/v1/completions": {"prompt": ["Hi"], "n": 1, "stop": ["x"], "logprobs": 1, "max_tokens": 20},
    "/api/chat": {
        "model": "script",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [CHAT_TOOL],
        "options": {"temperature": 1, "num_predict": 20, "stop": ["x"]},
        "stream": False,
    },
    "/api/generate": {"model": "script", "prompt": "Hi", "options": {"num_predict": 20}},
    "/tokenize": {"prompt": "Hi"},
    "/detokenize": {"tokens": [1]},
}  # fmt: skip


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    settings = Settings(model_names=("script",), repetition=None)
    with LocalClient(create_app(TalkingEngine(), settings)) as client:
        yield client


def with_wrong(request: dict[str, Any], path: tuple[Any, ...], wrong: Any) -> dict[str, Any]:
    body = copy.deepcopy(request)
    holder: Any = body
    for key in path[:-1]:
        holder = holder[key]
    if wrong is ABSENT:
        del holder[path[-1]]
    else:
        holder[path[-1]] = wrong
    return body


def problem_of(answer: Any) -> str:
    error = answer.json()["error"]
    return str(error if isinstance(error, str) else error["message"])


@pytest.mark.parametrize("path", REQUESTS)
def test_the_field_is_named_in_our_words(client: TestClient, path: str) -> None:
    request = REQUESTS[path]
    refused = 0
    for place in places(request):
        for wrong in WRONG:
            answer = client.post(path, json=with_wrong(request, place, wrong))
            assert answer.status_code in (200, 400, 404), (place, wrong)
            if answer.status_code == 200:
                continue
            refused += 1
            problem = problem_of(answer)
            assert not RAW.search(problem), (place, wrong, problem)
            is_named = any(str(name) in problem for name in place if isinstance(name, str))
            # What is left out, or null, may be missed where another field needs it.
            assert is_named or wrong in (None, ABSENT), (place, wrong, problem)
    assert refused >= 3


@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "the request has no body; send a JSON object"),
        (b"[]", "expected an object, found []"),
        (b"null", "expected an object, found null"),
        (b"7", "expected an object, found 7"),
    ],
)
def test_a_body_that_is_no_object(client: TestClient, path: str, body: bytes, problem: str) -> None:
    answer = client.post(path, content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, problem_of(answer)) == (400, problem)
