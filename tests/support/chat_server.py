"""Chat Completions over a scripted engine, and what its answers must look like."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

from fastapi.testclient import TestClient
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from gpt_oss_harmony.engines import SampledToken, Sampling
from support.scripted_engine import ScriptedEngine

HI = [{"role": "user", "content": "hi"}]
NOW = {
    "type": "function",
    "function": {"name": "now", "parameters": {"type": "object", "properties": {}}},
}
CUSTOM = {"type": "custom", "custom": {"name": "run", "description": "Runs code."}}

THINK = "<|channel|>analysis<|message|>Hm, hm.<|end|><|start|>assistant"
THINK_MORE = "<|channel|>analysis<|message|>So.<|end|><|start|>assistant"
PREAMBLE = "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"
CALL = '<|channel|>commentary to=functions.now <|constrain|>json<|message|>{"a": 1}<|call|>'
FINAL = "<|channel|>final<|message|>Hello 🏰 there.<|return|>"


class TellingEngine(ScriptedEngine):
    """Tells log-probabilities, and half of the prompt as cached."""

    async def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        async for sampled in super()._generate(prompt, sampling, max_tokens):
            if sampled.finish_reason is not None:
                sampled = sampled._replace(cached_tokens=len(prompt) // 2)
            if sampling.logprobs is not None:
                top = ((sampled.token, -0.5), (0, float("-inf")))[: sampling.logprobs]
                sampled = sampled._replace(logprob=-0.5, top_logprobs=top)
            yield sampled


def chat(client: TestClient, **body: Any) -> dict[str, Any]:
    """Ask, and check the answer."""
    answer = client.post("/v1/chat/completions", json={"messages": HI, **body})
    assert answer.status_code == 200, answer.text
    completion: dict[str, Any] = answer.json()
    ChatCompletion.model_validate(completion, strict=True)
    return completion


def chunks(client: TestClient, **body: Any) -> list[dict[str, Any]]:
    """Ask for a stream, and check its chunks."""
    answer = client.post("/v1/chat/completions", json={"messages": HI, **body, "stream": True})
    assert answer.status_code == 200, answer.text
    *events, ending, rest = answer.text.split("\n\n")
    assert (ending, rest) == ("data: [DONE]", "")
    found = [json.loads(event.removeprefix("data: ")) for event in events]
    for chunk in found:
        if "error" not in chunk:
            ChatCompletionChunk.model_validate(chunk, strict=True)
    return found


def joined(found: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Join the chunks to choices, as a client does."""
    choices: dict[int, dict[str, Any]] = {}
    for chunk in found:
        for piece in chunk.get("choices", ()):
            choice = choices.setdefault(piece["index"], {"logprobs": None})
            assert "finish_reason" not in choice, "the end came before"
            _join(choice.setdefault("message", {}), piece["delta"])
            if piece["logprobs"] is not None:
                known = choice["logprobs"] or []
                choice["logprobs"] = known + piece["logprobs"]["content"]
            if piece["finish_reason"] is not None:
                choice["finish_reason"] = piece["finish_reason"]
    return choices


def _join(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for name, value in delta.items():
        if name == "tool_calls":
            for piece in value:
                calls = message.setdefault("tool_calls", [])
                if piece["index"] == len(calls):
                    calls.append({})
                _join(calls[piece["index"]], {k: v for k, v in piece.items() if k != "index"})
        elif isinstance(value, dict):
            _join(message.setdefault(name, {}), value)
        else:
            message[name] = message.get(name, "") + value
