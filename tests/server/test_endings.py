"""Every way in which a turn can end, in the words of each API, whole and streamed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gpt_oss_harmony.apis.items import Ending
from support.chat_server import CALL, FINAL, HI, THINK
from support.responses_server import serving
from support.scripted_engine import ScriptedEngine

LONG = "<|channel|>final<|message|>" + " ".join(map(str, range(1000))) + "<|return|>"
CIRCLES = "<|channel|>final<|message|>" + "I go on. " * 100 + "<|return|>"


@dataclass(frozen=True)
class Case:
    """What the model says, and how each API calls the end.

    `chat` are the finish reason and the stop reason, `messages` the stop reason, the stop sequence
    and the detail, `responses` the status and the details.
    """

    ending: Ending
    said: str
    chat: tuple[str, str | None]
    messages: tuple[str, str | None, str | None]
    responses: tuple[str, dict[str, str] | None] = ("completed", None)
    body: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    context_length: int = 10_000


FULL = ("incomplete", {"reason": "max_output_tokens"})
CASES = {
    "an answer": Case(Ending.ANSWER, THINK + FINAL, ("stop", None), ("end_turn", None, None)),
    "a call": Case(Ending.CALL, THINK + CALL, ("tool_calls", None), ("tool_use", None, None)),
    "a stop text": Case(
        Ending.STOP_TEXT,
        FINAL,
        ("stop", None),
        ("stop_sequence", " there", None),
        body={"stop": [" there"]},
    ),
    "a cut answer": Case(
        Ending.LIMIT, LONG, ("length", None), ("max_tokens", None, None), FULL, {"max_tokens": 9}
    ),
    "a cut call": Case(
        Ending.LIMIT, CALL, ("length", None), ("max_tokens", None, None), FULL, {"max_tokens": 9}
    ),
    "a full context": Case(
        Ending.CONTEXT,
        LONG,
        ("length", None),
        ("model_context_window_exceeded", None, None),
        FULL,
        context_length=200,
    ),
    "a repetition": Case(
        Ending.REPETITION,
        CIRCLES,
        ("length", "repetition"),
        ("max_tokens", None, "repetition"),
        ("incomplete", {"reason": "max_output_tokens", "stop_reason": "repetition"}),
        settings={"repetition": 20},
    ),
}


def answered(case: Case, path: str, body: dict[str, Any], *, is_streamed: bool) -> Any:
    """Return the answer, or the events of a stream."""
    engine = ScriptedEngine(case.said)
    engine.context_length = case.context_length
    with serving(engine=engine, **case.settings) as client:
        answer = client.post(path, json={**body, **case.body, "stream": is_streamed})
    assert answer.status_code == 200, answer.text
    if not is_streamed:
        return answer.json()
    data = [line.removeprefix("data: ") for line in answer.text.splitlines()]
    return [json.loads(line) for line in data if line.startswith("{")]


def test_every_ending_has_a_case() -> None:
    assert {case.ending for case in CASES.values()} == set(Ending)


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_chat(case: Case, *, is_streamed: bool) -> None:
    answer = answered(case, "/v1/chat/completions", {"messages": HI}, is_streamed=is_streamed)
    (choice,) = (answer[-1] if is_streamed else answer)["choices"]
    assert (choice["finish_reason"], choice.get("stop_reason")) == case.chat


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_messages(case: Case, *, is_streamed: bool) -> None:
    names = {"stop": "stop_sequences"}
    body = {names.get(name, name): value for name, value in case.body.items()}
    case = replace(case, body=body)
    answer = answered(case, "/v1/messages", {"messages": HI}, is_streamed=is_streamed)
    end = answer[-2]["delta"] if is_streamed else answer
    assert (end["stop_reason"], end["stop_sequence"], end.get("stop_detail")) == case.messages


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_responses(case: Case, *, is_streamed: bool) -> None:
    answer = answered(case, "/v1/responses", {"input": "hi"}, is_streamed=is_streamed)
    response = answer[-1]["response"] if is_streamed else answer
    assert (response["status"], response["incomplete_details"]) == case.responses
    if is_streamed:
        assert answer[-1]["type"] == f"response.{response['status']}"
