"""Ollama's API through Ollama's own client, and its law: the whole is what the lines say."""

from __future__ import annotations

import copy
import functools
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ollama import ChatResponse, Client, GenerateResponse, ResponseError

from gpt_oss_harmony import Message, Role
from gpt_oss_harmony.apis import (
    ItemBegun,
    ItemEnded,
    ItemKind,
    ItemRules,
    TurnReader,
    item_events,
)
from gpt_oss_harmony.apis.chat.request import turn_of_chat
from gpt_oss_harmony.apis.ollama.fold import OllamaFold
from gpt_oss_harmony.apis.ollama.request import OllamaChatRequest, OllamaOptions
from gpt_oss_harmony.apis.ollama.writer import INVALID_ARGUMENTS, OllamaWriter
from gpt_oss_harmony.server import Settings
from support.chat_server import CALL, FINAL, HI, PREAMBLE, THINK, THINK_MORE, TellingEngine
from support.examples import examples
from support.responses_server import serving
from support.scripted_engine import ENCODING, ScriptedEngine
from support.served import serving as served
from support.wrong_requests import places

NAME = "gpt-oss:20b"
TOOL = {
    "type": "function",
    "function": {"name": "now", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture
def engine() -> ScriptedEngine:
    return TellingEngine(*[THINK + PREAMBLE + CALL, THINK + FINAL] * 4)


@pytest.fixture
def client(engine: ScriptedEngine) -> Iterator[Client]:
    with served(engine, Settings(model_names=(NAME,))) as url:
        client = Client(host=url.removesuffix("/v1"))
        yield client
        client._client.close()


def test_a_conversation_with_a_call(client: Client, engine: ScriptedEngine) -> None:
    called = client.chat(NAME, HI, tools=[TOOL])
    assert called.message.thinking == "Hm, hm."
    assert called.message.content == "I look."
    (call,) = called.message.tool_calls or ()
    assert (call.function.name, call.function.arguments) == ("now", {"a": 1})
    assert (called.done, called.done_reason) == (True, "stop")
    texts = (engine.prompts[0], THINK + PREAMBLE + CALL)
    lengths = [len(ENCODING.encode(text, allowed_special="all")) for text in texts]
    assert [called.prompt_eval_count, called.eval_count] == lengths
    result = {"role": "tool", "tool_name": "now", "content": "12:00"}
    answered = client.chat(NAME, [*HI, called.message, result], tools=[TOOL])
    assert answered.message.content == "Hello 🏰 there."
    assert "<|start|>functions.now to=assistant" in engine.prompts[-1]
    assert "<|channel|>analysis<|message|>Hm, hm.<|end|>" in engine.prompts[-1]


def test_a_stream_says_what_the_whole_says(client: Client) -> None:
    whole = client.chat(NAME, HI, tools=[TOOL])
    client.chat(NAME, HI)
    lines = list(client.chat(NAME, HI, tools=[TOOL], stream=True))
    assert "".join(line.message.thinking or "" for line in lines) == whole.message.thinking
    assert "".join(line.message.content or "" for line in lines) == whole.message.content
    calls = [call for line in lines for call in line.message.tool_calls or ()]
    assert calls == whole.message.tool_calls
    assert [line.done for line in lines] == [False] * (len(lines) - 1) + [True]


def test_texts_of_several_messages_are_apart(client: Client, engine: ScriptedEngine) -> None:
    engine.completions = [THINK + THINK_MORE + PREAMBLE + FINAL] * 3
    whole, generated = client.chat(NAME, HI), client.generate(NAME, "hi")
    assert whole.message.thinking == generated.thinking == "Hm, hm.\n\nSo."
    assert whole.message.content == generated.response == "I look.\n\nHello 🏰 there."
    lines = list(client.chat(NAME, HI, stream=True))
    assert "".join(line.message.thinking or "" for line in lines) == whole.message.thinking


def test_generating(client: Client, engine: ScriptedEngine) -> None:
    client.chat(NAME, HI)
    answer = client.generate(NAME, "hi", system="Be brief.", options={"num_predict": 5})
    assert answer.thinking == "Hm,"
    assert engine.samplings[-1].max_tokens == 5
    assert (answer.response, answer.done_reason) == ("", "length")
    assert "Be brief." in engine.prompts[-1]


@pytest.mark.parametrize(
    ("think", "shown", "effort"),
    [(True, True, "medium"), ("high", True, "high"), (False, False, "medium")],
)
def test_thinking(
    client: Client, engine: ScriptedEngine, think: Any, shown: bool, effort: str
) -> None:
    answer = client.chat(NAME, HI, think=think)
    assert bool(answer.message.thinking) is shown
    assert f"Reasoning: {effort}" in engine.prompts[-1]


def test_forms_of_the_answer(client: Client, engine: ScriptedEngine) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    client.chat(NAME, HI, format=schema)
    client.chat(NAME, HI, format="json")
    assert all(sampling.grammar for sampling in engine.samplings)
    assert '{"type":"object","properties":{"a":{"type":"integer"}}}' in engine.prompts[0]


def test_names_and_what_they_can_do(client: Client) -> None:
    assert [model.model for model in client.list().models] == [NAME]
    assert [model.model for model in client.ps().models] == [NAME]
    shown = client.show(NAME)
    assert shown.capabilities == ["completion", "tools", "thinking"]
    assert (shown.modelinfo or {})["gptoss.context_length"] > 0


REFUSED: list[tuple[str, dict[str, Any], int, str]] = [
    ("chat", {"model": "another", "messages": HI}, 404, "is not served here"),
    ("generate", {"model": NAME, "prompt": "<|start|>", "raw": True}, 400, "/v1/completions"),
    ("chat", {"model": NAME, "messages": [{**HI[0], "images": ["aGk="]}]}, 400, "only text"),
    ("chat", {"model": NAME, "messages": [{"role": "tool", "content": "1"}]}, 400, "no call waits"),
    ("chat", {"model": NAME, "messages": HI, "options": {"temperature": 9}}, 400, "temperature"),
    ("chat", {"model": NAME, "messages": HI, "top_logprobs": 3}, 400, "it needs logprobs"),
]


WITH_CALLS = [
    {"role": "system", "content": "Be brief."},
    *HI,
    {"role": "assistant", "thinking": "Hm.", "tool_calls": [
        {"id": "1", "function": {"index": 0, "name": "now", "arguments": {"a": 1}}}
    ]},
    {"role": "tool", "tool_name": "now", "content": "12:00"},
    {"role": "assistant", "content": "Noon."},
    *HI,
]  # fmt: skip


def test_a_field_that_nothing_reads_is_named_wherever_it_stands() -> None:
    body = {"model": NAME, "messages": WITH_CALLS, "tools": [TOOL], "stream": False}
    objects = [
        place
        for place in places(body)
        if isinstance(inside(body, place), dict) and not {"arguments", "parameters"} & {*place}
    ]
    assert len(objects) == len(WITH_CALLS) + 4
    with serving(*[FINAL] * (len(objects) + 1), model_names=(NAME,)) as http:
        assert "harmony-ignored" not in http.post("/api/chat", json=body).headers
        for place in objects:
            sent = copy.deepcopy(body)
            inside(sent, place)["zz"] = 1
            path = "".join("[]" if isinstance(key, int) else f".{key}" for key in (*place, "zz"))
            named = http.post("/api/chat", json=sent).headers["harmony-ignored"]
            assert named == path.removeprefix(".")


def inside(value: Any, place: tuple[Any, ...]) -> Any:
    return functools.reduce(lambda outer, key: outer[key], place, value)


@pytest.mark.parametrize(("kind", "body", "status", "problem"), REFUSED)
def test_errors_are_texts(kind: str, body: dict[str, Any], status: int, problem: str) -> None:
    with serving(FINAL, model_names=(NAME,)) as http:
        answer = http.post(f"/api/{kind}", json={**body, "stream": False})
    assert answer.status_code == status
    assert problem in answer.json()["error"]


WRONG_OPTIONS: list[Any] = [-1e9, -(10**9), 1e9, 10**20, "x", {}, [""], ["a"] * 99]


def test_an_error_about_an_option_names_the_option() -> None:
    with serving(*[FINAL] * 40, model_names=(NAME,)) as http:
        refused = set()
        for option in OllamaOptions.model_fields:
            for value in WRONG_OPTIONS:
                body = {"model": NAME, "messages": HI, "stream": False, "options": {option: value}}
                answer = http.post("/api/chat", json=body)
                if answer.status_code != 200:
                    refused.add(option)
                    named = answer.json()["error"].partition(": ")[0]
                    assert named in (f"options.{option}", f"options.{option}[0]")
    assert refused == OllamaOptions.model_fields.keys()


def test_the_client_raises_them(client: Client) -> None:
    with pytest.raises(ResponseError, match="is not served here") as raised:
        client.chat("another", HI)
    assert raised.value.status_code == 404


def test_an_error_within_a_stream_is_its_last_line() -> None:
    with serving("<|channel|>final<|message|>Hello!", model_names=(NAME,)) as http:
        text = http.post("/api/chat", json={"model": NAME, "messages": HI}).text
    *_, last = text.splitlines()
    assert json.loads(last) == {"error": "the script breaks off"}


@pytest.mark.parametrize("kind", ["chat", "generate"])
def test_keys(kind: str) -> None:
    with serving(FINAL, model_names=(NAME,), api_keys=("secret",)) as http:
        answer = http.post(f"/api/{kind}", json={"model": NAME, "messages": HI, "prompt": "hi"})
    assert answer.status_code == 401


# The law

PIECES = [
    *("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>", "assistant"),
    *("analysis", "commentary", "final", " to=functions.now", '{"a": 1}', "[1]", " ", "word"),
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant",
    "<|channel|>commentary to=functions.now<|message|>",
    "<|start|>assistant<|channel|>final<|message|>",
]


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.booleans())
def test_the_whole_answer_is_what_the_lines_say(text: str, is_chat: bool) -> None:
    asked = OllamaChatRequest(model=NAME, messages=HI, tools=[TOOL]).chat()
    turn = turn_of_chat(asked)
    answers = []
    for streams in (True, False):
        numbers, fold = itertools.count(), OllamaFold()

        def new_id(prefix: str, numbers: Iterator[int] = numbers) -> str:
            return f"{prefix}_{next(numbers)}"

        reader = TurnReader(turn, 7, new_id=new_id, streams=streams)
        writer = OllamaWriter(NAME, now=lambda: 0, is_chat=is_chat)
        tokens = ENCODING.encode(text, allowed_special="all")
        events = [event for token in tokens for event in reader.take(token)]
        events += reader.end()
        for event in events:
            for line in writer.take(event):
                fold.add(line.fields())
        answers.append(fold.whole())
    assert answers[0] == answers[1]
    if not is_chat:
        GenerateResponse.model_validate(answers[0])
        return
    message = ChatResponse.model_validate(answers[0]).message
    begun = [event for event in events if isinstance(event, ItemBegun)]
    whole = {
        event.position for event in events if isinstance(event, ItemEnded) and event.is_complete
    }
    called = [event for event in begun if event.kind.is_call and event.position in whole]
    assert len(message.tool_calls or ()) == len(called)
    places = [call["function"]["index"] for call in answers[0]["message"].get("tool_calls", ())]
    assert places == list(range(len(called)))
    assert message.role == Role.ASSISTANT.value
    assert bool(message.thinking) <= any(event.kind is ItemKind.REASONING for event in begun)
    for call in message.tool_calls or ():
        is_text = INVALID_ARGUMENTS in call.function.arguments
        assert is_text or call.function.arguments in ({}, {"a": 1})


JSON_OBJECTS = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
)


