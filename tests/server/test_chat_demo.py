"""Chat Completions and Completions of a real model, the demo's, over a real socket."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from gpt_oss_harmony import load_harmony_encoding
from support.served import CHAT_WEATHER, sdk

ENCODING = load_harmony_encoding("HarmonyGptOss")
WEATHER: Any = CHAT_WEATHER
ASKED: Any = [{"role": "user", "content": "What is the weather like in Tokyo?"}]
SUM: Any = [{"role": "user", "content": "What is 2 + 2?"}]


@pytest.mark.slow
def test_a_stream_says_what_the_whole_answer_says(demo_url: str) -> None:
    options: dict[str, Any] = {"model": "demo", "messages": SUM, "temperature": 0, "logprobs": True}
    with sdk(demo_url) as client:
        whole = client.chat.completions.create(**options)
        text, reasoning = "", ""
        tokens: list[Any] = []
        with client.chat.completions.create(
            **options, stream=True, stream_options={"include_usage": True}
        ) as stream:
            for chunk in stream:
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    reasoning += (choice.delta.model_extra or {}).get("reasoning_content") or ""
                    if choice.logprobs is not None:
                        tokens += choice.logprobs.content or []
                usage = chunk.usage
    message = whole.choices[0].message
    assert text == message.content
    assert text
    assert reasoning == (message.model_extra or {})["reasoning"]
    assert "".join(token.token for token in tokens) == text
    assert all(token.logprob <= 0 for token in tokens)
    assert usage == whole.usage


def test_a_tool_is_called_and_its_result_read(demo_url: str) -> None:
    with sdk(demo_url) as client:
        first = client.chat.completions.create(
            model="demo", messages=ASKED, tools=[WEATHER], tool_choice="required", temperature=0
        )
        assert first.choices[0].finish_reason == "tool_calls"
        said: Any = first.choices[0].message
        (call,) = said.tool_calls
        assert "location" in json.loads(call.function.arguments)
        result: Any = {"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 21}'}
        second = client.chat.completions.create(
            model="demo",
            messages=[*ASKED, said, result],
            tools=[WEATHER],
            tool_choice="none",
            temperature=0,
            max_tokens=200,
        )
    assert second.choices[0].message.tool_calls is None


def test_a_schema_is_kept_even_at_random(demo_url: str) -> None:
    class Weather(BaseModel):
        city: Annotated[str, Field(max_length=20)]  # this model would never end a longer one
        degrees: Annotated[int, Field(ge=-50, le=50)]

    with sdk(demo_url) as client:
        answer = client.chat.completions.parse(
            model="demo", messages=ASKED, response_format=Weather, temperature=1, n=3, seed=1
        )
    assert len(answer.choices) == 3
    for choice in answer.choices:
        assert choice.finish_reason == "stop"
        assert isinstance(choice.message.parsed, Weather)


@pytest.mark.parametrize("n", [1, 3])
def test_seeds_give_the_same_choices(demo_url: str, n: int) -> None:
    with sdk(demo_url) as client:
        answers = [
            client.chat.completions.create(
                model="demo", messages=SUM, seed=7, n=n, temperature=2, max_tokens=20
            )
            for _ in range(2)
        ]
    one, two = ([choice.message for choice in answer.choices] for answer in answers)
    assert one == two


def test_a_completion_is_what_the_chat_would_be(demo_url: str) -> None:
    with sdk(demo_url) as client:
        rendered: Any = client.post(
            "/tokens/render",
            body={"messages": SUM},
            cast_to=object,
        )
        raw = client.completions.create(
            model="demo",
            prompt=rendered["tokens"],
            temperature=0,
            extra_body={"skip_special_tokens": False, "return_token_ids": True},
        )
        parsed: Any = client.post(
            "/tokens/parse", body={"text": raw.choices[0].text}, cast_to=object
        )
        chat = client.chat.completions.create(model="demo", messages=SUM, temperature=0)
    texts = {one["channel"]: one["content"][0]["text"] for one in parsed["messages"]}
    assert texts["final"] == chat.choices[0].message.content
    ids = (raw.choices[0].model_extra or {})["token_ids"]
    assert ENCODING.decode(ids) == raw.choices[0].text
