"""Talks to a server by LiteLLM: ``python litellm_client.py URL MODEL``.

Each provider asks once with a tool, sends the result back, and asks the same as a stream. What came
of it is written as one JSON object.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import litellm

HI = {"role": "user", "content": "hi"}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}
# LiteLLM holds back what it does not know that a model can read.
THINKING = {
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "allowed_openai_params": ["thinking"],
}
EFFORT = {"reasoning_effort": "low", "allowed_openai_params": ["reasoning_effort"]}
PROVIDERS = {"anthropic": THINKING, "openai": EFFORT, "hosted_vllm": EFFORT}


def found(choice: Any) -> dict[str, Any]:
    """Return what a program would read."""
    message = choice.message
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    return {
        "text": message.content or "",
        "reasoning": getattr(message, "reasoning_content", None),
        "calls": calls,
        "reason": choice.finish_reason,
    }


def main() -> None:
    url, model = sys.argv[1:]
    answers = {}
    for provider, settings in PROVIDERS.items():
        base = url.removesuffix("/v1") if provider == "anthropic" else url
        ask: dict[str, Any] = {"model": f"{provider}/{model}", "api_base": base, "api_key": "none"}
        ask |= {"max_tokens": 2000, "tools": [NOW], **settings}
        called = litellm.completion(**ask, messages=[HI])
        message = called.choices[0].message
        result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "noon"}
        answered = litellm.completion(**ask, messages=[HI, message.model_dump(), result])
        chunks = list(litellm.completion(**ask, messages=[HI], stream=True))
        streamed = litellm.stream_chunk_builder(chunks)
        answers[provider] = [found(one.choices[0]) for one in (called, answered, streamed)]
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
