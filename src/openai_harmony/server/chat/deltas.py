"""Turn events to the deltas of one chat message, as streams have them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from ...apis.chat_message import CHAT_JOINT
from ...apis.custom_input import CustomToolInput
from ...apis.history import NewId
from ...apis.item_kind import ItemKind, what_kind
from ...apis.output_items import NO_ARGUMENTS, called_name
from ..turns.events import MessageBegun, MessageEnded, TextAdded, TokenLogprob

__all__ = ["ChatDelta", "ChatDeltas"]


class ChatDelta(NamedTuple):
    """What a chunk adds to the message; `logprobs` are those of its content."""

    fields: dict[str, Any]
    logprobs: tuple[TokenLogprob, ...] = ()


class ChatDeltas:
    """Writes what is sampled; joined, it is what `chat_message_of` makes of the messages.

    A preamble on ``commentary`` and the answer are one content, with an empty line between them:
    clients of this API know one text, and show it as it comes.
    """

    def __init__(self, new_id: NewId, custom_tools: Collection[str] = ()) -> None:
        self._new_id = new_id
        self._custom_tools = custom_tools
        self._texts = {True: _Text("content"), False: _Text("reasoning", "reasoning_content")}
        self._open: _Text | _Call | None = None
        self.calls = 0
        """How many calls there are so far."""

    def take(self, event: MessageBegun | TextAdded | MessageEnded) -> Iterator[ChatDelta]:
        """Write what happens to a message."""
        if isinstance(event, MessageBegun):
            self._open, first = self._begin(event)
            yield from first
        elif self._open is None:
            raise ValueError(f"{event} belongs to no message that has begun")
        elif isinstance(event, TextAdded):
            yield from self._open.add(event.text, event.logprobs)
        else:
            yield from self._open.end()
            self._open = None

    def _begin(self, event: MessageBegun) -> tuple[_Text | _Call, list[ChatDelta]]:
        kind = what_kind(event.channel, event.recipient, custom_tools=self._custom_tools)
        if not kind.is_call:
            text = self._texts[kind.is_message]
            text.begin()
            return text, []
        call = _Call(self.calls, kind)
        self.calls += 1
        name, _ = called_name(event.recipient or "")
        return call, [call.first(self._new_id("call"), name)]


class _Text:
    """A text under one name, or under several; further messages go on with it."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self._has_text = False
        self._joint = ""

    def begin(self) -> None:
        self._joint = CHAT_JOINT if self._has_text else ""

    def add(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> Iterator[ChatDelta]:
        text, self._joint = self._joint + text, ""
        self._has_text = True
        shown = logprobs if self._names == ("content",) else ()
        yield ChatDelta(dict.fromkeys(self._names, text), shown)

    def end(self) -> Iterator[ChatDelta]:
        return iter(())


class _Call:
    """One call; its arguments are never empty, since clients read them as JSON."""

    def __init__(self, index: int, kind: ItemKind) -> None:
        self._index = index
        self._input = CustomToolInput() if kind is ItemKind.CUSTOM_TOOL_CALL else None
        self._blank: str | None = ""  # arguments so far, while they are nothing but white space

    def first(self, id: str, name: str) -> ChatDelta:
        known: dict[str, Any] = {"id": id}
        if self._input is None:
            known |= {"type": "function", "function": {"name": name, "arguments": ""}}
        else:
            known |= {"type": "custom", "custom": {"name": name, "input": ""}}
        return self._delta(known)

    def add(self, text: str, _: tuple[TokenLogprob, ...]) -> Iterator[ChatDelta]:
        if self._input is not None:
            yield from self._add_input(self._input.feed(text))
        elif self._blank is None or text.strip():
            text, self._blank = (self._blank or "") + text, None
            yield self._arguments(text)
        else:
            self._blank += text

    def end(self) -> Iterator[ChatDelta]:
        if self._input is not None:
            yield from self._add_input(self._input.rest())
        elif self._blank is not None:
            yield self._arguments(NO_ARGUMENTS)

    def _add_input(self, text: str) -> Iterator[ChatDelta]:
        if text:
            yield self._delta({"custom": {"input": text}})

    def _arguments(self, text: str) -> ChatDelta:
        return self._delta({"function": {"arguments": text}})

    def _delta(self, fields: dict[str, Any]) -> ChatDelta:
        return ChatDelta({"tool_calls": [{"index": self._index, **fields}]})
