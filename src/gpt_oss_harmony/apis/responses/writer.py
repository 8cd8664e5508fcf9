"""Item events to the events and items of a response, in the order of the specification.

::

    created, in_progress, (item added, part added, deltas, done, part done, item done)*, the end

Calls have no parts. A call of a server tool stays open until `end_call`::

    item added, in_progress, (deltas, done), the state while it runs, completed, item done

A call that needs an approval is a separate item, added and done at once; so is a call of a client's
tool.

The tools of MCP servers are listed before the first item, once in a conversation.

This module reads no clock, and the caller's function makes identifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict  # pydantic needs that of Python 3.12

from ...conversation.built_in_tools import BUILT_IN_TOOLS, MCP_CALL, CallItem, call_item
from ...conversation.messages import Message, Role
from ..call_texts import ShownCode
from ..items import (
    Ending,
    HistoryItem,
    ItemBegun,
    ItemEnded,
    ItemEvent,
    ItemKind,
    ItemText,
    LogprobJson,
    NewId,
    TokenLogprob,
    TurnEnded,
    Usage,
    repetition_detail,
)
from ..wire_events import PLACEHOLDER, Event, event_of, json_around, json_text
from .output_items import (
    ItemStatus,
    approval_item,
    id_prefix,
    item_json,
    mcp_fields,
    sampled_tokens,
    server_call_item,
    summary_of,
)
from .resource import ResponseUsage

EventNames: TypeAlias = Literal["openai", "open-responses"]
_EVENTS = {
    "": "created queued in_progress completed incomplete failed",
    "output_item": "added done",
    "content_part": "added done",
    "output_text": "delta done annotation.added",
    "reasoning_text": "delta done",
    "reasoning": "delta done",
    "reasoning_summary_part": "added done",
    "reasoning_summary_text": "delta done",
    "function_call_arguments": "delta done",
    "custom_tool_call_input": "delta done",
    "mcp_list_tools": "in_progress completed failed",
}
for _item in (*(tool.item for tool in BUILT_IN_TOOLS.values()), MCP_CALL):
    _EVENTS[_item.type] = " ".join(_item.states)
    if _item.text:
        _EVENTS[_item.text_events] = "delta done"
EVENT_TYPES = [
    ".".join(filter(None, ("response", noun, stage)))
    for noun, stages in _EVENTS.items()
    for stage in stages.split()
]
"""The types of all events; reasoning has one of two names, see `EventNames`."""


class ResponseEvent(TypedDict):
    """An event; further fields depend on its type."""

    type: Annotated[str, Field(json_schema_extra={"enum": EVENT_TYPES})]
    sequence_number: Annotated[int, Field(ge=0)]


_OPEN_RESPONSES_NAMES = {"reasoning_text": "reasoning"}  # of events


class CitedText(Protocol):
    """Converts a text for the user: its citations become links with annotations."""

    def feed(self, text: str) -> str:
        """Take text; return the text for clients that is safe to emit."""

    def rest(self) -> str:
        """Return the rest of the text for clients."""

    def annotations(self, *, is_answer: bool) -> list[dict[str, Any]]:
        """List the citations of the finished text, in order."""


@dataclass(frozen=True)
class AnsweredCall:
    """The result of a call of a server's tool: its messages, and the fields of its item."""

    messages: tuple[Message, ...]
    status: str
    fields: Mapping[str, Any]


class ResponseEnd(NamedTuple):
    """The whole response as it ended, and its last event."""

    response: dict[str, Any]
    event: Event


class _Shape(NamedTuple):
    """The field with the text of a kind of items, and the name of its events."""

    part: str | None  # the type of the content part with the text; None if the item has it
    field: str
    event: str


