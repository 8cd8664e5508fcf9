"""Chat Completions: whole answers and streams say the same, in the shapes of OpenAI's SDK."""

from __future__ import annotations

from typing import Any

import pytest

from gpt_oss_harmony.apis import ItemKind
from support.chat_server import (
    CALL,
    CUSTOM,
    FINAL,
    HI,
    NOW,
    PREAMBLE,
    THINK,
    THINK_MORE,
    TellingEngine,
    chat,
    chunks,
    joined,
)
from support.responses_server import serving
from support.scripted_engine import ENCODING, ScriptedEngine

ANSWERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "answer": (FINAL, {"content": "Hello 🏰 there."}, "stop"),
    "reasoning": (
        THINK + FINAL,
        {"content": "Hello 🏰 there.", "reasoning": "Hm, hm."},
        "stop",
    ),
    "reasoning twice": (
        THINK + THINK_MORE + FINAL,
        {"content": "Hello 🏰 there.", "reasoning": "Hm, hm.\n\nSo."},
        "stop",
    ),
    "call": (
        THINK + CALL,
        {"content": None, "reasoning": "Hm, hm.", "tool_calls": [("now", '{"a": 1}')]},
        "tool_calls",
    ),
    "preamble and call": (
        PREAMBLE + CALL,
        {"content": "I look.", "tool_calls": [("now", '{"a": 1}')]},
        "tool_calls",
    ),
    "preamble and answer": (PREAMBLE + FINAL, {"content": "I look.\n\nHello 🏰 there."}, "stop"),
    "two calls": (
        CALL.replace("<|call|>", "<|end|><|start|>assistant") + CALL,
        {"content": None, "tool_calls": [("now", '{"a": 1}')] * 2},
        "tool_calls",
    ),
    "call on analysis": (
        CALL.replace("commentary", "analysis"),
        {"content": None, "tool_calls": [("now", '{"a": 1}')]},
        "tool_calls",
    ),
    "call without arguments": (
        CALL.replace('{"a": 1}', " "),
        {"content": None, "tool_calls": [("now", "{}")]},
        "tool_calls",
    ),
    "call of a tool that nobody declared": (
        "<|channel|>commentary to=browser.open<|message|>{}<|call|>",
        {"content": None, "tool_calls": [("browser.open", "{}")]},
        "tool_calls",
    ),
    "no markup": ("Hello.<|return|>", {"content": "Hello."}, "stop"),
    "nothing": ("<|return|>", {"content": ""}, "stop"),
}


def expected(message: dict[str, Any]) -> dict[str, Any]:
    reasoning = message.get("reasoning")
    return {"reasoning": None, **message, "reasoning_content": reasoning, "role": "assistant"}


def seen(message: dict[str, Any]) -> dict[str, Any]:
    """A message without what is the same in all, and without ids."""
    found = {key: message.get(key) for key in ("role", "content", "reasoning", "reasoning_content")}
    if "tool_calls" in message:
        calls = [(one["function"]["name"], one["function"]["arguments"]) for one in _calls(message)]
        found["tool_calls"] = calls
    return found


def _calls(message: dict[str, Any]) -> list[Any]:
    calls: list[Any] = message["tool_calls"]
    assert all(call["id"].startswith("call_") and call["type"] == "function" for call in calls)
    assert len({call["id"] for call in calls}) == len(calls)
    return calls


@pytest.mark.parametrize(("text", "message", "reason"), ANSWERS.values(), ids=ANSWERS)
def test_answers(text: str, message: dict[str, Any], reason: str) -> None:
    with serving(text) as client:
        completion = chat(client, tools=[NOW])
    (choice,) = completion["choices"]
    assert seen(choice["message"]) == expected(message)
    assert choice["message"]["refusal"] is None
    assert choice["finish_reason"] == reason
    assert completion["model"] == "script"
    assert completion["id"].startswith("chatcmpl-")
    assert completion["usage"]["completion_tokens"] == len(
        ENCODING.encode(text, allowed_special="all")
    )


@pytest.mark.parametrize(("text", "message", "reason"), ANSWERS.values(), ids=ANSWERS)
def test_streams(text: str, message: dict[str, Any], reason: str) -> None:
    with serving(text) as client:
        found = chunks(client, tools=[NOW])
    (choice,) = joined(found).values()
    wanted = expected({**message, "content": message["content"] or ""})
    assert seen(choice["message"]) == wanted
    assert choice["finish_reason"] == reason
    assert found[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert found[-1]["choices"][0]["delta"] == {}
    assert all("usage" not in chunk for chunk in found)
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in found}) == 1


def test_calls_are_streamed_by_pieces() -> None:
    with serving(THINK + CALL) as client:
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks(client, tools=[NOW])]
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert calls[0]["function"] == {"name": "now", "arguments": ""}
    assert calls[0]["type"] == "function"
    assert len(calls) > 2
    assert all(call.keys() == {"index", "function"} for call in calls[1:])


