"""A turn that runs in circles ends early, with a reason in each API, in the log and the metrics."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from support.chat_server import HI
from support.responses_server import serving
from support.scripted_engine import ScriptedEngine

CIRCLES = "<|channel|>final<|message|>" + "I go on. " * 100 + "<|return|>"
LINE = 'harmony_completions_total{reason="repetition"} 1.0'


def last_event(text: str) -> dict[str, Any]:
    events = [line for line in text.splitlines() if line.startswith("data: {")]
    event: dict[str, Any] = json.loads(events[-1].removeprefix("data: "))
    return event


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_chat(caplog: pytest.LogCaptureFixture, *, is_streamed: bool) -> None:
    caplog.set_level(logging.WARNING)
    engine = ScriptedEngine(CIRCLES)
    with serving(engine=engine, repetition=20) as client:
        body = {"messages": HI, "stream": is_streamed}
        answer = client.post("/v1/chat/completions", json=body)
        metrics = client.get("/metrics").text
    (choice,) = (last_event(answer.text) if is_streamed else answer.json())["choices"]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("length", "repetition")
    assert LINE in metrics
    (record,) = [record for record in caplog.records if "circles" in record.message]
    assert record.fields == {"tokens": 28, "period": 4}  # type: ignore[attr-defined]
    assert engine.freed == 1


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_messages(*, is_streamed: bool) -> None:
    with serving(CIRCLES, repetition=20) as client:
        answer = client.post("/v1/messages", json={"messages": HI, "stream": is_streamed})
    if is_streamed:
        assert '"stop_reason":"max_tokens","stop_sequence":null,"stop_detail":"repetition"' in (
            answer.text
        )
    else:
        message = answer.json()
        assert (message["stop_reason"], message["stop_detail"]) == ("max_tokens", "repetition")


def test_responses() -> None:
    with serving(CIRCLES, repetition=20) as client:
        response = client.post("/v1/responses", json={"input": "hi"}).json()
        metrics = client.get("/metrics").text
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {
        "reason": "max_output_tokens",
        "stop_reason": "repetition",
    }
    assert LINE in metrics


def test_completions() -> None:
    with serving("I go on. " * 100, repetition=20) as client:
        answer = client.post("/v1/completions", json={"prompt": "hi"}).json()
    (choice,) = answer["choices"]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("length", "repetition")


def test_it_can_be_off() -> None:
    with serving(CIRCLES, repetition=None) as client:
        answer = client.post("/v1/chat/completions", json={"messages": HI}).json()
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "stop"
    assert "stop_reason" not in choice


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "integer", "minimum": 10}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}
JSON_IN_CIRCLES = '<|channel|>final<|constrain|>json<|message|>{"a": "' + "I go on. " * 100
TOOL = {"type": "function", "name": "now", "parameters": SCHEMA, "strict": True}
CALL_IN_CIRCLES = (
    '<|channel|>commentary to=functions.now <|constrain|>json<|message|>{"a": "' + "on, " * 100
)
REASONING_IN_CIRCLES = "<|channel|>analysis<|message|>" + "I go on. " * 100


def answered(said: str, **fields: Any) -> dict[str, Any]:
    with serving(said, repetition=20) as client:
        response: dict[str, Any] = client.post(
            "/v1/responses", json={"input": "hi", **fields}
        ).json()
    assert response["status"] == "incomplete"
    assert response["incomplete_details"]["stop_reason"] == "repetition"
    return response


def test_json_is_closed() -> None:
    response = answered(JSON_IN_CIRCLES, text={"format": FORMAT})
    value = json.loads(response["output"][-1]["content"][0]["text"])
    assert value["a"].startswith("I go on. I go on. ")
    assert value["b"] == 10
    # What closes it is among the tokens that the client pays for.
    assert 20 < response["usage"]["output_tokens"] < 60


def test_streamed_json_is_what_the_whole_is() -> None:
    body = {"input": "hi", "text": {"format": FORMAT}, "stream": True}
    with serving(JSON_IN_CIRCLES, repetition=20) as client:
        response = last_event(client.post("/v1/responses", json=body).text)["response"]
    whole = answered(JSON_IN_CIRCLES, text={"format": FORMAT})
    assert response["output"][-1]["content"] == whole["output"][-1]["content"]


def test_a_call_is_closed() -> None:
    response = answered(CALL_IN_CIRCLES, tools=[TOOL], tool_choice="required")
    call = response["output"][-1]
    assert (call["type"], call["status"]) == ("function_call", "completed")
    assert json.loads(call["arguments"])["b"] == 10


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        (REASONING_IN_CIRCLES, {"text": {"format": FORMAT}}),
        (CIRCLES, {"tools": [TOOL]}),
        (JSON_IN_CIRCLES, {"text": {"format": FORMAT}, "max_output_tokens": 36}),
        (
            JSON_IN_CIRCLES,
            {"text": {"format": FORMAT}, "include": ["message.output_text.logprobs"]},
        ),
    ],
    ids=["reasoning", "text", "no room", "log-probabilities"],
)
def test_what_is_not_closed(said: str, fields: dict[str, Any]) -> None:
    *_, item = answered(said, **fields)["output"]
    assert item["status"] == "incomplete"
