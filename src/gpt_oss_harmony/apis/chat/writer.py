"""Item events to the chunks of a chat completion, of one choice or several.

Joined by `ChatFold`, the chunks are the whole completion. A preamble on ``commentary`` and the
answer form one content, with an empty line between them: clients of this API expect one text and
show it while it is written. Clients read reasoning under one of two names, so it has both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from typing_extensions import (
    NotRequired,
    Required,
    TypedDict,
)  # pydantic needs that of Python 3.12

from ..items import (
    Ending,
    ItemBegun,
    ItemEvent,
    ItemKind,
    ItemText,
    LogprobJson,
    RepetitionDetail,
    TokenLogprob,
    TurnEnded,
    Usage,
    repetition_detail,
)
from ..wire_events import PLACEHOLDER, Event, TextEvents, event_of

CHAT_JOINT = "\n\n"
"""The separator between several texts of a turn, and between several pieces of reasoning."""

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


def chat_logprobs(logprobs: Iterable[TokenLogprob]) -> ChatLogprobs:
    """Write the tokens of a content.

    >>> chat_logprobs([TokenLogprob(3686, b"hi", -0.5)])["content"]
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


_CONTENT, _REASONING = ("content",), ("reasoning", "reasoning_content")
"""The names of a text in the deltas of chunks."""


@dataclass
class _Choice:
    """What the next chunk of a choice depends on."""

    has_begun: bool = False
    has_ended: bool = False
    usage: Usage = field(default_factory=Usage)
    calls: int = 0
    item: ItemBegun | None = None
    names: tuple[str, ...] = _CONTENT
    """The fields of the item's text, unless it is a call."""
    joint: str = ""
    with_text: set[tuple[str, ...]] = field(default_factory=set)
    texts: TextEvents | None = None
    """Writes the chunks of the item's text."""


class ChatWriter:
    """Writes the chunks of a completion: the role first, the end last, then the usage.

    If it `includes_usage`, all chunks have the field, null until the last.

    >>> head = {"id": "c", "created": 0, "model": "m"}
    >>> writer = ChatWriter(head)
    >>> events = [ItemBegun(0, ItemKind.FINAL_ANSWER), ItemText(0, "Hi")]
    >>> [chunk.fields()["choices"][0]["delta"] for event in events for chunk in writer.take(event)]
    [{'role': 'assistant', 'content': ''}, {'content': 'Hi'}]
    """

    def __init__(
        self,
        head: ChatHead | Mapping[str, Any],
        *,
        choices: int = 1,
        includes_usage: bool = False,
        has_logprobs: bool = False,
    ) -> None:
        self._head = head
        self._includes_usage = includes_usage
        self._has_logprobs = has_logprobs
        self._choices = [_Choice() for _ in range(choices)]

    def take(self, event: ItemEvent, choice: int = 0) -> Iterator[Event]:
        """Write the chunks of an event of a choice."""
        state = self._choices[choice]
        if not state.has_begun:
            state.has_begun = True
            empty = chat_logprobs(()) if self._has_logprobs else None
            yield self._chunk(choice, {"role": "assistant", "content": ""}, empty)
        if isinstance(event, ItemText):
            yield from self._text(choice, state, event)
        elif isinstance(event, ItemBegun):
            yield from self._begin(choice, state, event)
        elif isinstance(event, TurnEnded):
            state.has_ended, state.usage = True, event.usage
            yield self._chunk(choice, {}, None, **_end(event))
            if self._includes_usage and all(each.has_ended for each in self._choices):
                yield event_of(self._whole([], self.usage()))

    def usage(self) -> ChatUsage:
        """Count the tokens of all choices."""
        return chat_usage([choice.usage for choice in self._choices])

    def _begin(self, choice: int, state: _Choice, begun: ItemBegun) -> Iterator[Event]:
        state.item, state.texts = begun, None
        if not begun.kind.is_call:
            state.names = _REASONING if begun.kind is ItemKind.REASONING else _CONTENT
            state.joint = CHAT_JOINT if state.names in state.with_text else ""
            return
        kind, text = _CALLS[begun.kind is ItemKind.CUSTOM_TOOL_CALL]
        called = {kind: {"name": begun.full_name, text: ""}}
        call = {"index": state.calls, "id": begun.call_id, "type": kind, **called}
        state.calls += 1
        yield self._chunk(choice, {"tool_calls": [call]})

    def _text(self, choice: int, state: _Choice, added: ItemText) -> Iterator[Event]:
        begun, text = state.item, added.text
        if begun is None:
            raise ValueError(f"{added} does not belong to an item that has begun")
        if begun.is_hidden:
            return
        if not begun.kind.is_call:
            state.with_text.add(state.names)
            text, state.joint = state.joint + text, ""
            if self._has_logprobs and state.names is _CONTENT:
                yield self._chunk(choice, {"content": text}, chat_logprobs(added.logprobs))
                return
        if state.texts is None:
            if begun.kind.is_call:
                kind, field_ = _CALLS[begun.kind is ItemKind.CUSTOM_TOOL_CALL]
                addition = {"index": state.calls - 1, kind: {field_: PLACEHOLDER}}
                delta: dict[str, Any] = {"tool_calls": [addition]}
            else:
                delta = dict.fromkeys(state.names, PLACEHOLDER)
            state.texts = TextEvents(self._whole([_choice(choice, delta)]))
        yield state.texts.of(text)

    def _chunk(self, choice: int, delta: dict[str, Any], logprobs: Any = None, **end: Any) -> Event:
        return event_of(self._whole([{**_choice(choice, delta, logprobs), **end}]))

    def _whole(self, choices: Sequence[Any], usage: ChatUsage | None = None) -> dict[str, Any]:
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": choices}
        return {**chunk, "usage": usage} if self._includes_usage else chunk


_CALLS = {False: ("function", "arguments"), True: ("custom", "input")}
"""The type of a call and the field of its text, by whether its tool is a custom one."""


def _choice(index: int, delta: dict[str, Any], logprobs: Any = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": None}


def _end(ended: TurnEnded) -> dict[str, Any]:
    listed = [violation._asdict() for violation in ended.violations]
    called = ended.ending is Ending.CALL
    return {
        "finish_reason": "tool_calls" if called else ended.ending.finish_reason,
        **({"schema_violations": listed} if listed else {}),
        **repetition_detail(ended.ending),
    }


def replayed_completion(
    completion: ChatCompletion, *, includes_usage: bool = False
) -> Iterator[Event]:
    """Write a whole completion as chunks, one for each choice."""
    head = {n: v for n, v in completion.items() if n not in ("object", "choices", "usage")}
    writer = ChatWriter(head, includes_usage=includes_usage)
    for choice in completion["choices"]:
        fields: dict[str, Any] = {**choice}
        message = fields.pop("message")
        delta = {name: value for name, value in message.items() if value}
        delta["content"] = message["content"] or ""
        if "tool_calls" in delta:
            calls = enumerate(delta["tool_calls"])
            delta["tool_calls"] = [{"index": index, **call} for index, call in calls]
        yield event_of(writer._whole([{**fields, "delta": delta}]))
    if includes_usage:
        yield event_of(writer._whole([], completion["usage"]))
