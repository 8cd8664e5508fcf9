"""Turn events to a message of Anthropic's API: the events of a stream, and a whole message.

A whole message is what a client makes of the events, so both always say the same::

    message_start, ping
        content_block_start, content_block_delta ..., content_block_stop      for each block
    message_delta, message_stop

A block begins with its first text: the API has no empty blocks of text or reasoning.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from typing_extensions import (
    NotRequired,
    TypedDict,
)  # pydantic needs that of Python 3.12

from ...apis.items import ItemKind, NewId, called_name, item_kind, message_text
from ...apis.messages_input import INVALID_JSON
from ...apis.messages_request import ReasoningDisplay
from ...conversation.messages import Message
from ..generation.events import (
    Ending,
    MessageBegun,
    MessageEnded,
    TextAdded,
    TurnEnded,
    TurnEvent,
    Usage,
)

__all__ = ["PING", "MessageAnswer", "MessageEvent", "MessageEvents", "whole_message"]

PING = {"type": "ping"}

StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"
]
_REASONS: Mapping[Ending, StopReason] = {
    Ending.ANSWER: "end_turn",
    Ending.CALL: "tool_use",
    Ending.STOP_TEXT: "stop_sequence",
    Ending.LIMIT: "max_tokens",
    Ending.CONTEXT: "model_context_window_exceeded",
    Ending.REPETITION: "max_tokens",
}


class OutputDetails(TypedDict):
    """The part of the output that is reasoning."""

    thinking_tokens: int


class MessageUsage(TypedDict):
    """Numbers of tokens; those of the prompt are `input_tokens` and the cached ones together."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: OutputDetails