_MESSAGE = _Shape("output_text", "text", "output_text")
_FUNCTION = _Shape(None, "arguments", "function_call_arguments")
_SHAPES = {
    ItemKind.REASONING: _Shape("reasoning_text", "text", "reasoning_text"),
    ItemKind.COMMENTARY: _MESSAGE,
    ItemKind.FINAL_ANSWER: _MESSAGE,
    ItemKind.FUNCTION_CALL: _FUNCTION,
    ItemKind.CUSTOM_TOOL_CALL: _Shape(None, "input", "custom_tool_call_input"),
    ItemKind.CLIENT_CALL: _Shape(None, "arguments", ""),
    ItemKind.MCP_APPROVAL_REQUEST: _Shape(None, "arguments", ""),
}


def incomplete_details(ending: Ending) -> dict[str, Any] | None:
    """Return why a response is incomplete; None for one whose turn ended by itself."""
    if not ending.is_early:
        return None
    return {"reason": "max_output_tokens", **repetition_detail(ending)}


@dataclass
class _OpenItem:
    """An item that has begun and whose text grows."""

    begun: ItemBegun
    index: int
    id: str
    cited: CitedText | None = None
    logprobs: list[LogprobJson] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)
    call: Message | None = None
    """The call of a built-in tool, once it is complete and waits for its result."""
    planned: Mapping[str, Any] = field(default_factory=dict)
    """The fields that the item of that call already has."""
    described: CallItem = field(init=False)
    """The item of a call of a server's tool."""
    shape: _Shape = field(init=False)
    """The field and the events of its text."""
    is_whole: bool = field(init=False)
    """Whether the item has no event before the model's text is complete."""
    place: dict[str, Any] = field(init=False)
    """The fields that name the item in an event of it."""
    delta_json: tuple[str, str, str, str] | None = None
    """The name of its text events, and their JSON before, between and after number and text."""
    _texts: list[str] = field(default_factory=list)
    _pending_logprobs: list[LogprobJson] = field(default_factory=list)
    _shown: CitedText | ShownCode | None = None

    def __post_init__(self) -> None:
        kind = self.begun.kind
        self.described = call_item(self.begun.recipient or "")
        self._shown = self.cited
        if kind is not ItemKind.SERVER_CALL:
            self.shape = _SHAPES[kind]
        else:
            self.shape = _Shape(None, self.described.text, self.described.text_events)
            self._shown = ShownCode() if self.described.text == "code" else None
        self.is_whole = kind.is_call and not self.shape.event
        self.place = {"item_id": self.id, "output_index": self.index}
        if self.shape.part is not None:
            self.place["content_index"] = 0

    @property
    def text(self) -> str:
        """The text that clients have so far."""
        return "".join(self._texts)

    def add(self, text: str, logprobs: Sequence[TokenLogprob]) -> tuple[str, list[LogprobJson]]:
        """Take text; return the text that is safe to emit to clients, and its log-probabilities."""
        if self._shown is not None:
            text = self._shown.feed(text)
        self._texts.append(text)
        if logprobs:
            written = [logprob.to_json() for logprob in logprobs]
            self.logprobs += written
            self._pending_logprobs += written
        return text, self.pending_logprobs() if text else []

    def pending_logprobs(self) -> list[LogprobJson]:
        """Return the log-probabilities of the tokens whose text was pending."""
        pending, self._pending_logprobs = self._pending_logprobs, []
        return pending

    def rest(self) -> str:
        """Return the rest of the text for clients."""
        rest = "" if self._shown is None else self._shown.rest()
        self._texts.append(rest)
        return rest

    def part(self) -> dict[str, Any]:
        """Return the content part with the text so far."""
        part: dict[str, Any] = {"type": self.shape.part, "text": self.text}
        if self.shape is _MESSAGE:
            part |= {"annotations": list(self.annotations), "logprobs": list(self.logprobs)}
        return part


