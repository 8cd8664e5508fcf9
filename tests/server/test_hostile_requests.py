"""Requests that are right but for a few places, which hold something else: no answer is a 5xx.

Where the OpenAPI document says nothing of what is within items and tools, this looks there.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from gpt_oss_harmony.server import Settings
from gpt_oss_harmony.server.http.errors import add_error_handlers
from support.scripted_engine import TalkingEngine
from support.served import CHAT_WEATHER, PATIENCE, WEATHER, serving
from support.wrong_requests import places

REQUESTS = 40

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string", "pattern": "^a+$"}, "b": {"$ref": "#/$defs/x"}},
    "required": ["a"],
    "$defs": {"x": {"anyOf": [{"type": "integer"}, {"enum": ["k", 1, None]}]}},
    "additionalProperties": False,
}

RESPONSE = {
    "model": "script",
    "input": [
        {"role": "system", "content": "Be brief."},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Hi!"},
                {"type": "input_image", "image_url": "data:x", "detail": "auto"},
                {"type": "input_file", "filename": "a", "file_data": "b"},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "So."}],
            "content": [{"type": "reasoning_text", "text": "Hm."}],
            "encrypted_content": None,
        },
        {"type": "function_call", "call_id": "1", "name": WEATHER["name"], "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "1",
            "output": [{"type": "input_text", "text": "Sun."}],
        },
        {"type": "custom_tool_call", "call_id": "2", "name": "patch", "input": "abc"},
        {"type": "custom_tool_call_output", "call_id": "2", "output": "done"},
        {
            "type": "message",
            "role": "assistant",
            "phase": "final_answer",
            "content": [
                {"type": "output_text", "text": "Yes.", "annotations": [], "logprobs": []},
                {"type": "refusal", "refusal": "No."},
            ],
        },
        {"role": "user", "content": "And?"},
    ],
    "tools": [
        WEATHER,
        {"type": "custom", "name": "patch", "format": {"type": "text"}},
        {"type": "namespace", "name": "more", "description": "More.", "tools": [WEATHER]},
        {"type": "web_search", "filters": {"allowed_domains": ["example.com"]}},
        {"type": "mcp", "server_label": "one"},
        {"type": "code_interpreter", "container": {"type": "auto"}},
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": WEATHER["name"]}],
    },
    "text": {"format": {"type": "json_schema", "name": "s", "strict": True, "schema": SCHEMA}},
    "reasoning": {"effort": "low", "summary": "auto"},
    "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
    "metadata": {"a": "b"},
    "stop": ["zz"],
    "stream_options": {"include_obfuscation": True},
    "max_output_tokens": 50,
    "top_logprobs": 2,
    "previous_response_id": None,
    "conversation": None,
}
CHAT = {
    "model": "script",
    "messages": [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {
            "role": "user",
            "name": "anna",
            "content": [
                {"type": "text", "text": "Hi!"},
                {"type": "image_url", "image_url": {"url": "data:x"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Hm.",
            "tool_calls": [
                {
                    "id": "1",
                    "type": "function",
                    "function": {"name": WEATHER["name"], "arguments": "{}"},
                },
                {"id": "2", "type": "custom", "custom": {"name": "patch", "input": "x"}},
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "Sun."},
        {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "done"}]},
        {"role": "user", "content": "And?"},
    ],
    "tools": [CHAT_WEATHER, {"type": "custom", "custom": {"name": "patch"}}],
    "tool_choice": {"type": "function", "function": {"name": WEATHER["name"]}},
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "s", "schema": SCHEMA, "strict": True},
    },
    "n": 2,
    "stop": "zz",
    "logprobs": True,
    "top_logprobs": 3,
    "stream_options": {"include_usage": True},
    "max_completion_tokens": 30,
    "reasoning_effort": "high",
}
TURNS = [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello!"}]
VALID: dict[str, Any] = {
    "/responses": RESPONSE,
    "/chat/completions": CHAT,
    "/completions": {"model": "script", "prompt": ["a", [1, 2]], "n": 2, "logprobs": 2},
    "/tokens/render": {"model": "script", "messages": TURNS},
    "/tokens/parse": {"tokens": [200005, 17196, 200008, 13225, 200002], "role": "assistant"},
    "/conversations": {"items": [{"type": "message", **TURNS[0]}], "metadata": {"a": "b"}},
    "/responses/compact": {"model": "script", "input": TURNS, "instructions": "Be brief."},
    "/responses/input_tokens": {"model": "script", "input": TURNS, "tools": [WEATHER]},
}
STRANGE: list[Any] = [
    None, True, 0, -1, 1.5, 2**63, 10**30, 1e308, "", "x", "\0", "<|end|>", "[", "a{1000000}",
    "9" * 400, "auto", "required", "function", [], {}, [None], [[]], ["a", "b"], {"a": None},
    {"type": "x"}, {"type": "object", "properties": {"a": {"$ref": "#"}}},
]  # fmt: skip


def changed(valid: Any, rng: Random) -> Any:
    """A copy in which a few places hold something strange, or nothing."""
    body = copy.deepcopy(valid)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        *path, last = rng.choice(list(places(body)) or [("model",)])
        holder = body
        for key in path:
            holder = holder[key]
        if rng.random() < 0.3 and len(body) > 1:
            del holder[last]
        else:
            holder[last] = copy.deepcopy(rng.choice(STRANGE))
    return body


@pytest.fixture(scope="module")
def http() -> Iterator[httpx2.Client]:
    with (
        serving(TalkingEngine(), Settings(missing_tools="ignore", attachments="note")) as url,
        httpx2.Client(base_url=url, timeout=PATIENCE) as client,
    ):
        yield client


@pytest.mark.parametrize("path", VALID)
def test_the_requests_are_right_before(http: httpx2.Client, path: str) -> None:
    answer = http.post(path, json=VALID[path])
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("path", VALID)
def test_strange_requests(http: httpx2.Client, path: str) -> None:
    rng = Random(path)
    for number in range(REQUESTS):
        body = changed(VALID[path], rng)
        if path in ("/responses", "/chat/completions", "/completions"):
            body["stream"] = number % 3 == 0
        answer = http.post(path, json=body)
        asked = json.dumps(body)
        assert answer.status_code < 500, asked
        assert "server_error" not in answer.text, asked
        if answer.status_code >= 400:
            assert answer.json()["error"]["message"], asked


def test_what_is_nested_too_deeply_is_the_clients_error(caplog: pytest.LogCaptureFixture) -> None:
    app = FastAPI()
    add_error_handlers(app)

    @app.post("/deep")
    def deep() -> None:
        deep()

    answer = TestClient(app).post("/deep")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "nested_too_deeply")
    assert [(record.levelname, record.exc_info) for record in caplog.records] == [("WARNING", None)]


def test_a_grammar_of_many_levels_is_refused_or_works() -> None:
    grammar = f'root ::= {"(" * 1000}"a"{")" * 1000}'
    with serving(TalkingEngine()) as url:
        for fields in ({"guided_grammar": grammar}, {"structured_outputs": {"grammar": grammar}}):
            body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, **fields}
            answer = httpx2.post(f"{url}/chat/completions", json=body, timeout=PATIENCE)
            assert answer.status_code in (200, 400)