class MessageAnswer(TypedDict):
    """A message: blocks of the types `text`, `thinking` and `tool_use`."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[dict[str, Any]]
    stop_reason: StopReason | None
    stop_sequence: str | None
    stop_detail: NotRequired[Literal["repetition"]]
    usage: MessageUsage
    schema_violations: NotRequired[list[dict[str, str]]]


class MessageEvent(TypedDict):
    """An event of a stream; the other fields depend on its type."""

    type: Literal[
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "error",
    ]


@dataclass
class _Block:
    """The block of the current message; `pending` is text that may be the whole of it."""

    kind: ItemKind
    begun: MessageBegun
    is_open: bool = False
    pending: str = ""


class MessageEvents:
    """Writes the events of a message; `seal` makes the signature of reasoning."""

    def __init__(
        self,
        model: str,
        prompt_tokens: int,
        *,
        display: ReasoningDisplay,
        seal: Callable[[Message], str],
        new_id: NewId,
    ) -> None:
        self._display = display
        self._seal = seal
        self._new_id = new_id
        self._start: MessageAnswer | None = {
            "id": new_id("msg"),
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(Usage(input_tokens=prompt_tokens)),
        }
        self._blocks = 0  # that have begun
        self._block: _Block | None = None
        self._held: list[Message] = []  # reasoning that is sent only before a call

    def take(self, event: TurnEvent) -> Iterator[dict[str, Any]]:
        """Write the events of an event."""
        if self._start is not None:
            yield {"type": "message_start", "message": self._start}
            yield PING
            self._start = None
        if isinstance(event, MessageBegun):
            yield from self._begin(event)
        elif isinstance(event, TurnEnded):
            yield from self._end(event)
        elif self._block is None:
            raise ValueError(f"{event} does not belong to a message that has begun")
        elif isinstance(event, TextAdded):
            yield from self._add(self._block, event.text)
        else:
            yield from self._close(self._block, event)
            self._block = None

    def _begin(self, event: MessageBegun) -> Iterator[dict[str, Any]]:
        block = self._block = _Block(item_kind(event.channel, event.recipient), event)
        if block.kind.is_call or block.kind is ItemKind.COMMENTARY:
            for thought in self._held:
                yield from self._thinking(thought, message_text(thought))
        if block.kind is not ItemKind.REASONING:
            self._held.clear()
        if block.kind.is_call:
            name, _ = called_name(event.recipient or "")
            call = {"id": self._new_id("toolu"), "name": name, "input": {}}
            yield self._started({"type": "tool_use", **call})

    def _add(self, block: _Block, text: str) -> Iterator[dict[str, Any]]:
        if block.kind.is_call:
            # Clients read the arguments as JSON, and white space alone is none.
            block.pending += text
            if block.pending.strip():
                yield self._delta("input_json_delta", partial_json=block.pending)
                block.pending = ""
        elif block.kind.is_message:
            if not block.is_open:
                block.is_open = True
                yield self._started({"type": "text", "text": ""})
            yield self._delta("text_delta", text=text)
        elif self._display == "shown":
            if not block.is_open:
                block.is_open = True
                yield self._started(_THINKING)
            yield self._delta("thinking_delta", thinking=text)

    def _close(self, block: _Block, event: MessageEnded) -> Iterator[dict[str, Any]]:
        if block.kind is not ItemKind.REASONING:
            if block.is_open or block.kind.is_call:
                yield self._stopped()
        elif block.is_open:
            yield self._delta("signature_delta", signature=self._seal(event.message))
            yield self._stopped()
        elif not message_text(event.message):
            return
        elif self._display == "sealed":
            yield from self._thinking(event.message, "")
        else:
            self._held.append(event.message)

    def _thinking(self, message: Message, text: str) -> Iterator[dict[str, Any]]:
        """Write a whole block of reasoning; without a text, only its signature."""
        yield self._started(_THINKING)
        if text:
            yield self._delta("thinking_delta", thinking=text)
        yield self._delta("signature_delta", signature=self._seal(message))
        yield self._stopped()

    def _end(self, event: TurnEnded) -> Iterator[dict[str, Any]]:
        listed = [violation._asdict() for violation in event.violations]
        delta = {"stop_reason": _REASONS[event.ending], "stop_sequence": event.stop_text}
        if event.ending is Ending.REPETITION:
            delta["stop_detail"] = "repetition"
        yield {
            "type": "message_delta",
            "delta": delta,
            "usage": _usage(event.usage),
            **({"schema_violations": listed} if listed else {}),
        }
        yield {"type": "message_stop"}

    def _started(self, block: dict[str, Any]) -> dict[str, Any]:
        self._blocks += 1
        return {
            "type": "content_block_start",
            "index": self._blocks - 1,
            "content_block": dict(block),
        }

    def _delta(self, kind: str, **fields: str) -> dict[str, Any]:
        delta = {"type": kind, **fields}
        return {"type": "content_block_delta", "index": self._blocks - 1, "delta": delta}

    def _stopped(self) -> dict[str, Any]:
        return {"type": "content_block_stop", "index": self._blocks - 1}


def unanswered(event: TurnEnded) -> TurnEnded:
    """Return the end of a turn that only read the prompt; the engine needs a token to end it."""
    read = Usage(event.usage.input_tokens, event.usage.cached_tokens)
    return TurnEnded(Ending.LIMIT, read, [], [])


_THINKING = {"type": "thinking", "thinking": "", "signature": ""}


def _usage(usage: Usage) -> MessageUsage:
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


def whole_message(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Join the events of a stream to the message that they describe.

    Arguments of a call that are not a JSON object become the only field of its input.
    """
    message: dict[str, Any] = {}
    parts: list[list[str]] = []
    for event in events:
        kind = event["type"]
        if kind == "message_start":
            message = {**event["message"], "content": []}
        elif kind == "content_block_start":
            message["content"].append(event["content_block"])
            parts.append([])
        elif kind == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "signature_delta":
                message["content"][-1]["signature"] = delta["signature"]
            else:
                parts[-1] += [value for name, value in delta.items() if name != "type"]
        elif kind == "message_delta":
            message |= event["delta"]
            message |= {k: v for k, v in event.items() if k not in ("type", "delta")}
    for block, texts in zip(message["content"], parts, strict=True):
        if block["type"] == "tool_use":
            block["input"] = _input("".join(texts))
        else:
            block[block["type"]] = "".join(texts)
    return message


def _input(arguments: str) -> dict[str, Any]:
    try:
        read = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        read = None
    return read if isinstance(read, dict) else {INVALID_JSON: arguments}
