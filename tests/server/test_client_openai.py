"""OpenAI's Python SDK over a real socket: the main flows on the demo model, rare ones scripted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest
from openai.types.responses import Response
from pydantic import BaseModel

from gpt_oss_harmony.server import Settings
from support.scripted_engine import ScriptedEngine
from support.served import CHAT_WEATHER, WEATHER, sdk, serving

SUM = "27 + 45 = 72."
REASONING = "27 + 45: ones 7 + 5 = 12, tens 2 + 4 + 1 = 7. So 72."
ASK = {"model": "demo", "temperature": 0}
SUNNY = '{"sunny": true, "temperature": 20}'

START = "<|start|>assistant"
THINK = f"<|channel|>analysis<|message|>Hm.<|end|>{START}"
ANSWER = f"{THINK}<|channel|>final<|message|>Four, of course.<|return|>"
ENDLESS = f"{THINK}<|channel|>final<|message|>One and on and..."


READ = {
    "type": "function",
    "name": "read",
    "description": "Reads a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}


class Shopping(BaseModel):
    items: list[str]


@pytest.fixture(scope="module")
def client(demo_url: str) -> Iterator[Any]:
    with sdk(demo_url) as client:
        yield client


@contextmanager
def scripted(*completions: str, **settings: Any) -> Iterator[Any]:
    """Serve a script to a client."""
    with (
        serving(ScriptedEngine(*completions), Settings(**settings)) as url,
        sdk(url) as client,
    ):
        yield client


# Responses, on the demo model


def test_create(client: Any) -> None:
    response: Response = client.responses.create(**ASK, input="What is 27 + 45?")
    assert response.output_text == SUM
    assert (response.object, response.status, response.model) == ("response", "completed", "demo")
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.output[0].content[0].text == REASONING  # type: ignore[union-attr,index]
    usage = response.usage
    assert usage is not None
    assert 0 < usage.output_tokens_details.reasoning_tokens < usage.output_tokens
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens


def test_stream_helper(client: Any) -> None:
    deltas: dict[str, str] = {}
    with client.responses.stream(**ASK, input="What is 27 + 45?") as stream:
        for event in stream:
            if event.type.endswith(".delta"):
                deltas[event.type] = deltas.get(event.type, "") + event.delta
        final = stream.get_final_response()
    assert deltas == {
        "response.reasoning_text.delta": REASONING,
        "response.output_text.delta": SUM,
    }
    assert final.output_text == SUM
    assert client.responses.retrieve(final.id).output_text == SUM


def test_parse(client: Any) -> None:
    response = client.responses.parse(
        **ASK,
        instructions="You are a helpful shopping assistant",
        input="I need to buy coffee, soda and eggs",
        text_format=Shopping,
    )
    assert response.output_parsed == Shopping(items=["coffee", "soda", "eggs"])


def test_function_calls_and_items_sent_back(client: Any) -> None:
    """The whole of the output goes back as input, as the SDK's own objects."""
    items: list[Any] = [{"role": "user", "content": "What is the weather like in Paris?"}]
    first = client.responses.create(**ASK, input=items, tools=[WEATHER], store=False)
    items += first.output
    (call,) = (item for item in first.output if item.type == "function_call")
    assert (call.name, json.loads(call.arguments)) == (
        "get_current_weather",
        {"location": "Paris"},
    )
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": SUNNY})
    second = client.responses.create(**ASK, input=items, tools=[WEATHER], store=False)
    assert second.output_text == "It is sunny in Paris, 20 degrees."


def test_previous_response_and_encrypted_reasoning(client: Any) -> None:
    sealed = ["reasoning.encrypted_content"]
    first = client.responses.create(**ASK, input="Hello! My name is Anna.", include=sealed)
    assert first.output[0].encrypted_content
    asked = {"role": "user", "content": "What is my name?"}
    second = client.responses.create(**ASK, previous_response_id=first.id, input=[asked])
    assert second.output_text == "Your name is Anna."
    listed = client.responses.input_items.list(second.id).data
    assert [item.content[0].text for item in listed] == ["What is my name?"]
    hello = {"role": "user", "content": "Hello! My name is Anna."}
    stateless = [hello, *first.output, asked]
    count = client.responses.input_tokens.count
    tokens = count(model="demo", input=stateless).input_tokens
    assert tokens == count(model="demo", previous_response_id=first.id, input=[asked]).input_tokens
    assert tokens == second.usage.input_tokens


def test_conversations(client: Any) -> None:
    talk = client.conversations.create(metadata={"topic": "names"})
    assert talk.metadata == {"topic": "names"}
    client.responses.create(**ASK, conversation=talk.id, input="Hello! My name is Anna.")
    again = client.responses.create(**ASK, conversation=talk.id, input="What is my name?")
    assert again.output_text == "Your name is Anna."
    assert again.conversation.id == talk.id
    items = list(client.conversations.items.list(talk.id, order="asc", limit=2))
    assert [item.type for item in items] == ["message", "reasoning", "message"] * 2
    added = client.conversations.items.create(
        talk.id, items=[{"type": "message", "role": "user", "content": "Thanks!"}]
    )
    assert client.conversations.items.retrieve(added.data[0].id, conversation_id=talk.id)
    client.conversations.items.delete(added.data[0].id, conversation_id=talk.id)
    assert client.conversations.update(talk.id, metadata={}).metadata == {}
    assert client.conversations.delete(talk.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(talk.id)


# The SDK opens it as websockets 17 no longer likes.
@pytest.mark.filterwarnings("ignore:connect.. must be used as:DeprecationWarning")
def test_websocket(client: Any) -> None:
    with client.responses.connect() as connection:
        connection.response.create(**ASK, input="Hello! My name is Anna.", store=False)
        (first,) = (one.response for one in connection_events(connection))
        connection.response.create(
            **ASK, input="What is my name?", store=False, previous_response_id=first.id
        )
        (second,) = (one.response for one in connection_events(connection))
    assert second.output_text == "Your name is Anna."


def connection_events(connection: Any) -> list[Any]:
    """Read up to the end of a response; return the last event."""
    for event in connection:
        if event.type == "response.completed":
            return [event]
        assert event.type != "error", event
    return []


# Chat completions, completions and models, on the demo model


def test_chat(client: Any) -> None:
    asked = [{"role": "user", "content": "What is 27 + 45?"}]
    completion = client.chat.completions.create(**ASK, messages=asked, logprobs=True)
    (choice,) = completion.choices
    assert (choice.message.content, choice.finish_reason) == (SUM, "stop")
    assert choice.message.reasoning_content == choice.message.reasoning == REASONING
    assert "".join(entry.token for entry in choice.logprobs.content) == SUM
    assert completion.usage.completion_tokens_details.reasoning_tokens > 20


def test_chat_stream(client: Any) -> None:
    asked = [{"role": "user", "content": "What is 27 + 45?"}]
    options = {"include_usage": True}
    reasoning = ""
    with client.chat.completions.stream(**ASK, messages=asked, stream_options=options) as stream:
        for event in stream:
            if event.type == "chunk" and event.chunk.choices:
                delta = event.chunk.choices[0].delta
                reasoning += getattr(delta, "reasoning_content", None) or ""
        final = stream.get_final_completion()
    assert final.choices[0].message.content == SUM
    assert reasoning == REASONING
    assert final.usage.completion_tokens > 20


def test_chat_parse(client: Any) -> None:
    completion = client.chat.completions.parse(
        **ASK,
        messages=[
            {"role": "system", "content": "You are a helpful shopping assistant"},
            {"role": "user", "content": "I need to buy coffee, soda and eggs"},
        ],
        response_format=Shopping,
    )
    assert completion.choices[0].message.parsed == Shopping(items=["coffee", "soda", "eggs"])


def test_chat_tools(client: Any) -> None:
    messages: list[Any] = [{"role": "user", "content": "What is the weather like in Paris?"}]
    asked = {**ASK, "tools": [CHAT_WEATHER]}
    first = client.chat.completions.create(**asked, messages=messages).choices[0]
    assert first.finish_reason == "tool_calls"
    (call,) = first.message.tool_calls
    assert json.loads(call.function.arguments) == {"location": "Paris"}
    messages += [first.message, {"role": "tool", "tool_call_id": call.id, "content": SUNNY}]
    second = client.chat.completions.create(**asked, messages=messages).choices[0]
    assert second.message.content == "It is sunny in Paris, 20 degrees."


def test_completions_take_text_and_ids(client: Any) -> None:
    prompt = "<|start|>user<|message|>Hello!<|end|><|start|>assistant<|channel|>final<|message|>"
    completion = client.completions.create(**ASK, prompt=prompt, max_tokens=3)
    assert completion.choices[0].text == "Hello! How"
    assert completion.choices[0].finish_reason == "length"
    ids = client.completions.create(**ASK, prompt=[200006, 1428, 200008], max_tokens=1, n=2)
    assert len(ids.choices) == 2


def test_models(client: Any) -> None:
    assert [model.id for model in client.models.list()] == ["demo"]
    assert client.models.retrieve("demo").id == "demo"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("another")


# Rare orders, scripted


def test_retrieve_delete_and_a_stream_taken_up_again() -> None:
    with scripted(ANSWER) as client:
        events = list(client.responses.create(model="script", input="2 + 2?", stream=True))
        id = events[-1].response.id
        assert client.responses.retrieve(id).output_text == "Four, of course."
        again = list(client.responses.retrieve(id, stream=True))
        assert again == events
        later = list(client.responses.retrieve(id, stream=True, starting_after=5))
        assert later == events[6:]
        client.responses.delete(id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(id)


def test_background_and_cancel() -> None:
    with scripted(ANSWER, ENDLESS) as client:
        run = {"model": "script", "input": "2 + 2?", "background": True}
        response = client.responses.create(**run)
        assert response.status in ("queued", "in_progress", "completed")
        *_, last = client.responses.retrieve(response.id, stream=True)
        assert last.response.output_text == "Four, of course."
        with client.responses.create(**run, stream=True) as events:
            id = next(iter(events)).response.id
        assert client.responses.cancel(id).status == "cancelled"
        assert client.responses.retrieve(id).status == "cancelled"


def test_deltas_of_calls() -> None:
    call = "<|channel|>commentary to=functions.get_current_weather <|constrain|>json<|message|>{}"
    with scripted(call.format('{"location":"Rome"}<|call|>')) as client:
        asked = {"model": "script", "input": "Rome?", "tools": [WEATHER]}
        with client.responses.stream(**asked) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
    assert kinds[2] == "response.output_item.added"
    assert kinds[-3:] == [
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [item.type for item in final.output] == ["function_call"]
    assert final.output[0].arguments == '{"location":"Rome"}'


def test_what_agents_send_is_tolerated() -> None:
    """Tools that the server has not, unknown fields, and reasoning replayed without its seal."""
    engine = ScriptedEngine(ANSWER)
    tools: list[Any] = [
        WEATHER,
        {"type": "web_search", "external_web_access": False},
        {"type": "namespace", "name": "files", "description": "Files.", "tools": [READ]},
        {"type": "custom", "name": "patch", "format": {"type": "text"}},
    ]
    items: list[Any] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi!"}]},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "I should look."}],
            "encrypted_content": None,
        },
        {
            "type": "function_call",
            "call_id": "call_1",
            "namespace": "files",
            "name": "read",
            "arguments": '{"path":"a"}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "the text of a"},
    ]
    more = {"client_metadata": {"window": "1"}, "prompt_cache_key": "one", "verbosity": None}
    with serving(engine, Settings(missing_tools="ignore")) as url, sdk(url) as client:
        ask: Any = client.responses.create
        response = ask(model="script", input=items, tools=tools, store=False, extra_body=more)
        assert response.output_text == "Four, of course."
        assert [tool.type for tool in response.tools] == [tool["type"] for tool in tools]
    (prompt,) = engine.prompts
    for part in ("I should look.", '{"path":"a"}', "the text of a", "get_current_weather"):
        assert part in prompt
    assert "web_search" not in prompt


def test_a_failing_engine() -> None:
    with scripted("<|channel|>final<|message|>Fo!", "<|channel|>final<|message|>Fo!") as client:
        asked = {"model": "script", "input": "2 + 2?"}
        with pytest.raises(openai.InternalServerError, match="breaks off") as caught:
            client.responses.create(**asked)
        assert (caught.value.status_code, caught.value.code) == (503, "engine_unavailable")
        *_, last = client.responses.create(**asked, stream=True)
        assert last.type == "response.failed"
        assert "breaks off" in last.response.error.message


ERRORS: list[tuple[type[openai.APIStatusError], dict[str, Any], str | None, str | None]] = [
    (openai.NotFoundError, {"model": "another"}, "model", "model_not_found"),
    (openai.BadRequestError, {"temperature": -1}, "temperature", None),
    (openai.BadRequestError, {"max_output_tokens": 0}, "max_output_tokens", None),
    (openai.BadRequestError, {"input": [{"type": "no such item"}]}, "input[0].type", None),
    (
        openai.BadRequestError,
        {"previous_response_id": "resp_none"},
        "previous_response_id",
        "previous_response_not_found",
    ),
    (
        openai.BadRequestError,
        {"input": [{"type": "function_call_output", "call_id": "no", "output": "x"}]},
        "input[0].call_id",
        None,
    ),
    (
        openai.BadRequestError,
        {"tools": [WEATHER], "tool_choice": {"type": "allowed_tools", "tools": [{"type": []}]}},
        "tool_choice.tools[0].type",
        None,
    ),
    (openai.BadRequestError, {"input": "word " * 2000}, "input", "context_length_exceeded"),
]


def test_errors() -> None:
    with scripted() as client:
        for kind, change, param, code in ERRORS:
            with pytest.raises(openai.APIStatusError) as caught:
                client.responses.create(**{"model": "script", "input": "Hi!", **change})
            error = caught.value
            assert type(error) is kind, error
            assert error.param == param, error
            assert error.code == (code or error.code)
            assert error.type == "invalid_request_error"


def test_keys() -> None:
    with scripted(ANSWER, api_keys=("one", "two")) as client:
        with pytest.raises(openai.AuthenticationError, match="API key"):
            client.responses.create(model="script", input="Hi!")
        mine = client.with_options(api_key="one").responses
        response = mine.create(model="script", input="Hi!")
        assert mine.retrieve(response.id).id == response.id
        with pytest.raises(openai.NotFoundError):
            client.with_options(api_key="two").responses.retrieve(response.id)


def test_a_full_queue() -> None:
    with scripted(ENDLESS, max_running=1, max_waiting=0) as client:
        with client.responses.create(model="script", input="Hi!", stream=True) as events:
            next(iter(events))
            with pytest.raises(openai.RateLimitError) as caught:
                client.responses.create(model="script", input="Hi!")
        assert int(caught.value.response.headers["retry-after"]) >= 1
        assert caught.value.code == "server_busy"
