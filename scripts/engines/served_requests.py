"""Requests that a server of the OpenAI APIs must answer with the demo model, through any engine."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from openai import OpenAI

from support.served import CHAT_WEATHER, PATIENCE

__all__ = ["REQUESTS", "Request"]

Request: TypeAlias = Callable[[OpenAI, Callable[[], int]], None]
"""Gets a client, and a function that returns how many completions the engine is running."""

MODEL = "demo"
SUM: Any = {"model": MODEL, "messages": [{"role": "user", "content": "What is 2 + 2?"}]}
WEATHER: Any = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "What is the weather like in Tokyo?"}],
    "tools": [CHAT_WEATHER],
}
ITEMS = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"type": "string"}}},
    "required": ["items"],
    "additionalProperties": False,
}
SHOPPING: Any = {
    "model": MODEL,
    "messages": [
        {"role": "system", "content": "You are a helpful shopping assistant"},
        {"role": "user", "content": "I need to buy coffee, soda and eggs"},
    ],
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "shopping_list", "schema": ITEMS, "strict": True},
    },
}
ANSWER = "2 + 2 = 4."


def plain(client: OpenAI, _: Callable[[], int]) -> None:
    answer = client.chat.completions.create(**SUM, temperature=0)
    assert answer.choices[0].message.content == ANSWER, answer


def responses(client: OpenAI, _: Callable[[], int]) -> None:
    answer = client.responses.create(model=MODEL, input="What is 2 + 2?", temperature=0)
    assert answer.output_text == ANSWER, answer


def streamed(client: OpenAI, _: Callable[[], int]) -> None:
    events = client.chat.completions.create(**SUM, temperature=0, stream=True)
    deltas = [event.choices[0].delta.content or "" for event in events if event.choices]
    assert "".join(deltas) == ANSWER, deltas
    assert len(list(filter(None, deltas))) > 2, deltas


def tool_required(client: OpenAI, _: Callable[[], int]) -> None:
    answer = client.chat.completions.create(**WEATHER, temperature=0, tool_choice="required")
    (call,) = answer.choices[0].message.tool_calls or []
    assert call.type == "function", call
    assert call.function.name == "get_current_weather", call
    assert json.loads(call.function.arguments) == {"location": "Tokyo"}, call


def json_schema(client: OpenAI, _: Callable[[], int]) -> None:
    answer = client.chat.completions.create(**SHOPPING, temperature=0)
    content = json.loads(answer.choices[0].message.content or "")
    assert content == {"items": ["coffee", "soda", "eggs"]}, content


def log_probabilities(client: OpenAI, _: Callable[[], int]) -> None:
    answer = client.chat.completions.create(**SUM, temperature=0, logprobs=True, top_logprobs=2)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    tokens = logprobs.content or []
    assert "".join(token.token for token in tokens).endswith(ANSWER), tokens
    for token in tokens:
        assert token.logprob <= 0, token
        assert len(token.top_logprobs) == 2, token
        assert math.isclose(token.top_logprobs[0].logprob, token.logprob, abs_tol=1e-3), token


def cancelled(client: OpenAI, running: Callable[[], int]) -> None:
    for seed in range(8):  # the model rambles, but its first token may be the last one, too
        events = client.chat.completions.create(
            **SUM, temperature=2, seed=seed, max_completion_tokens=3000, stream=True
        )
        next(iter(events))
        if running():
            break
    assert running() == 1
    events.close()
    latest = time.monotonic() + PATIENCE / 4
    while running():
        assert time.monotonic() < latest, "the engine goes on without a client"
        time.sleep(0.05)


REQUESTS: dict[str, Request] = {
    "plain": plain,
    "Responses API": responses,
    "streamed": streamed,
    "tool required": tool_required,
    "JSON schema": json_schema,
    "log-probabilities": log_probabilities,
    "cancelled": cancelled,
}