@settings(max_examples=examples(100), deadline=None)
@given(JSON_OBJECTS | st.sampled_from(["[1]", "now", '{"a": ']))
def test_a_call_that_comes_back_is_the_one_that_the_model_wrote(arguments: Any) -> None:
    text = arguments
    if not isinstance(arguments, str):
        text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    call = Message.from_role_and_content(Role.ASSISTANT, text)
    call.with_channel("commentary").with_recipient("functions.now")
    writer, fold = OllamaWriter(NAME, now=lambda: 0), OllamaFold()
    for event in item_events([call], ItemRules(), lambda prefix: prefix):
        for line in writer.take(event):
            fold.add(line.fields())
    messages = [*HI, json.loads(json.dumps(fold.whole()["message"]))]
    asked = OllamaChatRequest(model=NAME, messages=messages, tools=[TOOL]).chat()
    assert turn_of_chat(asked).conversation.messages[-1].text == text


def test_curl_needs_no_content_type() -> None:
    """Ollama's own examples are ``curl URL -d JSON``, which curl calls a form."""
    body = b'{"model": "script", "prompt": "Hi", "stream": false}'
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    with serving(THINK + FINAL) as client:
        answer = client.post("/api/generate", content=body, headers=form)
        assert answer.json()["response"] == "Hello 🏰 there."
        page = {**form, "Origin": "https://example.com"}
        assert client.post("/api/generate", content=body, headers=page).status_code == 403