def test_custom_tools_are_called_with_text() -> None:
    call = '<|channel|>commentary to=functions.run <|constrain|>json<|message|>{"input": "a\\n"}'
    with serving(*[call + "<|call|>"] * 2) as client:
        whole = client.post("/v1/chat/completions", json={"messages": HI, "tools": [CUSTOM]})
        (called,) = whole.json()["choices"][0]["message"]["tool_calls"]
        streamed = client.post(
            "/v1/chat/completions", json={"messages": HI, "tools": [CUSTOM], "stream": True}
        )
    assert called["type"] == ItemKind.CUSTOM_TOOL_CALL.value.partition("_")[0]
    assert called["custom"] == {"name": "run", "input": "a\n"}
    assert '"custom":{"name":"run","input":""}' in streamed.text
    assert '"custom":{"input":"a"}' in streamed.text


@pytest.mark.parametrize("stop", [" there", ["nothing", " there"]])
def test_stop_texts_end_the_answer(stop: Any) -> None:
    with serving(*[THINK + FINAL] * 2) as client:
        (choice,) = chat(client, stop=stop)["choices"]
        streamed = joined(chunks(client, stop=stop))[0]
    assert choice["message"]["content"] == streamed["message"]["content"] == "Hello 🏰"
    assert choice["finish_reason"] == streamed["finish_reason"] == "stop"


def test_the_limit_of_tokens_is_told() -> None:
    with serving(*[THINK + FINAL] * 3) as client:
        whole = chat(client, max_completion_tokens=3, max_tokens=100)
        streamed = chunks(client, max_tokens=3)
        cut = chat(client, max_tokens=15)["choices"][0]
    assert whole["choices"][0]["finish_reason"] == "length"
    assert whole["usage"]["completion_tokens"] == 3
    assert joined(streamed)[0]["finish_reason"] == "length"
    assert cut["message"]["content"].startswith("Hello")


