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
