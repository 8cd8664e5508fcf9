"""Turn events to a chat completion: a whole one, and the chunks of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from typing_extensions import (
    NotRequired,
    Required,
    TypedDict,
)  # pydantic needs that of Python 3.12

from ...apis.chat_output import CHAT_JOINT, chat_message_of
from ...apis.custom_tools import CustomToolInput
from ...apis.items import ItemKind, called_name, item_kind
from ...apis.output_items import call_arguments
from ...apis.turn_request import TurnRequest
from ...conversation.messages import Message
from ..generation.events import (
    Ending,
    LogprobJson,
    MessageBegun,
    MessageEnded,
    RepetitionDetail,
    TextAdded,
    TokenLogprob,
    TurnEnded,
    TurnEvent,
    Usage,
    repetition_detail,
)
from ..store import new_id

__all__ = [
    "ChatChoice",
    "ChatCompletion",
    "ChatCompletionChunk",
    "ChatDelta",
    "ChatHead",
    "ChatLogprobs",
    "ChatUsage",
    "ChunkChoice",
    "SampledChoice",
    "chat_logprobs",
    "chat_usage",
    "whole_chunk",
]

ChatFinish: TypeAlias = Literal["stop", "length", "tool_calls"]


class ChatLogprobs(TypedDict):
    """The tokens of the content; a refusal is content here."""

    content: list[LogprobJson]
    refusal: None


class PromptDetails(TypedDict):
    """The part of the prompt that was in the engine's cache."""

    cached_tokens: int


class CompletionDetails(TypedDict):
    """The parts of the completion that are reasoning, and that the grammar forced."""

    reasoning_tokens: int
    forced_tokens: int


class ChatUsage(TypedDict):
    """Numbers of tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails


class ChatHead(TypedDict):
    """The fields that a completion and its chunks begin with."""

    id: str
    created: int
    model: str
    service_tier: None
    system_fingerprint: str


class SchemaViolations(TypedDict, total=False):
    """Violations of keywords that the grammar left out; absent if there are none."""

    schema_violations: list[dict[str, str]]


class ChoiceDetails(SchemaViolations, RepetitionDetail, total=False):
    """What a choice has beside the fields of the API."""


class ChatChoice(ChoiceDetails):
    """A choice: a whole message."""

    index: Required[int]
    message: Required[dict[str, Any]]
    logprobs: Required[ChatLogprobs | None]
    finish_reason: Required[ChatFinish]


class ChatCompletion(ChatHead):
    """A whole completion."""

    object: Literal["chat.completion"]
    choices: list[ChatChoice]
    usage: ChatUsage


class ChunkChoice(ChoiceDetails):
    """The addition of a chunk to a choice."""

    index: Required[int]
    delta: Required[dict[str, Any]]
    logprobs: Required[ChatLogprobs | None]
    finish_reason: Required[ChatFinish | None]


class ChatCompletionChunk(ChatHead):
    """A chunk of a stream. If the request includes `usage`, only the last chunk's is not null."""

    object: Literal["chat.completion.chunk"]
    choices: list[ChunkChoice]
    usage: NotRequired[ChatUsage | None]


_FINISH: Mapping[Ending, ChatFinish] = {
    Ending.ANSWER: "stop",
    Ending.CALL: "tool_calls",
    Ending.STOP_TEXT: "stop",
    Ending.LIMIT: "length",
    Ending.CONTEXT: "length",
    Ending.REPETITION: "length",
}


def chat_logprobs(logprobs: Iterable[TokenLogprob]) -> ChatLogprobs:
    """Write the tokens of a content.

    >>> chat_logprobs([TokenLogprob(b"hi", -0.5, ())])["content"]
    [{'token': 'hi', 'bytes': [104, 105], 'logprob': -0.5, 'top_logprobs': []}]
    """
    return {"content": [logprob.to_json() for logprob in logprobs], "refusal": None}


