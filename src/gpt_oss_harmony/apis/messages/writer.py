"""Item events to the events of a message of Anthropic's API.

::

    message_start, ping
        content_block_start, content_block_delta ..., content_block_stop      for each block
    message_delta, message_stop

A block begins with its first text: the API has no empty blocks of text or reasoning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from typing_extensions import (
    NotRequired,
    TypedDict,
)  # pydantic needs that of Python 3.12

from ...conversation.messages import Message
from ..items import (
    Ending,
    ItemBegun,
    ItemEnded,
    ItemEvent,
    ItemKind,
    ItemText,
    NewId,
    TurnEnded,
    Usage,
)
from ..wire_events import PLACEHOLDER, Event, TextEvents, event_of, json_text
from .input import INVALID_JSON
from .request import ReasoningDisplay

PING = event_of({"type": "ping"}, "ping")

StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"
]
_REASONS: Mapping[Ending, StopReason] = {
    Ending.ANSWER: "end_turn",
    Ending.CALL: "tool_use",
    Ending.STOP_TEXT: "stop_sequence",
    Ending.LIMIT: "max_tokens",
    Ending.CONTEXT: "model_context_window_exceeded",
    # Anthropic's API has no word for it; `stop_detail` names it.
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


class TokenCount(TypedDict):
    """The number of tokens of a prompt."""

    input_tokens: int


class MessagesWriter:
    """Writes the events of a message; `seal` makes the signature of reasoning.

    With `reads_only`, the request is for no answer: the engine needs a token to end the turn, and
    nobody sees it.
    """

    def __init__(
        self,
        model: str,
        prompt_tokens: int,
        *,
        display: ReasoningDisplay,
        seal: Callable[[Message], str],
        new_id: NewId,
        reads_only: bool = False,
    ) -> None:
        self._display = display
        self._seal = seal
        self._reads_only = reads_only
        self.id = new_id("msg")
        """The id of the message."""
        self._start: MessageAnswer | None = {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(Usage(input_tokens=prompt_tokens)),
        }
        self._blocks = 0  # that have begun
        self._item: ItemBegun | None = None
        self._texts: TextEvents | None = None  # of the open block
        self._held: list[ItemEnded] = []  # reasoning that is sent only before a call
        self._is_object: bool | None = None  # the arguments, once their first sign is there
        self._unsent: list[str] = []  # arguments that are no object, or not yet

    def take(self, event: ItemEvent) -> Iterator[Event]:
        """Write the events of an event."""
        if self._reads_only:
            if not isinstance(event, TurnEnded):
                return
            read = Usage(event.usage.input_tokens, event.usage.cached_tokens)
            event = TurnEnded(Ending.LIMIT, read)
        if self._start is not None:
            yield _named({"type": "message_start", "message": self._start})
            yield PING
            self._start = None
        if isinstance(event, ItemBegun):
            yield from self._begin(event)
        elif isinstance(event, TurnEnded):
            yield from self._end(event)
        elif self._item is None:
            raise ValueError(f"{event} does not belong to an item that has begun")
        elif isinstance(event, ItemText):
            yield from self._add(self._item.kind, event.text)
        else:
            yield from self._close(self._item.kind, event)
            self._item = self._texts = None

    def _begin(self, begun: ItemBegun) -> Iterator[Event]:
        self._item = begun
        if begun.kind.is_call or begun.kind is ItemKind.COMMENTARY:
            for thought in self._held:
                yield from self._thinking(thought, thought.text)
        if begun.kind is not ItemKind.REASONING:
            # Before an answer, it is not needed: later prompts leave it out.
            self._held.clear()
        if begun.kind.is_call:
            call: dict[str, Any] = {"id": begun.call_id, "name": begun.full_name, "input": {}}
            yield self._open({"type": "tool_use", **call}, "input_json_delta", "partial_json")
            self._is_object, self._unsent = None, []

    def _add(self, kind: ItemKind, text: str) -> Iterator[Event]:
        if kind is ItemKind.REASONING and self._display != "shown":
            return
        if self._texts is None:
            if kind.is_message:
                yield self._open({"type": "text", "text": ""}, "text_delta", "text")
            else:
                yield self._open(_THINKING, "thinking_delta", "thinking")
        assert self._texts is not None
        if kind.is_call and not self._is_object:
            # Clients raise on arguments that are no JSON, such as Python code.
            self._unsent.append(text)
            if self._is_object is None and text.strip():
                self._is_object = text.lstrip().startswith("{")
            if not self._is_object:
                return
            text, self._unsent = "".join(self._unsent), []
        yield self._texts.of(text)

    def _close(self, kind: ItemKind, ended: ItemEnded) -> Iterator[Event]:
        if self._texts is not None:
            if self._is_object is False:
                yield self._texts.of(json_text({INVALID_JSON: "".join(self._unsent)}))
            self._is_object, self._unsent = None, []
            if kind is ItemKind.REASONING:
                yield self._delta("signature_delta", signature=self._seal(ended.message))
            yield self._stopped()
        elif kind is ItemKind.REASONING and ended.text:
            if self._display == "sealed":
                yield from self._thinking(ended, "")
            else:
                self._held.append(ended)

    def _thinking(self, thought: ItemEnded, text: str) -> Iterator[Event]:
        """Write a whole block of reasoning; without a text, only its signature."""
        yield self._open(_THINKING, "thinking_delta", "thinking")
        if text:
            yield self._delta("thinking_delta", thinking=text)
        yield self._delta("signature_delta", signature=self._seal(thought.message))
        yield self._stopped()
        self._texts = None

    def _end(self, event: TurnEnded) -> Iterator[Event]:
        listed = [violation._asdict() for violation in event.violations]
        delta = {"stop_reason": _REASONS[event.ending], "stop_sequence": event.stop_text}
        if event.ending is Ending.REPETITION:
            delta["stop_detail"] = "repetition"
        yield _named(
            {
                "type": "message_delta",
                "delta": delta,
                "usage": _usage(event.usage),
                **({"schema_violations": listed} if listed else {}),
            }
        )
        yield _named({"type": "message_stop"})

    def _open(self, block: dict[str, Any], delta: str, field: str) -> Event:
        """Begin a block, whose texts are in this field of deltas of this type."""
        self._blocks += 1
        added = self._fields(delta, **{field: PLACEHOLDER})
        self._texts = TextEvents(added, added["type"])
        index = self._blocks - 1
        return _named({"type": "content_block_start", "index": index, "content_block": block})

    def _delta(self, kind: str, **fields: str) -> Event:
        return _named(self._fields(kind, **fields))

    def _fields(self, kind: str, **fields: str) -> dict[str, Any]:
        delta = {"type": kind, **fields}
        return {"type": "content_block_delta", "index": self._blocks - 1, "delta": delta}

    def _stopped(self) -> Event:
        return _named({"type": "content_block_stop", "index": self._blocks - 1})


_THINKING = {"type": "thinking", "thinking": "", "signature": ""}


def _named(event: dict[str, Any]) -> Event:
    return event_of(event, event["type"])


def _usage(usage: Usage) -> MessageUsage:
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }
