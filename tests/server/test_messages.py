"""Anthropic's Messages: whole answers and streams say the same, in the shapes of its SDK."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from anthropic.types import Message, MessageTokensCount, ModelInfo, RawMessageStreamEvent
from anthropic.types.shared import ErrorResponse
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from gpt_oss_harmony import Conversation
from gpt_oss_harmony.apis import INVALID_JSON, TurnRequest, items_of_messages
from gpt_oss_harmony.apis.chat.fold import ChatFold
from gpt_oss_harmony.apis.chat.writer import ChatWriter
from gpt_oss_harmony.apis.items import ItemEnded, ItemEvent
from gpt_oss_harmony.apis.messages.fold import MessagesFold
from gpt_oss_harmony.apis.messages.writer import MessagesWriter
from gpt_oss_harmony.apis.reader import TurnReader
from gpt_oss_harmony.engines import FinishReason, SampledToken
from support.chat_server import CALL, FINAL, HI, PREAMBLE, THINK, THINK_MORE, TellingEngine
from support.examples import examples
from support.responses_server import serving
from support.scripted_engine import ENCODING, ScriptedEngine

EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
NOW = {"name": "now", "input_schema": {"type": "object", "properties": {}}}
SHOWN = {"type": "adaptive"}
VERSION = {"anthropic-version": "2023-06-01"}


def create(client: TestClient, **body: Any) -> dict[str, Any]:
    """Ask, and check the message."""
    answer = client.post("/v1/messages", json={"messages": HI, "tools": [NOW], **body})
    assert answer.status_code == 200, answer.text
    message: dict[str, Any] = answer.json()
    Message.model_validate(message, strict=True)
    return message


def stream(client: TestClient, **body: Any) -> list[dict[str, Any]]:
    """Ask for a stream, and check its events and their order."""
    body = {"messages": HI, "tools": [NOW], **body, "stream": True}
    answer = client.post("/v1/messages", json=body)
    assert answer.status_code == 200, answer.text
    return checked_events(answer.text)


def whole_message(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    fold = MessagesFold()
    for event in events:
        fold.add(event)
    return fold.whole()


def checked_events(text: str) -> list[dict[str, Any]]:
    *blocks, rest = text.split("\n\n")
    assert rest == ""
    events = []
    for block in blocks:
        head, _, data = block.partition("\ndata: ")
        event = json.loads(data)
        assert head == f"event: {event['type']}"
        if event["type"] not in ("ping", "error"):
            EVENT.validate_python(event)
        events.append(event)
    return events


def check_order(events: Sequence[dict[str, Any]]) -> None:
    """Blocks come one after the other between the start and the end."""
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["message_start", "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    open_block, blocks = None, 0
    for event in events[2:-2]:
        if event["type"] == "content_block_start":
            assert open_block is None
            assert event["index"] == blocks
            open_block, blocks = blocks, blocks + 1
        else:
            assert event["index"] == open_block
            if event["type"] == "content_block_stop":
                open_block = None
    assert open_block is None


def seen(message: dict[str, Any]) -> list[tuple[str, ...]]:
    """The blocks, without ids and signatures."""
    blocks: list[tuple[str, ...]] = []
    for block in message["content"]:
        if block["type"] == "tool_use":
            assert block["id"].startswith("toolu_")
            blocks.append(("tool_use", block["name"], json.dumps(block["input"])))
        else:
            assert block["type"] != "thinking" or block["signature"]
            assert block["type"] != "text" or set(block) == {"type", "text"}  # the AI SDK's schema
            blocks.append((block["type"], block[block["type"]]))
    return blocks


TEXT = ("text", "Hello 🏰 there.")
USE = ("tool_use", "now", '{"a": 1}')
THOUGHT = ("thinking", "Hm, hm.")

ANSWERS: dict[str, tuple[str, list[tuple[str, ...]], list[tuple[str, ...]], str]] = {
    "answer": (FINAL, [TEXT], [TEXT], "end_turn"),
    "reasoning": (THINK + FINAL, [THOUGHT, TEXT], [TEXT], "end_turn"),
    "reasoning twice": (
        THINK + THINK_MORE + FINAL, [THOUGHT, ("thinking", "So."), TEXT], [TEXT], "end_turn"),
    "call": (THINK + CALL, [THOUGHT, USE], [THOUGHT, USE], "tool_use"),
    "preamble and call": (
        THINK + PREAMBLE + CALL,
        [THOUGHT, ("text", "I look."), USE], [THOUGHT, ("text", "I look."), USE], "tool_use"),
    "call without arguments": (
        CALL.replace('{"a": 1}', " "), [("tool_use", "now", "{}")], [("tool_use", "now", "{}")],
        "tool_use"),
    "call without JSON": (
        CALL.replace('{"a": 1}', '{"a'),
        [("tool_use", "now", json.dumps({INVALID_JSON: '{"a'}))],
        [("tool_use", "now", json.dumps({INVALID_JSON: '{"a'}))], "tool_use"),
    "call with code": (
        CALL.replace('{"a": 1}', " print({1})"),
        [("tool_use", "now", json.dumps({INVALID_JSON: " print({1})"}))],
        [("tool_use", "now", json.dumps({INVALID_JSON: " print({1})"}))], "tool_use"),
    "call of a tool that nobody declared": (
        "<|channel|>commentary to=browser.open<|message|>{}<|call|>",
        [("tool_use", "browser.open", "{}")], [("tool_use", "browser.open", "{}")], "tool_use"),
    "no markup": ("Hello.<|return|>", [("text", "Hello.")], [("text", "Hello.")], "end_turn"),
    "nothing": ("<|return|>", [], [], "end_turn"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown", "default", "reason"), ANSWERS.values(), ids=ANSWERS
)  # fmt: skip
def test_answers(
    text: str, shown: list[tuple[str, ...]], default: list[tuple[str, ...]], reason: str
) -> None:
    with serving(*[text] * 4) as client:
        for blocks, fields in ((shown, {"thinking": SHOWN}), (default, {})):
            message = create(client, **fields)
            events = stream(client, **fields)
            check_order(events)
            streamed = whole_message(events)
            for found in (message, streamed):
                assert seen(found) == blocks
                assert (found["stop_reason"], found["stop_sequence"]) == (reason, None)
                tokens = len(ENCODING.encode(text, allowed_special="all"))
                assert found["usage"]["output_tokens"] == tokens
                assert found["model"] == "script"


@pytest.mark.parametrize("arguments", ["print(1)", " \n[{}]", '"{"', " ", '{"a": [1]}'])
def test_streamed_arguments_are_always_an_object(arguments: str) -> None:
    """Anthropic's client raises on others, and the whole answer is lost."""
    with serving(CALL.replace('{"a": 1}', arguments)) as client:
        events = stream(client)
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    written = "".join(delta["partial_json"] for delta in deltas)
    assert isinstance(json.loads(written or "{}"), dict)


def test_omitted_reasoning_is_only_a_signature() -> None:
    with serving(THINK + FINAL) as client:
        message = create(client, thinking={"type": "adaptive", "display": "omitted"})
    assert seen(message) == [("thinking", ""), TEXT]


STOPS: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "a stop sequence": ({"stop_sequences": ["x", " the"]}, "stop_sequence", " the"),
    "the limit": ({"max_tokens": 4}, "max_tokens", None),
    "the context": ({}, "model_context_window_exceeded", None),
}


@pytest.mark.parametrize(("fields", "reason", "sequence"), STOPS.values(), ids=STOPS)
def test_stop_reasons(fields: dict[str, Any], reason: str, sequence: str | None) -> None:
    text = FINAL if fields else FINAL.replace("<|return|>", " and on" * 1000)
    with serving(text, repetition=None) as client:
        message = create(client, **fields)
    assert (message["stop_reason"], message["stop_sequence"]) == (reason, sequence)


def test_usage_counts_cached_tokens_once() -> None:
    with serving(engine=TellingEngine(THINK + FINAL, THINK + FINAL)) as client:
        message = create(client)
        events = stream(client)
        counted = client.post("/v1/messages/count_tokens", json={"messages": HI, "tools": [NOW]})
    MessageTokensCount.model_validate(counted.json(), strict=True)
    prompt = counted.json()["input_tokens"]
    usage = message["usage"]
    assert usage["cache_read_input_tokens"] == prompt // 2
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == prompt
    assert usage["output_tokens_details"] == {"thinking_tokens": 8}
    assert events[-2]["usage"] == usage
    assert events[0]["message"]["usage"]["input_tokens"] == prompt