def chat_usage(choices: Sequence[Usage]) -> ChatUsage:
    """Count the prompt once, because it is the same for all choices, and all completions.

    >>> chat_usage([Usage(10, 4, 5, 2), Usage(10, 10, 6, 3, 1)])["completion_tokens_details"]
    {'reasoning_tokens': 5, 'forced_tokens': 1}
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
            "reasoning_tokens": sum(usage.reasoning_tokens for usage in choices),
            "forced_tokens": sum(usage.forced_tokens for usage in choices),
        },
    }


class SampledChoice:
    """A choice while it is sampled: its chunks, and the whole of it.

    Joined, the deltas of the chunks equal the message of `chat_message_of`. A preamble on
    ``commentary`` and the answer form one content, with an empty line between them: clients of this
    API expect one text and show it while it is written. Without `is_whole`, only the chunks are
    wanted, and what the model wrote is not kept.
    """

    def __init__(self, turn: TurnRequest, index: int = 0, *, is_whole: bool = True) -> None:
        self._turn = turn
        self._index = index
        self._is_whole = is_whole
        self._messages: list[Message] = []
        self._has_logprobs = turn.sampling.logprobs is not None
        self._logprobs: list[TokenLogprob] = []
        self._is_cut = False
        self._end: dict[str, Any] = {"finish_reason": "stop"}
        self._kind = ItemKind.FINAL_ANSWER  # of the current message
        self._call_ids: list[str] = []
        reasoning_names = ("reasoning", "reasoning_content") if turn.shows_reasoning else ()
        self._texts = {True: _Text("content"), False: _Text(*reasoning_names)}
        self._open: _Text | _Call | None = None
        self._has_begun = False

    def take(self, event: TurnEvent) -> None:
        """Read an event."""
        if isinstance(event, MessageBegun):
            custom_tools = self._turn.custom_tools
            self._kind = item_kind(event.channel, event.recipient, custom_tools=custom_tools)
            if self._kind.is_call:
                self._call_ids.append(new_id("call"))
        elif isinstance(event, TextAdded):
            if self._is_whole and self._kind.is_message:
                self._logprobs += event.logprobs
        elif isinstance(event, MessageEnded):
            if self._is_whole:
                self._messages.append(event.message)
                self._is_cut = not event.is_complete
        else:
            listed = [violation._asdict() for violation in event.violations]
            self._end = {
                "finish_reason": _FINISH[event.ending],
                **({"schema_violations": listed} if listed else {}),
                **repetition_detail(event.ending),
            }

    def as_json(self) -> ChatChoice:
        """Write the whole choice; its calls have the ids that they have in the chunks."""
        ids = iter(self._call_ids)
        message = chat_message_of(
            self._messages,
            lambda prefix: next(ids, None) or new_id(prefix),
            custom_tools=self._turn.custom_tools,
            text_tools=self._turn.tool_texts,
            shows_reasoning=self._turn.shows_reasoning,
            is_cut=self._is_cut,
        )
        choice = {
            "index": self._index,
            "message": message,
            "logprobs": chat_logprobs(self._logprobs) if self._has_logprobs else None,
            **self._end,
        }
        return cast("ChatChoice", choice)

    def chunks(self, event: TurnEvent) -> Iterator[ChunkChoice]:
        """Write the chunks of the event that was read last: the role first, the end last."""
        if not self._has_begun:
            self._has_begun = True
            yield self._chunk(ChatDelta({"role": "assistant", "content": ""}))
        delta: ChatDelta | None = None
        if isinstance(event, TurnEnded):
            yield cast("ChunkChoice", {**self._chunk(ChatDelta({})), **self._end})
        elif isinstance(event, MessageBegun):
            if not self._kind.is_call:
                self._open = self._texts[self._kind.is_message]
                self._open.begin()
            else:
                is_text = event.recipient in self._turn.tool_texts
                self._open = call = _Call(len(self._call_ids) - 1, self._kind, is_text=is_text)
                name, _ = called_name(event.recipient or "")
                delta = call.first(self._call_ids[-1], name)
        elif self._open is None:
            raise ValueError(f"{event} does not belong to a message that has begun")
        elif isinstance(event, TextAdded):
            delta = self._open.add(event.text, event.logprobs)
        else:
            delta = self._open.end(is_complete=event.is_complete)
            self._open = None
        if delta is not None:
            yield self._chunk(delta)

    def _chunk(self, delta: ChatDelta) -> ChunkChoice:
        shows_logprobs = self._has_logprobs and bool(delta.fields.get("content"))
        return {
            "index": self._index,
            "delta": delta.fields,
            "logprobs": chat_logprobs(delta.logprobs) if shows_logprobs else None,
            "finish_reason": None,
        }


def whole_chunk(choice: ChatChoice) -> ChunkChoice:
    """Write a whole choice as the only chunk of it."""
    fields: dict[str, Any] = {**choice}
    message = fields.pop("message")
    delta = {name: value for name, value in message.items() if value}
    delta["content"] = message["content"] or ""
    if "tool_calls" in delta:
        delta["tool_calls"] = [{"index": i, **call} for i, call in enumerate(delta["tool_calls"])]
    return cast("ChunkChoice", {**fields, "delta": delta})


class ChatDelta(NamedTuple):
    """The addition of a chunk to the message; `logprobs` are those of its content."""

    fields: dict[str, Any]
    logprobs: tuple[TokenLogprob, ...] = ()


class _Text:
    """A text under one name, several names, or none (hidden); later messages continue it."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self._has_text = False
        self._joint = ""

    def begin(self) -> None:
        self._joint = CHAT_JOINT if self._has_text else ""

    def add(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> ChatDelta | None:
        if not self._names:
            return None
        text, self._joint = self._joint + text, ""
        self._has_text = True
        emitted = logprobs if self._names == ("content",) else ()
        return ChatDelta(dict.fromkeys(self._names, text), emitted)

    def end(self, *, is_complete: bool) -> ChatDelta | None:
        return None


class _Call:
    """One call; its arguments are not empty unless it was cut: clients read them as JSON."""

    def __init__(self, index: int, kind: ItemKind, *, is_text: bool) -> None:
        self._index = index
        is_custom = kind is ItemKind.CUSTOM_TOOL_CALL
        self._input = CustomToolInput(is_text=is_text) if is_custom else None
        self._blank: str | None = ""  # the arguments so far, while they are only white space

    def first(self, id: str, name: str) -> ChatDelta:
        if self._input is None:
            function = {"name": name, "arguments": ""}
            return self._delta({"id": id, "type": "function", "function": function})
        return self._delta({"id": id, "type": "custom", "custom": {"name": name, "input": ""}})

    def add(self, text: str, _: tuple[TokenLogprob, ...]) -> ChatDelta | None:
        if self._input is not None:
            return self._addition(self._input.feed(text))
        if self._blank is not None:
            text = self._blank + text
            self._blank = None if text.strip() else text
            if self._blank is not None:
                return None
        return self._addition(text)

    def end(self, *, is_complete: bool) -> ChatDelta | None:
        if self._input is not None:
            return self._addition(self._input.rest())
        if self._blank is not None:
            return self._addition(call_arguments(self._blank, is_complete=is_complete))
        return None

    def _addition(self, text: str) -> ChatDelta | None:
        if not text:
            return None
        if self._input is None:
            return self._delta({"function": {"arguments": text}})
        return self._delta({"custom": {"input": text}})

    def _delta(self, fields: dict[str, Any]) -> ChatDelta:
        return ChatDelta({"tool_calls": [{"index": self._index, **fields}]})
