"""The Responses API: one request, one response."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from gpt_oss_harmony import encoding
from support.chat_server import TellingEngine
from support.responses_server import (
    CALL,
    NOW,
    PREAMBLE,
    RUN,
    RUNNING,
    TEXT,
    THOUGHT,
    create,
    serving,
    stream,
    types,
)
from support.scripted_engine import ENCODING, ScriptedEngine

PART_DONE = ["content_part.done", "output_item.done"]
MESSAGE = [
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.done",
    *PART_DONE,
]
REASONING = [
    "output_item.added",
    "content_part.added",
    "reasoning_text.delta",
    "reasoning_text.done",
    *PART_DONE,
]
CALLING = [
    "output_item.added",
    "function_call_arguments.delta",
    "function_call_arguments.done",
    "output_item.done",
]
CUSTOM = [
    "output_item.added",
    "custom_tool_call_input.delta",
    "custom_tool_call_input.done",
    "output_item.done",
]
ON_ANALYSIS = "<|channel|>analysis to=functions.now code<|message|>{}<|call|>"
EMPTY_CALL = "<|channel|>commentary to=functions.now<|message|><|call|>"
TWO_TEXTS = f"<|channel|>final<|message|>One.<|end|><|start|>assistant{TEXT}"

# What is sampled, the events of its items, and what comes out.
TURNS: dict[str, tuple[str, list[str], list[str]]] = {
    "text": (TEXT, MESSAGE, ["Hello you"]),
    "reasoning and text": (THOUGHT + TEXT, [*REASONING, *MESSAGE], ["Hm, hm.", "Hello you"]),
    "call": (CALL, CALLING, ["now {}"]),
    "call without arguments": (EMPTY_CALL, CALLING, ["now {}"]),
    "reasoning and call": (THOUGHT + CALL, [*REASONING, *CALLING], ["Hm, hm.", "now {}"]),
    "call on analysis": (ON_ANALYSIS, CALLING, ["now {}"]),
    "preamble and call": (PREAMBLE + CALL, [*MESSAGE, *CALLING], ["I look.", "now {}"]),
    "custom call": (RUNNING, CUSTOM, ["run 1\n2"]),
    "two texts": (TWO_TEXTS, [*MESSAGE, *MESSAGE], ["One.", "Hello you"]),
}


def said(item: dict[str, Any]) -> str:
    """What an item says."""
    if item["type"] in ("message", "reasoning"):
        return "".join(part["text"] for part in item["content"])
    return f"{item['name']} {item.get('arguments', item.get('input'))}"


@pytest.mark.parametrize("name", TURNS)
def test_events_come_in_the_order_of_the_specification(name: str) -> None:
    completion, items, output = TURNS[name]
    with serving(completion, completion) as client:
        events = stream(client, input="hi", tools=[NOW, RUN])
        response = create(client, input="hi", tools=[NOW, RUN])
    told = [name for name, _ in groupby(types(events))]
    assert told == ["created", "in_progress", *items, "completed"]
    last = events[-1]["response"]
    assert last["usage"] == response["usage"]
    for one in (last, response):
        assert [said(item) for item in one["output"]] == output
        assert {item["status"] for item in one["output"]} == {"completed"}


@pytest.mark.parametrize("name", TURNS)
def test_deltas_are_what_is_done_and_what_is_kept(name: str) -> None:
    with serving(TURNS[name][0]) as client:
        events = stream(client, input="hi", tools=[NOW, RUN])
        kept = client.get(f"/v1/responses/{events[-1]['response']['id']}").json()
    for at, item in enumerate(kept["output"]):
        own = [event for event in events if event.get("output_index") == at]
        written = "".join(event["delta"] for event in own if event["type"].endswith(".delta"))
        assert said(item).endswith(written)
        assert own[-1]["item"] == item
        assert {event["item_id"] for event in own if "item_id" in event} == {item["id"]}
    assert kept == events[-1]["response"]


def test_open_responses_names_reasoning_otherwise() -> None:
    with serving(THOUGHT + TEXT, event_names="open-responses") as client:
        answer = client.post("/v1/responses", json={"input": "hi", "stream": True})
    assert "event: response.reasoning.delta\n" in answer.text
    assert "event: response.reasoning.done\n" in answer.text
    assert "reasoning_text.d" not in answer.text


def test_openai_sdks_get_the_names_of_openai() -> None:
    """Their helper ``responses.stream`` fails in TypeScript with others."""
    asked = {"model": "script", "input": "hi", "stream": True}
    with serving(THOUGHT + TEXT, event_names="open-responses") as client:
        sdk = {"X-Stainless-Lang": "js"}
        said = client.post("/v1/responses", json=asked, headers=sdk).text
    assert '"response.reasoning_text.delta"' in said
    assert '"response.reasoning.delta"' not in said


def test_the_limit_of_tokens_makes_an_incomplete_response() -> None:
    with serving(THOUGHT + TEXT, TEXT) as client:
        events = stream(client, input="hi", max_output_tokens=6)
        cut = create(client, input="hi", max_output_tokens=4)
    response = events[-1]["response"]
    assert events[-1]["type"] == "response.incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["usage"]["output_tokens"] == 6
    assert (cut["status"], cut["completed_at"]) == ("incomplete", None)
    assert cut["output"][0]["status"] == "incomplete"
    assert said(cut["output"][0]) == "Hello"


def test_output_that_had_to_be_repaired_is_served_and_counted() -> None:
    with serving("<|channel|>final<|channel|>final<|message|>Well<|return|>") as client:
        response = create(client, input="hi")
        metrics = client.get("/metrics").text
    assert [said(item) for item in response["output"]] == ["Well"]
    assert "harmony_recoveries_total{" in metrics


def test_an_engine_that_fails_before_the_first_token_fails_the_request() -> None:
    with serving("!", "!", "!") as client:
        for body in ({}, {"stream": True}, {"stream": True, "store": False}):
            answer = client.post("/v1/responses", json={"input": "hi", **body})
            assert answer.status_code == 503
            assert answer.json()["error"]["code"] == "engine_unavailable"
            assert answer.headers["retry-after"] == "1"


def test_an_engine_that_fails_later_fails_the_response() -> None:
    broken = "<|channel|>final<|message|>Hello!"
    with serving(broken) as client:
        events = stream(client, input="hi")
        failed = events[-1]["response"]
        assert client.get(f"/v1/responses/{failed['id']}").json() == failed
    assert types(events)[-4:] == ["output_text.done", *PART_DONE, "failed"]
    assert failed["status"] == "failed"
    assert failed["error"] == {"code": "server_error", "message": "the script breaks off"}
    assert said(failed["output"][0]) == "Hello"
    assert failed["output"][0]["status"] == "incomplete"


def test_an_engine_that_fails_fails_the_request_of_a_client_who_waits() -> None:
    with serving("<|channel|>final<|message|>Hello!") as client:
        made = client.post("/v1/conversations", json={}).json()
        body = {"input": "hi", "conversation": made["id"]}
        answer = client.post("/v1/responses", json=body)
        items = client.get(f"/v1/conversations/{made['id']}/items").json()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_unavailable")
    assert items["data"] == []


def test_log_probabilities_stand_with_the_text() -> None:
    body = {"input": "hi", "include": ["message.output_text.logprobs"], "top_logprobs": 2}
    with serving(engine=TellingEngine(THOUGHT + TEXT)) as client:
        events = stream(client, **body)
    told = [one for event in events for one in event.get("logprobs", ()) if "delta" in event]
    done = next(event for event in events if event["type"] == "response.output_text.done")
    part = events[-1]["response"]["output"][1]["content"][0]
    assert told == done["logprobs"] == part["logprobs"]
    assert [one["token"] for one in told] == ["Hello", " you"]
    assert [one["logprob"] for one in told[0]["top_logprobs"]] == [-0.5, -9999.0]
    assert events[-1]["response"]["usage"]["input_tokens_details"]["cached_tokens"] > 0


def test_no_log_probabilities_are_shown_unless_asked_for() -> None:
    engine = TellingEngine(TEXT)
    with serving(engine=engine) as client:
        response = create(client, input="hi")
    assert response["output"][0]["content"][0]["logprobs"] == []
    assert engine.samplings[0].logprobs is None


def test_what_was_asked_is_told_again() -> None:
    asked = {
        "instructions": "Be brief.",
        "metadata": {"topic": "demo"},
        "max_output_tokens": 50,
        "max_tool_calls": 3,
        "parallel_tool_calls": False,
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "temperature": 0.5,
        "top_p": 0.75,
        "truncation": "auto",
        "user": "u",
        "store": False,
        "model": "script",
    }
    with serving(TEXT) as client:
        response = create(client, input="hi", **asked)
    assert {name: response[name] for name in asked} == asked


def test_the_command_of_the_gpt_oss_guide_works_as_printed() -> None:
    body = {
        "model": "gpt-oss-20b",
        "messages": [{"role": "user", "content": "What is AI?"}],
        "max_tokens": 20,
        "temperature": 0.7,
        "stream": False,
    }
    with serving(TEXT, model_names=("gpt-oss-20b",)) as client:
        response = create(client, **body)
    assert response["model"] == "gpt-oss-20b"
    assert response["max_output_tokens"] == 20


REFUSED: dict[str, tuple[dict[str, Any], int, str | None, str]] = {
    "model": ({"model": "gpt-9"}, 404, "model", "model_not_found"),
    "temperature": ({"temperature": 9}, 400, "temperature", "invalid_value"),
    "item": ({"input": [{"type": "riddle"}]}, 400, "input[0].type", "invalid_value"),
    "previous": (
        {"previous_response_id": "resp_0"},
        400,
        "previous_response_id",
        "previous_response_not_found",
    ),
    "conversation": ({"conversation": "conv_0"}, 404, "conversation", "conversation_not_found"),
    "result without call": (
        {"input": [{"type": "function_call_output", "call_id": "c", "output": ""}]},
        400,
        "input[0].call_id",
        "invalid_value",
    ),
    "length": ({"input": "word " * 2000}, 400, "input", "context_length_exceeded"),
    "two of an id": (
        {"input": [{"role": "user", "content": "hi", "id": "msg_1"}] * 2},
        400,
        "input[1].id",
        "invalid_value",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("streamed", [False, True])
def test_requests_that_cannot_be_answered_are_refused(name: str, streamed: bool) -> None:
    body, status, param, code = REFUSED[name]
    with serving() as client:
        answer = client.post("/v1/responses", json={"input": "hi", "stream": streamed, **body})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (status, param, code)


def test_half_a_character_comes_back() -> None:
    text = "\ud83d"
    with serving(TEXT, TEXT) as client:
        body = '{"input": [{"role": "user", "content": "hi", "note": "\\ud83d"}]}'
        answer = client.post(
            "/v1/responses", content=body, headers={"content-type": "application/json"}
        )
        items = client.get(f"/v1/responses/{answer.json()['id']}/input_items").json()
    assert items["data"][0]["note"] == text


def test_truncation_leaves_out_the_oldest_turns() -> None:
    turns = [
        item
        for number in range(20)
        for item in (
            {"role": "user", "content": f"Question {number}: {'why ' * 30}"},
            {"type": "function_call", "call_id": f"c{number}", "name": "now", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": "noon"},
            {"role": "assistant", "content": f"Answer {number}."},
        )
    ]
    asked = {"input": [*turns, {"role": "user", "content": "The last?"}], "tools": [NOW]}
    engine = ScriptedEngine(TEXT)
    with serving(engine=engine) as client:
        refused = client.post("/v1/responses", json=asked)
        create(client, **asked, truncation="auto")
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    (prompt,) = engine.prompts
    assert len(ENCODING.encode(prompt, allowed_special="all")) <= 750
    kept = [number for number in range(20) if f"Answer {number}." in prompt]
    assert kept == list(range(kept[0], 20))
    assert len(kept) > 5
    assert prompt.count("noon") == prompt.count("Question") == len(kept)
    assert "# Tools" in prompt
    assert prompt.endswith("<|start|>user<|message|>The last?<|end|><|start|>assistant")


LONG = "word " * 250_000
LONG_PROMPTS: dict[str, dict[str, Any]] = {
    "input": {"input": LONG},
    "instructions": {"input": "hi", "instructions": LONG},
    "system": {"input": [{"role": "system", "content": LONG}, {"role": "user", "content": "hi"}]},
    "tools": {
        "input": "hi",
        "tools": [{"type": "function", "name": "f", "description": LONG, "parameters": {}}],
    },
    "truncation": {"input": LONG, "truncation": "auto"},
}


@pytest.mark.parametrize("asked", LONG_PROMPTS.values(), ids=LONG_PROMPTS)
def test_a_very_long_prompt_is_refused_without_a_list_of_its_tokens(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed(rendered: object) -> list[int]:
        raise AssertionError("the prompt was rendered")

    with serving() as client:
        monkeypatch.setattr(encoding, "_tokens_of", listed)
        refused = client.post("/v1/responses", json=asked)
        counted = client.post("/v1/responses/input_tokens", json=asked)
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    assert f"the prompt has {counted.json()['input_tokens']} tokens" in refused.text


def test_truncation_cannot_shorten_the_last_turn() -> None:
    with serving() as client:
        answer = client.post("/v1/responses", json={"input": "word " * 2000, "truncation": "auto"})
    assert answer.json()["error"]["code"] == "context_length_exceeded"


def test_input_tokens_are_counted_as_they_will_be_used() -> None:
    with serving(TEXT) as client:
        response = create(client, input="How many?", tools=[NOW])
        body = {"input": "How many?", "tools": [NOW]}
        counted = client.post("/v1/responses/input_tokens", json=body).json()
    expected = {
        "object": "response.input_tokens",
        "input_tokens": response["usage"]["input_tokens"],
    }
    assert counted == expected


def test_encrypted_reasoning_comes_back_token_for_token() -> None:
    engine = ScriptedEngine(THOUGHT + CALL, TEXT, TEXT)
    with serving(engine=engine) as client:
        first = create(
            client,
            input="hi",
            tools=[NOW],
            store=False,
            include=["reasoning.encrypted_content"],
        )
        thought, call = first["output"]
        secret = {**thought, "content": None}
        question = {"role": "user", "content": "hi"}
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "noon"}
        create(client, input=[question, secret, call, result], tools=[NOW])
        forged = {**secret, "encrypted_content": secret["encrypted_content"][:-4] + "AAAA"}
        body = {"input": [question, forged, call, result], "tools": [NOW]}
        refused = client.post("/v1/responses", json=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "input[1].encrypted_content"
    assert "Hm, hm." not in str(secret)
    assert engine.prompts[1].startswith(engine.prompts[0] + THOUGHT.removesuffix("assistant"))
    assert len(engine.prompts) == 2


def test_a_compaction_says_the_same_to_the_model() -> None:
    engine = ScriptedEngine(THOUGHT + TEXT, TEXT, TEXT)
    more = {"role": "user", "content": "And now?"}
    with serving(engine=engine) as client:
        first = create(client, input="hi")
        body = {"previous_response_id": first["id"], "model": "script"}
        compacted = client.post("/v1/responses/compact", json=body).json()
        create(client, input=[more], previous_response_id=first["id"])
        create(client, input=[*compacted["output"], more])
        refused = client.post("/v1/responses/compact", json={"input": "hi"})
    assert compacted["object"] == "response.compaction"
    assert [item["type"] for item in compacted["output"]] == ["compaction"]
    assert engine.prompts[2] == engine.prompts[1]
    assert "Hm, hm." not in engine.prompts[2]
    assert refused.status_code == 400


def test_what_is_not_stored_is_not_there() -> None:
    with serving(TEXT, TEXT) as client:
        response = create(client, input="hi", store=False)
        (created, *_) = stream(client, input="hi", store=False)
        for id in (response["id"], created["response"]["id"]):
            assert client.get(f"/v1/responses/{id}").status_code == 404
            assert client.get(f"/v1/responses/{id}/input_items").status_code == 404


def test_the_server_is_busy() -> None:
    with serving(max_running=1, max_waiting=0) as client:
        admission = client.app.state.services.admission  # type: ignore[attr-defined]
        assert client.portal is not None
        with client.portal.wrap_async_context_manager(admission.slot()):
            for body in ({}, {"stream": True}, {"background": True}):
                answer = client.post("/v1/responses", json={"input": "hi", **body})
                assert answer.status_code == 429
                assert int(answer.headers["retry-after"]) >= 1
