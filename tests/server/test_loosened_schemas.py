"""Schemas that grammars enforce in part: responses say so, and what was written is validated."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from support.chat_server import HI
from support.responses_server import serving

UNIQUE = {"type": "object", "properties": {"tags": {"type": "array", "uniqueItems": True}}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": UNIQUE}}
CALL = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"
POINTER = "tools/functions.f#/properties/tags/uniqueItems"
VIOLATION = {"pointer": POINTER, "instance": "#/tags", "message": "[1,1] has non-unique elements"}


def count(client: TestClient, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def ask(client: TestClient, **fields: Any) -> Any:
    body = {"messages": HI, "tools": [TOOL], **fields}
    return client.post("/v1/chat/completions", json=body)


@pytest.mark.parametrize(
    ("arguments", "violations"), [('{"tags": [1, 1]}', [VIOLATION]), ('{"tags": [1, 2]}', None)]
)
def test_a_chat_completion_says_what_was_left_out_and_violated(
    arguments: str, violations: list[dict[str, str]] | None
) -> None:
    with serving(CALL.replace("{}", arguments)) as client:
        response = ask(client)
        assert response.headers["Harmony-Unenforced"] == POINTER
        (choice,) = response.json()["choices"]
        assert choice.get("schema_violations") == violations
        name = 'harmony_unenforced_keywords_total{keyword="uniqueItems"}'
        assert count(client, name) == 1
        assert count(client, "harmony_schema_violations_total") == len(violations or ())


def test_a_stream_says_so_in_its_header_and_last_chunk() -> None:
    with serving(CALL.replace("{}", '{"tags": [1, 1]}')) as client:
        response = ask(client, stream=True)
        assert response.headers["Harmony-Unenforced"] == POINTER
        chunks = [line for line in response.text.split("\n\n") if "schema_violations" in line]
        assert len(chunks) == 1
        assert '"finish_reason":"tool_calls"' in chunks[0]


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_says_so(stream: bool) -> None:
    tool = {"type": "function", "name": "f", "parameters": UNIQUE, "strict": False}
    body = {"input": "hi", "tools": [tool], "stream": stream}
    with serving(CALL.replace("{}", '{"tags": [1, 1]}')) as client:
        response = client.post("/v1/responses", json=body)
        assert response.headers["Harmony-Unenforced"] == POINTER
        assert '"schema_violations":[{' in response.text
        assert "non-unique" in response.text


def test_a_turn_that_is_enforced_in_full_says_nothing() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    with serving(CALL) as client:
        response = ask(client, tools=[tool])
        assert "Harmony-Unenforced" not in response.headers
        assert "schema_violations" not in response.text


def test_a_strict_tool_is_refused() -> None:
    strict = {**TOOL, "function": {**TOOL["function"], "strict": True}}  # type: ignore[dict-item]
    with serving(CALL) as client:
        response = ask(client, tools=[strict])
        assert response.status_code == 400
        assert "uniqueItems" in response.text