class ResponseWriter:
    """Writes one response from its first event to its last.

    - `response`: the resource at its beginning.
    - `new_id`: makes an id from a prefix. `now`: the time, in seconds since 1970.
    - `call_fields`: returns the fields of the item of a server's call that depend only on its
      recipient.
    - `opening`: the first items of the output, such as a compaction.
    - `listings`: the tools of MCP servers, as items without ids.
    - `cited_text`: begins a text for the user, whose citations become links.
    - `seal`: makes the encrypted text of reasoning; None if the request does not ask for it.
    - `sign`: makes the rest of the id of an approval request from the fields of its call.
    """

    def __init__(
        self,
        response: Mapping[str, Any],
        *,
        new_id: NewId,
        now: Callable[[], int],
        call_fields: Callable[[str], Mapping[str, Any]] = mcp_fields,
        opening: Sequence[HistoryItem] = (),
        listings: Sequence[Mapping[str, Any]] = (),
        cited_text: Callable[[], CitedText] | None = None,
        seal: Callable[[Message], str] | None = None,
        sign: Callable[[Sequence[str]], str] | None = None,
        event_names: EventNames = "openai",
    ) -> None:
        self.response = {**response, "output": []}
        self.items: list[HistoryItem] = []
        self._new_id = new_id
        self._now = now
        self._call_fields = call_fields
        self._opening = opening
        self._listings = listings
        self._cited_text = cited_text
        self._seal = seal
        self._sign = sign
        self._event_names = _OPEN_RESPONSES_NAMES if event_names == "open-responses" else {}
        self._open: _OpenItem | None = None
        self.has_begun = False
        """Whether the first events are written."""
        self._events = 0

    def begin(self) -> Iterator[Event]:
        """Write that the response exists, and is in progress or queued, unless that is written."""
        if not self.has_begun:
            self.has_begun = True
            yield self._of_response("created")
            yield self._of_response(self.response["status"])

    def leave_queue(self) -> Iterator[Event]:
        """Write that the response is in progress, its first items, and the MCP listings."""
        yield from self.begin()
        if self.response["status"] == "queued":
            self.response["status"] = "in_progress"
            yield self._of_response("in_progress")
        opening, self._opening = self._opening, ()
        for item in opening:
            added = {"output_index": len(self.items), "item": item.item}
            yield self._event("response.output_item.added", **added)
            yield self._done(len(self.items), item)
        listings, self._listings = self._listings, ()
        for listing in listings:
            yield from self._list(listing)

    def take(
        self, event: ItemEvent, *, planned: Mapping[str, Any] | None = None
    ) -> Iterator[Event]:
        """Write the events of an event; the end of a turn is that of the response.

        `planned` are the fields of the call of a server's tool that has ended.
        """
        if isinstance(event, ItemText):
            written = self.take_text(event)
            if written is not None:
                yield written
        elif isinstance(event, ItemBegun):
            yield from self.leave_queue()
            yield from self._give_up_call()
            yield from self._begin_item(event)
        elif isinstance(event, TurnEnded):
            yield from self.leave_queue()
            yield from self.break_off()
            self.add_violations(event)
            yield self.end_of_turn(event).event
        elif self._open is None:
            raise ValueError(f"{event} belongs to no item that has begun")
        elif self._open.begun.kind is ItemKind.MCP_APPROVAL_REQUEST:
            yield from self._ask(self._open, event)
        elif self._open.begun.kind.is_of_server:
            yield from self._end_call_text(self._open, event.message, planned or {})
            if not event.is_complete:
                yield from self._give_up_call()
        else:
            yield from self._end_item(self._open, event.message, event.is_complete)

    def take_text(self, event: ItemText) -> Event | None:
        """Write the event of a text, unless all of it is still pending.

        The events of an item differ only in the number and the text, so the rest of their JSON is
        written once.
        """
        item = self._open
        if item is None:
            raise ValueError(f"{event} belongs to no item that has begun")
        text, logprobs = item.add(event.text, event.logprobs)
        if not text or item.is_whole:
            return None
        if logprobs:
            return self._delta(item, text, logprobs)
        number = self._events
        if item.delta_json is None:
            name, fields = self._delta_fields(item, PLACEHOLDER, [])
            before, tail = json_around({"type": name, "sequence_number": number, **fields})
            # Only the type stands before the number, so the first match is the number itself.
            head, _, middle = before.partition(f'"sequence_number":{number},')
            item.delta_json = name, f'{head}"sequence_number":', f",{middle}", tail
        self._events = number + 1
        name, head, middle, tail = item.delta_json
        return Event(name, f"{head}{number}{middle}{json_text(text)}{tail}")

    def run_call(self) -> Iterator[Event]:
        """Write that the waiting call is running."""
        item = self._open
        if item is not None and item.call is not None and item.described.running:
            yield self._of_item(f"response.{item.described.type}.{item.described.running}", item)

    def begin_approved_call(self, call: Message, request_id: str) -> Iterator[Event]:
        """Write a call of an earlier response that is now running."""
        begun = ItemBegun(len(self.items), ItemKind.SERVER_CALL, call.recipient)
        item = self._open = _OpenItem(begun, len(self.items), self._new_id(id_prefix(begun)))
        approval = {"approval_request_id": request_id}
        yield from self._begin_call(item, approval)
        delta, _ = item.add(call.text, ())
        yield self._delta(item, delta, [])
        yield from self._end_call_text(item, call, approval)

    def end_call(self, answered: AnsweredCall) -> Iterator[Event]:
        """Write the result of the waiting call."""
        item = self._open
        if item is None or item.call is None:
            raise ValueError("no call waits for an answer")
        if answered.status in item.described.states:
            yield self._of_item(f"response.{item.described.type}.{answered.status}", item)
        fields = {**item.planned, **answered.fields}
        call = self._server_call(item, answered.status, fields)
        messages = [message.to_dict() for message in (item.call, *answered.messages)]
        yield self._done(item.index, HistoryItem(call, sampled_tokens(item.call), messages))

    def break_off(self) -> Iterator[Event]:
        """Close the open item as incomplete."""
        item = self._open
        if item is None:
            return
        message = Message.from_role_and_content(Role.ASSISTANT, item.text)
        if not item.begun.kind.is_of_server:
            yield from self._end_item(item, message, is_complete=False, is_sealed=False)
            return
        if item.call is None and item.is_whole:
            self._open = None  # it has no event yet
        elif item.call is None:
            yield from self._end_call_text(item, message, {})
        yield from self._give_up_call()

    def add_violations(self, ended: TurnEnded) -> None:
        """Add the violations of a turn's schemas to the response."""
        if ended.violations:
            violations = self.response.setdefault("schema_violations", [])
            violations += [violation._asdict() for violation in ended.violations]

    def end_of_turn(self, ended: TurnEnded, usage: Usage | None = None) -> ResponseEnd:
        """Write the last event of a response that ends with a turn; `usage` is of all turns."""
        details = incomplete_details(ended.ending)
        status = "completed" if details is None else "incomplete"
        return self.end(status, ended.usage if usage is None else usage, details=details)

    def end(
        self,
        status: str,
        usage: Usage | None,
        *,
        details: Mapping[str, Any] | None = None,
        error: Mapping[str, Any] | None = None,
    ) -> ResponseEnd:
        """Write the last event, which contains the whole response.

        `response` is not changed, so nobody can read the end before its event, and another end may
        be written in its place. A cancelled response ends like an incomplete one, because the API
        has no event for it.
        """
        ended = {
            **self.response,
            "status": status,
            "completed_at": self._now() if status == "completed" else None,
            "error": error,
            "incomplete_details": details,
            "usage": None if usage is None else ResponseUsage.of(*usage).model_dump(),
        }
        name = f"response.{'incomplete' if status == 'cancelled' else status}"
        fields = {"type": name, "sequence_number": self._events, "response": ended}
        return ResponseEnd(ended, event_of(fields, name))

    def _list(self, listing: Mapping[str, Any]) -> Iterator[Event]:
        """Write the tools of an MCP server, or the error of listing them."""
        item = {"id": self._new_id("mcpl"), **listing}
        index = len(self.items)
        outcome = "failed" if item["error"] else "completed"
        begun = {**item, "tools": [], "error": None}
        yield self._event("response.output_item.added", output_index=index, item=begun)
        for state in ("in_progress", outcome):
            yield self._event(
                f"response.mcp_list_tools.{state}", item_id=item["id"], output_index=index
            )
        yield self._done(index, HistoryItem(item))

    def _begin_item(self, begun: ItemBegun) -> Iterator[Event]:
        cited = self._cited_text() if self._cited_text and begun.kind.is_message else None
        id = self._new_id(id_prefix(begun))
        item = self._open = _OpenItem(begun, len(self.items), id, cited)
        if begun.kind.is_of_server:
            if not item.is_whole:
                yield from self._begin_call(item, {})
            return
        if item.is_whole:
            return
        added = item_json(begun, id=item.id)
        yield self._event("response.output_item.added", output_index=item.index, item=added)
        if item.shape.part is not None:
            yield self._of_item("response.content_part.added", item, part=item.part())

    def _ask(self, item: _OpenItem, ended: ItemEnded) -> Iterator[Event]:
        """Write that a call needs an approval; a call that was cut off has no item."""
        self._open = None
        if not ended.is_complete:
            return
        called = self._call_fields(item.begun.recipient or "")
        fields = called["server_label"], called["name"], ended.text
        asked = approval_item(f"mcpr_{self._sign(fields)}" if self._sign else item.id, *fields)
        yield self._event("response.output_item.added", output_index=item.index, item=asked)
        call = ended.message
        yield self._done(item.index, HistoryItem(asked, sampled_tokens(call), [call.to_dict()]))

    def _begin_call(self, item: _OpenItem, planned: Mapping[str, Any]) -> Iterator[Event]:
        begun = self._server_call(item, "in_progress", planned)
        yield self._event("response.output_item.added", output_index=item.index, item=begun)
        yield self._of_item(f"response.{item.described.type}.in_progress", item)

    def _end_call_text(
        self, item: _OpenItem, call: Message, planned: Mapping[str, Any]
    ) -> Iterator[Event]:
        """Write the end of the model's text; the call waits for its result."""
        rest = item.rest()
        item.call = call
        item.planned = planned
        if item.is_whole:
            yield from self._begin_call(item, planned)
            return
        if rest:
            yield self._delta(item, rest, [])
        done = {item.shape.field: item.text}
        yield self._of_item(self._text_event(item, "done"), item, **done)

    def _give_up_call(self) -> Iterator[Event]:
        """Close a call that will not run; later prompts leave it out."""
        item = self._open
        if item is not None and item.call is not None:
            given_up = self._server_call(item, "incomplete", item.planned)
            yield self._done(item.index, HistoryItem(given_up))

    def _server_call(
        self, item: _OpenItem, status: str, fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        recipient = item.begun.recipient or ""
        text = {item.shape.field: item.text} if item.shape.field else {}
        fields = {**self._call_fields(recipient), **text, **fields}
        return server_call_item(recipient, id=item.id, status=status, **fields)

    def _done(self, index: int, finished: HistoryItem) -> Event:
        """Write an item that has ended."""
        self.items.append(finished)
        self.response["output"].append(finished.item)
        self._open = None
        return self._event("response.output_item.done", output_index=index, item=finished.item)

    def _end_item(
        self, item: _OpenItem, message: Message, is_complete: bool, *, is_sealed: bool = True
    ) -> Iterator[Event]:
        if item.is_whole:
            yield from self._end_client_call(item, message, is_complete)
            return
        kind, rest = item.begun.kind, item.rest()
        if rest:
            yield self._delta(item, rest, item.pending_logprobs())
        if item.cited is not None:
            item.annotations += item.cited.annotations(is_answer=kind is ItemKind.FINAL_ANSWER)
        for index, annotation in enumerate(item.annotations):
            yield self._of_item(
                "response.output_text.annotation.added",
                item,
                annotation_index=index,
                annotation=annotation,
            )
        text = item.text
        done: dict[str, Any] = {item.shape.field: text}
        if item.shape is _MESSAGE:
            done["logprobs"] = item.logprobs
        if item.shape is _FUNCTION:
            done["name"] = item.begun.name
        yield self._of_item(self._text_event(item, "done"), item, **done)
        part = None
        if item.shape.part is not None:
            part = item.part()
            yield self._of_item("response.content_part.done", item, part=part)
        finished = item_json(
            item.begun,
            id=item.id,
            status="completed" if is_complete else "incomplete",
            text=text,
            part=part,
        )
        if kind is ItemKind.REASONING:
            yield from self._end_reasoning(item, finished)
            if self._seal is not None and is_sealed:
                finished["encrypted_content"] = self._seal(message)
        yield self._done(item.index, HistoryItem(finished, sampled_tokens(message)))

    def _end_client_call(
        self, item: _OpenItem, message: Message, is_complete: bool
    ) -> Iterator[Event]:
        """Write the item of a client's tool, or a function call if the arguments do not fit."""
        item.rest()
        status: ItemStatus = "completed" if is_complete else "incomplete"
        finished = item_json(item.begun, id=item.id, status=status, text=item.text)
        if is_complete and finished["type"] != ItemKind.FUNCTION_CALL.value:
            added = {**finished, "status": "in_progress"}
            yield self._event("response.output_item.added", output_index=item.index, item=added)
            yield self._done(item.index, HistoryItem(finished, sampled_tokens(message)))
            return
        yield from self._begin_item(item.begun._replace(kind=ItemKind.FUNCTION_CALL))
        function = self._open
        if function is not None:
            text, _ = function.add(item.text, ())
            yield self._delta(function, text, [])
            yield from self._end_item(function, message, is_complete)

    def _end_reasoning(self, item: _OpenItem, finished: dict[str, Any]) -> Iterator[Event]:
        """Add the summary that the request asks for; a part of it is complete at once."""
        requested = self.response.get("reasoning", {}).get("summary")
        if not (requested and item.text.strip()):
            return
        part = {"type": "summary_text", "text": summary_of(item.text, requested)}
        finished["summary"] = [part]
        place = {"item_id": item.id, "output_index": item.index, "summary_index": 0}
        name, text = "response.reasoning_summary", part["text"]
        yield self._event(f"{name}_part.added", **place, part={**part, "text": ""})
        yield self._event(f"{name}_text.delta", **place, delta=text)
        yield self._event(f"{name}_text.done", **place, text=text)
        yield self._event(f"{name}_part.done", **place, part=part)

    def _delta(self, item: _OpenItem, delta: str, logprobs: list[LogprobJson]) -> Event:
        name, fields = self._delta_fields(item, delta, logprobs)
        return self._event(name, **fields)

    def _delta_fields(
        self, item: _OpenItem, delta: str, logprobs: list[LogprobJson]
    ) -> tuple[str, dict[str, Any]]:
        more = {"logprobs": logprobs} if item.shape is _MESSAGE else {}
        fields = {**item.place, "delta": delta, **more}
        return self._text_event(item, "delta"), fields

    def _text_event(self, item: _OpenItem, stage: str) -> str:
        name = self._event_names.get(item.shape.event, item.shape.event)
        return f"response.{name}.{stage}"

    def _of_item(self, name: str, item: _OpenItem, /, **fields: Any) -> Event:
        return self._event(name, **item.place, **fields)

    def _of_response(self, event: str) -> Event:
        return self._event(f"response.{event}", response=self.response)

    def _event(self, name: str, /, **fields: Any) -> Event:
        number, self._events = self._events, self._events + 1
        return event_of({"type": name, "sequence_number": number, **fields}, name)
