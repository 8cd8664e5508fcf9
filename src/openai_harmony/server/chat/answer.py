"""The answers of the Chat Completions API: a whole completion, and the chunks of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

from typing_extensions import TypedDict  # of Python 3.12, which tells pydantic more

from ...engines.engine import FinishReason
from ..turns.events import TokenLogprob, Usage
from .deltas import ChatDelta

__all__ = [
    "ChatCompletion",
    "ChatHead",
    "ChatLogprobs",
    "ChatUsage",
    "ChunkChoice",
    "chat_logprobs",
    "chat_usage",
    "chunk_choice",
    "finish_reason",
]

ChatFinish: TypeAlias = Literal["stop", "length", "tool_calls"]

_LEAST = -9999.0
"""What the API writes for a probability of nothing, which JSON has no logarithm of."""


class TokenJson(TypedDict):
    """A token, its bytes as numbers, and the natural logarithm of its probability."""

    token: str
    bytes: list[int]
    logprob: float


class LogprobJson(TokenJson):
    """A token of the content, and the likeliest in its place."""

    top_logprobs: list[TokenJson]


class ChatLogprobs(TypedDict):
    """Those of the content; refusals are content here."""

    content: list[LogprobJson]
    refusal: None


class PromptDetails(TypedDict):
    """What of the prompt was in the engine's cache."""

    cached_tokens: int


class CompletionDetails(TypedDict):
    """What of the completion was reasoning."""

    reasoning_tokens: int


class ChatUsage(TypedDict):
    """Numbers of tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails


class ChatHead(TypedDict):
    """What a completion and its chunks begin with."""

    id: str
    created: int
    model: str
    service_tier: None
    system_fingerprint: str


class ChatChoice(TypedDict):
    """A choice: a whole message."""

    index: int
    message: dict[str, Any]
    logprobs: ChatLogprobs | None
    finish_reason: ChatFinish


class ChatCompletion(ChatHead):
    """A whole answer."""

    object: Literal["chat.completion"]
    choices: list[ChatChoice]
    usage: ChatUsage


class ChunkChoice(TypedDict):
    """What a chunk adds to a choice."""

    index: int
    delta: dict[str, Any]
    logprobs: ChatLogprobs | None
    finish_reason: ChatFinish | None


def finish_reason(reason: FinishReason, *, has_calls: bool) -> ChatFinish:
    """Say why a choice ended; the limit of tokens may have cut the last call."""
    if reason is FinishReason.LENGTH:
        return "length"
    return "tool_calls" if has_calls else "stop"


def chunk_choice(index: int, delta: ChatDelta, *, has_logprobs: bool) -> ChunkChoice:
    """Write what a chunk adds to a choice."""
    shows = has_logprobs and bool(delta.fields.get("content"))
    return {
        "index": index,
        "delta": delta.fields,
        "logprobs": chat_logprobs(delta.logprobs) if shows else None,
        "finish_reason": None,
    }


def chat_logprobs(logprobs: Iterable[TokenLogprob]) -> ChatLogprobs:
    """Write the tokens of a content.

    >>> chat_logprobs([TokenLogprob(b"hi", -0.5, ())])["content"]
    [{'token': 'hi', 'bytes': [104, 105], 'logprob': -0.5, 'top_logprobs': []}]
    """
    content: list[LogprobJson] = [
        {
            **_token(known.data, known.logprob),
            "top_logprobs": [_token(data, logprob) for data, logprob in known.top],
        }
        for known in logprobs
    ]
    return {"content": content, "refusal": None}


def chat_usage(choices: Sequence[Usage]) -> ChatUsage:
    """Count the prompt once, as it is the same for all choices, and the completions together.

    >>> chat_usage([Usage(10, 4, 5, 2), Usage(10, 10, 6, 3)])["total_tokens"]
    21
    """
    prompt = max((usage.input_tokens for usage in choices), default=0)
    completion = sum(usage.output_tokens for usage in choices)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {
            "cached_tokens": min((usage.cached_tokens for usage in choices), default=0)
        },
        "completion_tokens_details": {
            "reasoning_tokens": sum(usage.reasoning_tokens for usage in choices)
        },
    }


def _token(data: bytes, logprob: float) -> TokenJson:
    text = data.decode("utf-8", errors="replace")
    return {"token": text, "bytes": list(data), "logprob": max(logprob, _LEAST)}