def test_history_keeps_the_tokens_of_reasoning() -> None:
    called = THINK + CALL.replace('{"a": 1}', '{"a":1}')
    engine = TellingEngine(called, FINAL)
    with serving(engine=engine) as client:
        message = create(client)
        use = message["content"][-1]
        told = {"type": "tool_result", "tool_use_id": use["id"], "content": "noon"}
        history = [
            *HI,
            {"role": "assistant", "content": message["content"]},
            {"role": "user", "content": [told]},
        ]
        create(client, messages=history)
    first, second = engine.prompts
    assert second == (
        f"{first}{called}<|start|>functions.now to=assistant<|channel|>commentary<|message|>noon"
        "<|end|><|start|>assistant"
    )


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_a_limit_of_nothing_only_reads_the_prompt(*, is_streamed: bool) -> None:
    engine = ScriptedEngine(FINAL)
    with serving(engine=engine) as client:
        body = {"messages": HI, "max_tokens": 0, "stream": is_streamed}
        answer = client.post("/v1/messages", json=body)
    assert len(engine.prompts) == 1
    if is_streamed:
        types = [line for line in answer.text.splitlines() if line.startswith("event: ")]
        assert types == [
            f"event: {name}" for name in ("message_start", "ping", "message_delta", "message_stop")
        ]
    else:
        message = answer.json()
        assert (message["content"], message["stop_reason"]) == ([], "max_tokens")
        assert message["usage"]["output_tokens"] == 0
        assert message["usage"]["input_tokens"] > 0


ERRORS: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "a wrong field": ({"max_tokens": -1}, 400, "invalid_request_error", "max_tokens: "),
    "a wrong message": ({"messages": [{"role": "x"}]}, 400, "invalid_request_error",
                        "messages[0].role: expected one of user, assistant, system"),
    "another model": ({"model": "claude"}, 404, "not_found_error",
                      "model: the model 'claude' is not served here; use script"),
    "a long prompt": ({"messages": [{"role": "user", "content": "a b " * 1000}]}, 400,
                      "invalid_request_error", "messages: This model's maximum context length"),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "status", "kind", "problem"), ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_errors(
    fields: dict[str, Any], status: int, kind: str, problem: str, *, is_streamed: bool
) -> None:
    with serving() as client:
        body = {"messages": HI, "stream": is_streamed, **fields}
        answer = client.post("/v1/messages", json=body)
    error = check_error(answer, status, kind)
    assert error["message"].startswith(problem)


def check_error(answer: Any, status: int, kind: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    if kind != "request_too_large":  # the documentation has it, the SDK's types do not
        ErrorResponse.model_validate(answer.json(), strict=True)
    body = answer.json()
    assert body["request_id"] == answer.headers["request-id"]
    error: dict[str, Any] = body["error"]
    assert error["type"] == kind
    return error


def test_errors_before_the_route() -> None:
    with serving(max_request_bytes=100) as client:
        large = client.post("/v1/messages", json={"messages": HI * 100})
        missing = client.get("/v1/nothing", headers=VERSION)
        broken = client.post(
            "/v1/messages", content="{", headers={"content-type": "application/json"}
        )
        other = client.get("/v1/nothing")
    check_error(large, 413, "request_too_large")
    check_error(missing, 404, "not_found_error")
    check_error(broken, 400, "invalid_request_error")
    assert "type" not in other.json()


def test_an_error_within_a_stream_is_its_last_event() -> None:
    with serving("<|channel|>final<|message|>Hello!") as client:
        events = stream(client)
    assert events[-1]["type"] == "error"
    assert events[-1]["error"] == {"type": "overloaded_error", "message": "the script breaks off"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"x-api-key": "wrong"}, 401),
        ({"x-api-key": "secret"}, 200),
        ({"authorization": "Bearer secret"}, 200),
        ({"authorization": "Bearer secret", "x-api-key": "sk-ant"}, 200),
    ],
    ids=["none", "wrong", "x-api-key", "authorization", "both"],
)
def test_keys(headers: dict[str, str], status: int) -> None:
    with serving(FINAL, api_keys=("secret",)) as client:
        answer = client.post("/v1/messages", json={"messages": HI}, headers=headers)
    if status == 200:
        assert answer.status_code == 200
    else:
        check_error(answer, 401, "authentication_error")


