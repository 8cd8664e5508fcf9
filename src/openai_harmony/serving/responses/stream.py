"""Turn events to the events and the items of a response, in the order of the specification.

::

    created, in_progress, (item added, part added, deltas, done, part done, item done)*, the end

Calls have no parts. Pure: no clock, and identifiers are made by the caller's function.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from ...apis.custom_input import CustomToolInput
from ...apis.history import HistoryItem, NewId
from ...apis.item_kind import ItemKind, what_kind
from ...apis.output_items import ID_PREFIXES, item_of_message, new_item
from ...messages import Message, Role
from ...sampled_messages import SampledMessage
from ..turns.events import MessageBegun, MessageEnded, TextAdded, TokenLogprob
from .log import WireEvent

__all__ = ["EventNames", "ResponseStream", "logprob_json"]

EventNames: TypeAlias = Literal["openai", "open-responses"]


class _Shape(NamedTuple):
    """Where the text of a kind of items stands, and what its events are called."""

    part: str | None  # the type of the part that holds the text; None where the item itself does
    field: str
    event: str


_MESSAGE = _Shape("output_text", "text", "output_text")
_CALL = _Shape(None, "arguments", "function_call_arguments")
_SHAPES = {
    ItemKind.REASONING: _Shape("reasoning_text", "text", "reasoning_text"),
    ItemKind.COMMENTARY: _MESSAGE,
    ItemKind.FINAL_ANSWER: _MESSAGE,
    ItemKind.FUNCTION_CALL: _CALL,
    ItemKind.CUSTOM_TOOL_CALL: _Shape(None, "input", "custom_tool_call_input"),
}
_LEAST = -9999.0  # what the API writes for an impossible token: JSON has no infinity
_OTHER_NAMES = {"reasoning_text": "reasoning"}  # of events, in Open Responses


class ResponseStream:
    """One response from its first event to its last.

    - `response`: the resource as it begins.
    - `new_id`: makes an id from a prefix.
    - `custom_tools`, `namespaces`: the recipients of custom tools, and the namespaces of tools.
    """

    def __init__(
        self,
        response: Mapping[str, Any],
        *,
        new_id: NewId,
        custom_tools: Collection[str] = (),
        namespaces: Collection[str] = (),
        event_names: EventNames = "openai",
    ) -> None:
        self.response = {**response, "output": []}
        self.items: list[HistoryItem] = []
        self._new_id = new_id
        self._custom_tools = custom_tools
        self._namespaces = namespaces
        self._other_names = _OTHER_NAMES if event_names == "open-responses" else {}
        self._open: _OpenItem | None = None
        self._events = 0

    def begin(self) -> Iterator[WireEvent]:
        """Tell that the response has been made, and that it is under way or waits."""
        yield self._of_response("created")
        yield self._of_response(self.response["status"])

    def go_on(self) -> Iterator[WireEvent]:
        """Tell that a response that waited is under way."""
        if self.response["status"] == "queued":
            self.response["status"] = "in_progress"
            yield self._of_response("in_progress")

    def take(
        self, event: MessageBegun | TextAdded | MessageEnded, *, encrypted: str | None = None
    ) -> Iterator[WireEvent]:
        """Write what happens to a message; `encrypted` is reasoning that ends, sealed."""
        if isinstance(event, MessageBegun):
            yield from self._begin_item(event.channel, event.recipient)
        elif self._open is None:
            raise ValueError(f"{event} belongs to no message that has begun")
        elif isinstance(event, TextAdded):
            yield from self._add_text(self._open, event.text, event.logprobs)
        else:
            yield from self._end_item(self._open, event.message, event.is_complete, encrypted)

    def break_off(self) -> Iterator[WireEvent]:
        """Close the item that is open, as incomplete."""
        item = self._open
        if item is not None:
            said = Message.from_role_and_content(Role.ASSISTANT, item.said).with_channel("final")
            said.recipient = item.recipient
            yield from self._end_item(item, said, is_complete=False)

    def end(self, status: str, **fields: Any) -> WireEvent:
        """Write the last event, which has the whole response; `fields` are set in it.

        `response` stays as it was, so that nobody reads of an end that has not been told. A
        cancelled response ends as an incomplete one does: there is no event of its own for it.
        """
        ended = {**self.response, "status": status, **fields}
        what = "incomplete" if status == "cancelled" else status
        return self._event(f"response.{what}", response=ended)

    def _begin_item(self, channel: str | None, recipient: str | None) -> Iterator[WireEvent]:
        kind = what_kind(channel, recipient, custom_tools=self._custom_tools)
        item = _OpenItem(
            kind=kind,
            recipient=recipient,
            index=len(self.items),
            id=self._new_id(ID_PREFIXES[kind]),
            call_id=self._new_id("call") if kind.is_call else None,
        )
        self._open = item
        begun = new_item(
            kind, recipient, id=item.id, call_id=item.call_id, namespaces=self._namespaces
        )
        yield self._event("response.output_item.added", output_index=item.index, item=begun)
        if item.shape.part is not None:
            yield self._of_item("response.content_part.added", item, part=item.part())

    def _add_text(
        self, item: _OpenItem, text: str, logprobs: tuple[TokenLogprob, ...]
    ) -> Iterator[WireEvent]:
        delta, known = item.add(text, logprobs)
        if delta:
            yield self._delta(item, delta, known)

    def _end_item(
        self,
        item: _OpenItem,
        message: Message,
        is_complete: bool,
        encrypted: str | None = None,
    ) -> Iterator[WireEvent]:
        rest = item.rest(is_complete=is_complete)
        if rest:
            yield self._delta(item, rest, [])
        done: dict[str, Any] = {item.shape.field: item.text}
        if item.shape is _MESSAGE:
            done["logprobs"] = item.logprobs
        if item.shape is _CALL:
            done["name"] = new_item(item.kind, item.recipient, id="", namespaces=self._namespaces)[
                "name"
            ]
        yield self._of_item(self._text_event(item, "done"), item, **done)
        if item.shape.part is not None:
            yield self._of_item("response.content_part.done", item, part=item.part())
        finished = self._finished(item, message, is_complete, encrypted)
        self.items.append(finished)
        self.response["output"].append(finished.item)
        self._open = None
        yield self._event("response.output_item.done", output_index=item.index, item=finished.item)

    def _finished(
        self, item: _OpenItem, message: Message, is_complete: bool, encrypted: str | None
    ) -> HistoryItem:
        made = item_of_message(
            message,
            item.kind,
            id=item.id,
            call_id=item.call_id,
            namespaces=self._namespaces,
            status="completed" if is_complete else "incomplete",
            logprobs=item.logprobs,
        )
        if item.shape is _CALL:
            made["arguments"] = item.text
        if encrypted is not None:
            made["encrypted_content"] = encrypted
        tokens = message.sampled_tokens if isinstance(message, SampledMessage) else None
        return HistoryItem(made, tokens)

    def _delta(self, item: _OpenItem, delta: str, logprobs: list[dict[str, Any]]) -> WireEvent:
        more = {"logprobs": logprobs} if item.shape is _MESSAGE else {}
        return self._of_item(self._text_event(item, "delta"), item, delta=delta, **more)

    def _text_event(self, item: _OpenItem, what: str) -> str:
        name = self._other_names.get(item.shape.event, item.shape.event)
        return f"response.{name}.{what}"

    def _of_item(self, type_: str, item: _OpenItem, **fields: Any) -> WireEvent:
        place: dict[str, Any] = {"item_id": item.id, "output_index": item.index}
        if item.shape.part is not None:
            place["content_index"] = 0
        return self._event(type_, **place, **fields)

    def _of_response(self, what: str) -> WireEvent:
        snapshot = {**self.response, "output": list(self.response["output"])}
        return self._event(f"response.{what}", response=snapshot)

    def _event(self, type_: str, **fields: Any) -> WireEvent:
        number, self._events = self._events, self._events + 1
        return {"type": type_, "sequence_number": number, **fields}


@dataclass
class _OpenItem:
    """An item that has begun: its text grows."""

    kind: ItemKind
    recipient: str | None
    index: int
    id: str
    call_id: str | None
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    _said: list[str] = field(default_factory=list)
    _shown: list[str] = field(default_factory=list)
    _custom: CustomToolInput | None = None

    def __post_init__(self) -> None:
        if self.kind is ItemKind.CUSTOM_TOOL_CALL:
            self._custom = CustomToolInput()

    @property
    def shape(self) -> _Shape:
        return _SHAPES[self.kind]

    @property
    def said(self) -> str:
        """What the model wrote."""
        return "".join(self._said)

    @property
    def text(self) -> str:
        """What clients were shown of it."""
        return "".join(self._shown)

    def add(
        self, text: str, logprobs: tuple[TokenLogprob, ...]
    ) -> tuple[str, list[dict[str, Any]]]:
        """Take text; return what the text for clients grows by."""
        self._said.append(text)
        shown = text if self._custom is None else self._custom.feed(text)
        self._shown.append(shown)
        known = [logprob_json(logprob) for logprob in logprobs]
        self.logprobs += known
        return shown, known

    def rest(self, *, is_complete: bool) -> str:
        """Return what the text for clients grows by at the end."""
        rest = "" if self._custom is None else self._custom.rest()
        if self.shape is _CALL and is_complete and not self.text.strip():
            rest = "{}"  # what clients parse is JSON
        self._shown.append(rest)
        return rest

    def part(self) -> dict[str, Any]:
        """The part that holds the text, as it stands."""
        part: dict[str, Any] = {"type": self.shape.part, "text": self.text}
        if self.shape is _MESSAGE:
            part |= {"annotations": [], "logprobs": list(self.logprobs)}
        return part


def logprob_json(logprob: TokenLogprob) -> dict[str, Any]:
    """Write a token with its log-probability, and the likeliest in its place.

    >>> logprob_json(TokenLogprob(b"hi", -0.5, ()))
    {'token': 'hi', 'bytes': [104, 105], 'logprob': -0.5, 'top_logprobs': []}
    """
    return {
        **_token_json(logprob.data, logprob.logprob),
        "top_logprobs": [_token_json(*one) for one in logprob.top],
    }


def _token_json(data: bytes, logprob: float) -> dict[str, Any]:
    text = data.decode("utf-8", errors="replace")
    return {"token": text, "bytes": list(data), "logprob": max(logprob, _LEAST)}
