"""Anthropic's SDKs over a real socket: the main flows on the demo model, others scripted."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import pytest
from pydantic import BaseModel

from gpt_oss_harmony.server import Settings
from support.chat_server import CALL, FINAL, THINK
from support.scripted_engine import ScriptedEngine
from support.served import PATIENCE, PROGRAM_PATIENCE, WEATHER_PARAMETERS, serving

NODE_FOLDER = Path(__file__).parents[1] / "clients" / "agents"

ASK: dict[str, Any] = {"model": "demo", "max_tokens": 400, "extra_body": {"temperature": 0}}
SUM = "27 + 45 = 72."
REASONING = "27 + 45: ones 7 + 5 = 12, tens 2 + 4 + 1 = 7. So 72."
QUESTION = {"role": "user", "content": "What is 27 + 45?"}
WEATHER = {
    "name": "get_current_weather",
    "description": "Gets the current weather in the provided location.",
    "input_schema": WEATHER_PARAMETERS,
}
SHOWN = {"type": "adaptive"}


@contextmanager
def sdk(url: str, key: str = "none") -> Iterator[anthropic.Anthropic]:
    """Connect a client that does not try again; it adds ``/v1`` itself."""
    root = url.removesuffix("/v1")
    with anthropic.Anthropic(base_url=root, api_key=key, max_retries=0, timeout=PATIENCE) as client:
        yield client


@pytest.fixture(scope="module")
def client(demo_url: str) -> Iterator[Any]:
    with sdk(demo_url) as client:
        yield client


@contextmanager
def scripted(*completions: str, **settings: Any) -> Iterator[Any]:
    with serving(ScriptedEngine(*completions), Settings(**settings)) as url, sdk(url) as client:
        yield client


def test_create(client: Any) -> None:
    message = client.messages.create(**ASK, messages=[QUESTION], thinking=SHOWN)
    thought, answer = message.content
    assert (thought.type, thought.thinking) == ("thinking", REASONING)
    assert (answer.type, answer.text) == ("text", SUM)
    assert (message.stop_reason, message.model) == ("end_turn", "demo")
    assert 0 < message.usage.output_tokens_details.thinking_tokens < message.usage.output_tokens
    plain = client.messages.create(**ASK, messages=[QUESTION])
    assert [block.text for block in plain.content] == [SUM]
    assert plain._request_id.startswith("req_")


def test_stream(client: Any) -> None:
    with client.messages.stream(**ASK, messages=[QUESTION], thinking=SHOWN) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert text == SUM
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.content[0].thinking == REASONING
    assert message.content[0].signature


def test_tools(client: Any) -> None:
    question = {"role": "user", "content": "What is the weather like in Tokyo?"}
    asked = {**ASK, "tools": [WEATHER], "tool_choice": {"type": "any"}}
    message = client.messages.create(**asked, messages=[question])
    use = message.content[-1]
    assert (use.type, use.name, message.stop_reason) == (
        "tool_use",
        "get_current_weather",
        "tool_use",
    )
    assert "Tokyo" in use.input["location"]
    told = {
        "type": "tool_result",
        "tool_use_id": use.id,
        "content": '{"sunny": true, "temperature": 20}',
    }
    history = [
        question,
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": [told]},
    ]
    answer = client.messages.create(**ASK, tools=[WEATHER], messages=history)
    assert "20" in answer.content[-1].text
    with client.messages.stream(**asked, messages=[question]) as stream:
        streamed = stream.get_final_message()
    assert streamed.content[-1].input == use.input


class Sum(BaseModel):
    sum: int


def test_structured_outputs() -> None:
    with scripted('<|channel|>final<|message|>{"sum": 72}<|return|>') as client:
        message = client.messages.parse(
            model="script", max_tokens=100, messages=[QUESTION], output_format=Sum
        )
    assert message.parsed_output == Sum(sum=72)


def test_a_call_is_streamed_by_pieces() -> None:
    tool = {"name": "now", "input_schema": {"type": "object"}}
    with (
        scripted(THINK + CALL) as client,
        client.messages.stream(
            model="script", max_tokens=100, messages=[QUESTION], tools=[tool]
        ) as stream,
    ):
        pieces = [event.partial_json for event in stream if event.type == "input_json"]
        message = stream.get_final_message()
    assert "".join(pieces) == '{"a": 1}'
    assert message.content[-1].input == {"a": 1}


def test_count_tokens_and_models(client: Any) -> None:
    counted = client.messages.count_tokens(model="demo", messages=[QUESTION])
    message = client.messages.create(**ASK, messages=[QUESTION])
    usage = message.usage
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens
    (model,) = client.models.list()
    assert (model.id, model.type) == ("demo", "model")
    assert client.models.retrieve("demo").max_input_tokens == model.max_input_tokens


ERRORS: dict[str, tuple[type[anthropic.APIStatusError], dict[str, Any], str]] = {
    "a key": (anthropic.AuthenticationError, {}, "the API key is unknown"),
    "a model": (anthropic.NotFoundError, {"model": "claude"}, "the model 'claude' is not"),
    "a field": (
        anthropic.BadRequestError,
        {"max_tokens": -1},
        "max_tokens: expected a number from",
    ),
}


@pytest.mark.parametrize(("kind", "fields", "problem"), ERRORS.values(), ids=ERRORS)
def test_errors(kind: type[anthropic.APIStatusError], fields: dict[str, Any], problem: str) -> None:
    key = "right" if fields else "wrong"
    with (
        serving(ScriptedEngine(FINAL), Settings(api_keys=("right",))) as url,
        sdk(url, key) as client,
        pytest.raises(kind, match=problem),
    ):
        client.messages.create(
            **{"model": "script", "max_tokens": 9, "messages": [QUESTION], **fields}
        )


def test_an_error_within_a_stream() -> None:
    with (
        scripted("<|channel|>final<|message|>Hello!") as client,
        pytest.raises(anthropic.APIStatusError, match="breaks off"),
        client.messages.stream(model="script", max_tokens=9, messages=[QUESTION]) as stream,
    ):
        stream.until_done()


@pytest.mark.slow
def test_the_typescript_sdk() -> None:
    node = shutil.which("node")
    if node is None or not (NODE_FOLDER / "node_modules" / ".installed").exists():
        pytest.skip("node or the SDK is missing; run: make coding-agents")
    with serving(ScriptedEngine(*[THINK + CALL] * 2)) as url:
        done = subprocess.run(
            [node, "anthropic.mjs", url.removesuffix("/v1"), "script"],
            cwd=NODE_FOLDER,
            capture_output=True,
            text=True,
            timeout=PROGRAM_PATIENCE,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    for blocks in (found["whole"], found["streamed"]):
        thought, use = blocks
        assert (thought["type"], thought["thinking"]) == ("thinking", "Hm, hm.")
        assert thought["signature"]
        assert (use["type"], use["name"], use["input"]) == ("tool_use", "now", {"a": 1})
    assert found["reasons"] == ["tool_use", "tool_use"]
    assert (found["models"], found["error"]) == (["script"], "NotFoundError")
