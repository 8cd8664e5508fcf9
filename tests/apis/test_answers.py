"""One answer in each API: the whole is what clients make of the stream, whatever is sampled."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from gpt_oss_harmony import ConversationError
from gpt_oss_harmony.apis import Answer, Api, answer_request
from gpt_oss_harmony.engines import FinishReason, SampledToken
from support.examples import examples
from support.scripted_engine import ENCODING

RESPONSE_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
MESSAGE_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)

HI = [{"role": "user", "content": "hi"}]
FUNCTION = {"name": "now", "parameters": {"type": "object", "properties": {}}}
BODIES: dict[Api, dict[str, Any]] = {
    "responses": {
        "input": "hi",
        "tools": [{"type": "function", **FUNCTION}, {"type": "custom", "name": "run"}],
    },
    "chat": {
        "messages": HI,
        "tools": [
            {"type": "function", "function": FUNCTION},
            {"type": "custom", "custom": {"name": "run"}},
        ],
    },
    "completions": {"prompt": "<|start|>assistant"},
    "messages": {
        "messages": HI,
        "max_tokens": 100,
        "tools": [{"name": "now", "input_schema": {"type": "object"}}],
        "thinking": {"type": "adaptive"},
    },
}
LOGPROBS: dict[Api, dict[str, Any]] = {
    "responses": {"top_logprobs": 1},
    "chat": {"logprobs": True, "top_logprobs": 1},
    "completions": {"logprobs": 1},
    "messages": {},
}
STOPS: dict[Api, str] = {"messages": "stop_sequences"}

PIECES = [
    *("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|constrain|>", "<|return|>"),
    *("<|call|>", "assistant", "analysis", "commentary", "final", " to=functions.now"),
    *(" to=functions.run", " to=python", " json", '{"input": "a', '\\n"}', "{}", " ", "END", "EN"),
    *("🏰", "word ", "<|start|>assistant<|channel|>final<|message|>"),
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant",
    "<|channel|>commentary to=functions.now<|message|>",
]
completions = st.lists(st.sampled_from(PIECES), max_size=16).map("".join)


def read(answer: Answer, tokens: list[int], reason: FinishReason | None) -> list[dict[str, Any]]:
    """Read tokens, the last of them with the reason, until the answer is over."""
    events = []
    for at, token in enumerate(tokens, 1):
        sampled = SampledToken(
            token,
            logprob=-float(at),
            top_logprobs=((token, -float(at)),),
            finish_reason=reason if at == len(tokens) else None,
        )
        events += answer.take(sampled)
        if answer.is_over:
            break
    events += answer.end()
    assert answer.is_over
    return [event.fields() for event in events]


def request(api: Api, **body: Any) -> Answer:
    numbers = itertools.count()
    return answer_request(
        api,
        {**BODIES[api], **body},
        model="m",
        new_id=lambda prefix: f"{prefix}_{next(numbers)}",
        now=lambda: 7,
        seal=lambda message: f"sealed {message.text}",
    )


@pytest.mark.parametrize("api", BODIES)
@settings(max_examples=examples(200), deadline=None)
@given(
    completions,
    st.sampled_from([None, FinishReason.STOP, FinishReason.LENGTH]),
    st.booleans(),
    st.booleans(),
)
def test_the_whole_answer_is_what_a_client_makes_of_the_stream(
    api: Api, text: str, reason: FinishReason | None, has_logprobs: bool, has_stop: bool
) -> None:
    tokens = ENCODING.encode(text, allowed_special="all")
    body = dict(LOGPROBS[api]) if has_logprobs else {}
    if has_stop:
        body[STOPS.get(api, "stop")] = ["END", "ND w"]
    quiet = request(api, **body)
    read(quiet, tokens, reason)
    whole = quiet.whole()
    usage = {"stream_options": {"include_usage": True}} if api in ("chat", "completions") else {}
    loud = request(api, **body, **usage, stream=True)
    events = read(loud, tokens, reason)
    assert json.loads(json.dumps(FOLDED[api](events, whole))) == whole


# The folds of others: the SDKs' own, and for completions what a client would write


def fold_chat(events: list[dict[str, Any]], whole: dict[str, Any]) -> dict[str, Any]:
    """Join the chunks with the SDK, and the calls by hand: its chunks know no custom tools."""
    ChatCompletion.model_validate(whole)
    (expected,) = whole["choices"]
    message = expected["message"]
    calls: list[dict[str, Any]] = []
    state = ChatCompletionStreamState()
    for event in events:
        for choice in event["choices"]:
            for call in choice["delta"].pop("tool_calls", ()):
                if call["index"] == len(calls):
                    calls.append({"type": call["type"], "id": call["id"], "text": ""})
                    calls[-1]["name"] = call[call["type"]]["name"]
                known = calls[call["index"]]
                known["text"] += call[known["type"]][TEXT[known["type"]]]
        state.handle_chunk(ChatCompletionChunk.model_validate(event))
    assert calls == [
        {
            "type": call["type"],
            "id": call["id"],
            "text": call[call["type"]][TEXT[call["type"]]],
            "name": call[call["type"]]["name"],
        }
        for call in message.get("tool_calls", ())
    ]
    joined = state.current_completion_snapshot.model_dump()
    (made,) = joined["choices"]
    for name in ("content", "reasoning", "reasoning_content", "refusal"):
        assert (made["message"].get(name) or None) == (message[name] or None)
    assert made["finish_reason"] == expected["finish_reason"]
    logprobs = (made.get("logprobs") or {}).get("content") or []
    assert logprobs == ((expected["logprobs"] or {}).get("content") or [])
    assert joined["usage"]["total_tokens"] == whole["usage"]["total_tokens"]
    return whole


TEXT = {"function": "arguments", "custom": "input"}


def fold_response(events: list[dict[str, Any]], whole: dict[str, Any]) -> dict[str, Any]:
    """Rebuild the items from their own events; the last event has them, too."""
    items: list[dict[str, Any]] = []
    texts: list[str] = []
    for event in events:
        RESPONSE_EVENT.validate_python(event)
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            items.append(event["item"])
            texts = []
        elif kind.endswith(".delta"):
            texts.append(event["delta"])
        elif kind == "output_item.done":
            item = items[-1] = event["item"]
            said = item.get("arguments", item.get("input"))
            if said is None:
                said = "".join(part["text"] for part in item["content"])
            assert said == "".join(texts)
    Response.model_validate(whole, strict=True)
    return {**events[-1]["response"], "output": items}


def fold_message(events: list[dict[str, Any]], whole: dict[str, Any]) -> dict[str, Any]:
    """Join the events with the SDK; JSON that is not an object is no input to it."""
    Message.model_validate(whole, strict=True)
    snapshot: Any = None
    for event in events:
        read = MESSAGE_EVENT.validate_python(event) if event["type"] != "ping" else None
        if read is None:
            continue
        if read.type == "content_block_delta" and read.delta.type == "input_json_delta":
            continue
        snapshot = accumulate_event(event=read, current_snapshot=snapshot, json_bufs={})
    joined = json.loads(snapshot.model_dump_json())
    for block, expected in zip(joined["content"], whole["content"], strict=True):
        for name in ("text", "thinking", "signature", "id", "name"):
            assert block.get(name) == expected.get(name)
    for name in ("stop_reason", "stop_sequence"):
        assert joined[name] == whole[name]
    assert joined["usage"]["output_tokens"] == whole["usage"]["output_tokens"]
    return whole


def fold_completion(events: list[dict[str, Any]], whole: dict[str, Any]) -> dict[str, Any]:
    (choice,) = whole["choices"]
    parts = [part for event in events for part in event["choices"]]
    assert "".join(part["text"] for part in parts) == choice["text"]
    assert [part["finish_reason"] for part in parts if part["finish_reason"]] == [
        choice["finish_reason"]
    ]
    tokens = [token for part in parts if part["logprobs"] for token in part["logprobs"]["tokens"]]
    assert tokens == ((choice["logprobs"] or {}).get("tokens") or [])
    assert events[-1]["usage"] == whole["usage"]
    return whole


FOLDED = {
    "chat": fold_chat,
    "responses": fold_response,
    "messages": fold_message,
    "completions": fold_completion,
}


@pytest.mark.parametrize(
    ("api", "field", "value"),
    [
        ("chat", "n", 2),
        ("responses", "previous_response_id", "resp_1"),
        ("responses", "conversation", "conv_1"),
        ("responses", "background", True),
        ("completions", "n", 2),
        ("completions", "prompt", ["a", "b"]),
        ("completions", "echo", True),
    ],
)
def test_what_one_answer_cannot_honour_is_refused(api: Api, field: str, value: Any) -> None:
    with pytest.raises(ConversationError, match="use the parts"):
        request(api, **{field: value})