def test_models() -> None:
    with serving(model_names=("a/b", "c")) as client:
        page = client.get("/v1/models", headers=VERSION).json()
        one = client.get("/v1/models/a/b", headers=VERSION).json()
        others = client.get("/v1/models").json()
    for model in (*page["data"], one):
        ModelInfo.model_validate(model)
    assert page["data"][0] == one
    assert (page["first_id"], page["last_id"], page["has_more"]) == ("a/b", "c", False)
    assert [model["object"] for model in others["data"]] == ["model", "model"]


def test_documents_are_read_from_the_files_of_the_key() -> None:
    document = {"type": "document", "title": "a", "source": {"type": "file", "file_id": "file_1"}}
    with serving() as client:
        body = {"messages": [{"role": "user", "content": [document]}]}
        answer = client.post("/v1/messages", json=body)
    error = check_error(answer, 400, "invalid_request_error")
    assert "messages[0].content[0].file.file_id" in error["message"]


# The law: the same tokens become the same text, calls and reasoning in all three APIs

BODIES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
OBJECTS = st.dictionaries(BODIES, BODIES | st.integers(), max_size=2).map(json.dumps)


def message(header: str, body: str, stop: str = "<|end|><|start|>assistant") -> str:
    return f"<|channel|>{header}<|message|>{body}{stop}"


OPENINGS = st.lists(
    st.builds(message, st.sampled_from(["analysis", "commentary"]), BODIES), max_size=3
).map("".join)
ENDINGS = st.builds(message, st.just("final"), BODIES, st.just("<|return|>")) | st.builds(
    message,
    st.just("commentary to=functions.now <|constrain|>json"),
    OBJECTS,
    st.just("<|call|>"),
)


def events_of(turn: TurnRequest, sampled: str) -> list[ItemEvent]:
    tokens = ENCODING.encode(sampled, allowed_special="all")
    reader = TurnReader(turn, 0, new_id=lambda _: "toolu_1")
    events: list[ItemEvent] = []
    for token in tokens[:-1]:
        events += reader.take(SampledToken(token))
    events += reader.take(SampledToken(tokens[-1], finish_reason=FinishReason.STOP))
    return events


@settings(max_examples=examples(200), deadline=None)
@given(OPENINGS, ENDINGS)
def test_three_apis_say_the_same(opening: str, ending: str) -> None:
    turn = TurnRequest(Conversation.from_messages([]))
    events = events_of(turn, opening + ending)
    chat_writer, chat_fold = ChatWriter({}), ChatFold()
    writer = MessagesWriter("m", 0, display="shown", seal=repr, new_id=lambda _: "msg_1")
    written: list[dict[str, Any]] = []
    for event in events:
        for chunk in chat_writer.take(event):
            chat_fold.add(chunk.fields())
        written += [each.fields() for each in writer.take(event)]
    check_order(written)
    blocks = whole_message(written)["content"]
    ended = [event.message for event in events if isinstance(event, ItemEnded)]
    items = [item.item for item in items_of_messages(ended, str)]
    chat = chat_fold.whole()["choices"][0]["message"]

    def of_blocks(kind: str) -> list[str]:
        return [block[kind] for block in blocks if block["type"] == kind]

    def of_items(kind: str) -> list[str]:
        contents = [item["content"] for item in items if item["type"] == kind]
        return [part["text"] for content in contents for part in content if part["text"]]

    assert of_blocks("text") == of_items("message")
    assert of_blocks("thinking") == of_items("reasoning")
    assert "\n\n".join(of_blocks("text")) == (chat["content"] or "")
    assert "\n\n".join(of_blocks("thinking")) == (chat["reasoning"] or "")
    calls = [(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]
    assert calls == [
        (item["name"], json.loads(item["arguments"]))
        for item in items
        if item["type"] == "function_call"
    ]
    assert calls == [
        (call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in chat.get("tool_calls", ())
    ]