def test_a_call_that_was_cut_is_no_reason_to_call() -> None:
    with serving(CALL) as client:
        (choice,) = chat(client, tools=[NOW], max_tokens=12)["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] != '{"a": 1}'


# Usage, log-probabilities, settings


def test_usage_tells_the_details() -> None:
    engine = TellingEngine(THINK + FINAL, THINK + FINAL)
    with serving(engine=engine) as client:
        usage = chat(client)["usage"]
        found = chunks(client, stream_options={"include_usage": True})
    prompt = len(ENCODING.encode(engine.prompts[0], allowed_special="all"))
    assert usage["prompt_tokens"] == prompt
    assert usage["total_tokens"] == prompt + usage["completion_tokens"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == prompt // 2
    reasoning = THINK.removesuffix("<|start|>assistant")
    assert usage["completion_tokens_details"]["reasoning_tokens"] == len(
        ENCODING.encode(reasoning, allowed_special="all")
    )
    assert found[-1]["usage"] == usage
    assert found[-1]["choices"] == []
    assert [chunk["usage"] for chunk in found[:-1]] == [None] * (len(found) - 1)


@pytest.mark.parametrize("top", [None, 0, 1, 2])
def test_log_probabilities_are_those_of_the_content(top: int | None) -> None:
    more = {} if top is None else {"top_logprobs": top}
    with serving(engine=TellingEngine(*[THINK + PREAMBLE + FINAL] * 2)) as client:
        whole = chat(client, logprobs=True, **more)["choices"][0]
        streamed = joined(chunks(client, logprobs=True, **more))[0]
    known = whole["logprobs"]["content"]
    assert whole["logprobs"]["refusal"] is None
    text = b"".join(bytes(token["bytes"]) for token in known).decode()
    assert text == "I look.Hello 🏰 there."
    assert streamed["logprobs"] == known
    likeliest = [
        {"token": known[0]["token"], "bytes": known[0]["bytes"], "logprob": -0.5},
        {"token": "!", "bytes": [33], "logprob": -9999.0},
    ]
    assert known[0]["top_logprobs"] == likeliest[: top or 0]


def test_no_log_probabilities_without_asking() -> None:
    with serving(engine=TellingEngine(*[FINAL] * 2)) as client:
        assert chat(client)["choices"][0]["logprobs"] is None
        assert joined(chunks(client))[0]["logprobs"] is None


def test_settings_reach_the_engine() -> None:
    engine = ScriptedEngine(FINAL)
    with serving(engine=engine) as client:
        chat(
            client,
            temperature=0.5,
            top_p=0.9,
            seed=3,
            frequency_penalty=1,
            presence_penalty=-1,
            max_tokens=50,
            user="someone",
            store=True,
            metadata={"a": "b"},
            service_tier="auto",
            parallel_tool_calls=False,
            logit_bias={},
            something_new=[1],
        )
    (sampling,) = engine.samplings
    assert (sampling.temperature, sampling.top_p, sampling.seed) == (0.5, 0.9, 3)
    assert (sampling.frequency_penalty, sampling.presence_penalty) == (1, -1)
    assert sampling.max_tokens == 50
    assert sampling.grammar is None


def test_requests_with_tools_or_a_format_are_sampled_under_a_grammar() -> None:
    engine = ScriptedEngine(*[FINAL] * 3)
    with serving(engine=engine) as client:
        chat(client, tools=[NOW], tool_choice="none")
        chat(client, response_format={"type": "json_object"})
    with serving(engine=engine, grammar=False) as client:
        chat(client, tools=[NOW])
    assert [sampling.grammar is not None for sampling in engine.samplings] == [True, True, False]


def test_the_model_reads_the_effort_and_the_date() -> None:
    engine = ScriptedEngine(FINAL)
    with serving(engine=engine, current_date="2025-06-28") as client:
        chat(client, reasoning_effort="high")
    assert "Reasoning: high" in engine.prompts[0]
    assert "Current date: 2025-06-28" in engine.prompts[0]


# Several choices


def test_choices_are_sampled_each_with_its_seed() -> None:
    engine = ScriptedEngine(*[FINAL, THINK + FINAL, CALL] * 2)
    with serving(engine=engine, max_running=2, max_waiting=0) as client:
        whole = chat(client, n=3, seed=5)
        streamed = joined(chunks(client, n=3))
    assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2]
    reasons = {choice["finish_reason"] for choice in whole["choices"]}
    assert reasons == {choice["finish_reason"] for choice in streamed.values()}
    assert reasons == {"stop", "tool_calls"}
    assert sorted(sampling.seed or 0 for sampling in engine.samplings[:3]) == [5, 6, 7]
    prompt = len(ENCODING.encode(engine.prompts[0], allowed_special="all"))
    assert whole["usage"]["prompt_tokens"] == prompt
    assert engine.freed == 6


def test_a_choice_that_fails_ends_all() -> None:
    engine = ScriptedEngine(FINAL.removesuffix("<|return|>") + "...", "<|channel|>!")
    with serving(engine=engine) as client:
        answer = client.post("/v1/chat/completions", json={"messages": HI, "n": 2})
    assert answer.status_code == 503
    assert engine.freed == 2


# Errors

REFUSED: dict[str, tuple[dict[str, Any], int, str, str | None]] = {
    "another model": ({"model": "gpt"}, 404, "model_not_found", "model"),
    "no messages": ({"messages": None}, 400, "invalid_value", "messages"),
    "an unknown role": (
        {"messages": [{"role": "bot", "content": ""}]},
        400,
        "invalid_value",
        "messages[0].role",
    ),
    "a result without its call": (
        {"messages": [{"role": "tool", "tool_call_id": "x", "content": ""}]},
        400,
        "invalid_value",
        "messages[0].tool_call_id",
    ),
    "temperature": ({"temperature": 3}, 400, "invalid_value", "temperature"),
    "logit_bias": ({"logit_bias": {"1": 2}}, 400, "invalid_value", "logit_bias"),
    "top_logprobs alone": ({"top_logprobs": 2}, 400, "invalid_value", "top_logprobs"),
    "a long prompt": (
        {"messages": [{"role": "user", "content": "a b c " * 600}]},
        400,
        "context_length_exceeded",
        "messages",
    ),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("body", "status", "code", "param"), REFUSED.values(), ids=REFUSED)
def test_errors_before_the_answer(
    body: dict[str, Any], status: int, code: str, param: str | None, stream: bool
) -> None:
    with serving(FINAL) as client:
        asked = {"messages": HI, "stream": stream, **body}
        answer = client.post("/v1/chat/completions", json=asked)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == (code, param)


def test_an_error_within_a_stream_is_a_chunk() -> None:
    with serving(THINK + "<|channel|>final<|message|>Hello!") as client:
        *found, last = chunks(client)
        whole = client.post("/v1/chat/completions", json={"messages": HI})
    assert found
    assert last.keys() == {"error"}
    assert last["error"]["code"] == "engine_unavailable"
    assert whole.status_code >= 500


def test_an_engine_that_ends_without_a_reason_has_failed() -> None:
    with serving("<|channel|>final") as client:
        answer = client.post("/v1/chat/completions", json={"messages": HI})
    assert answer.status_code == 503
    assert "without a finish reason" in answer.json()["error"]["message"]


def test_keys_are_asked_for() -> None:
    with serving(FINAL, api_keys=("secret",)) as client:
        assert client.post("/v1/chat/completions", json={"messages": HI}).status_code == 401
        client.headers["authorization"] = "Bearer secret"
        chat(client)
