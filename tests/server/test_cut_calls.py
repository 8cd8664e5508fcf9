"""A call that the token limit cut off stays cut, in every API and stream: no client runs it."""

from __future__ import annotations

from typing import Any

import pytest

from support.chat_server import NOW, chat, chunks, joined
from support.responses_server import serving
from support.scripted_engine import ENCODING

HEADER = (
    "<|channel|>analysis<|message|>Hm, hm, hm, hm.<|end|><|start|>assistant"
    "<|channel|>commentary to=functions.now <|constrain|>json<|message|>"
)
TOO_MUCH = "<|call|>"
BODIES = ["", " ", '{"a']


@pytest.mark.parametrize("body", BODIES)
def test_chat(body: str) -> None:
    limit = len(ENCODING.encode(HEADER + body, allowed_special="all"))
    request: dict[str, Any] = {"tools": [NOW], "max_tokens": limit}
    with serving(*[HEADER + body + TOO_MUCH] * 2, grammar=False) as client:
        (choice,) = chat(client, **request)["choices"]
        streamed = joined(chunks(client, **request))
    (call,) = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "now", "arguments": body}
    assert choice["finish_reason"] == "length"
    assert streamed[0]["finish_reason"] == "length"
    assert streamed[0]["message"]["tool_calls"][0]["function"]["arguments"] == body


@pytest.mark.parametrize("body", BODIES)
def test_responses(body: str) -> None:
    limit = len(ENCODING.encode(HEADER + body, allowed_special="all"))
    tool = {"type": "function", "name": "now", "parameters": {"type": "object"}}
    request = {"input": "Hi", "tools": [tool], "max_output_tokens": limit}
    with serving(*[HEADER + body + TOO_MUCH] * 2, grammar=False) as client:
        whole = client.post("/v1/responses", json=request).json()
        text = client.post("/v1/responses", json={**request, "stream": True}).text
    _, item = whole["output"]
    assert whole["status"] == "incomplete"
    assert (item["status"], item["arguments"]) == ("incomplete", body)
    assert '"arguments":"{}"' not in text.replace(" ", "")
