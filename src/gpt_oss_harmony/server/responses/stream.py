"""Turn events to the events and items of a response, in the order of the specification.

::

    created, in_progress, (item added, part added, deltas, done, part done, item done)*, the end

Calls have no parts. A call of a server tool stays open until `end_call`::

    item added, in_progress, (deltas, done), the state while it runs, completed, item done

A call that needs an approval is a separate item, added and done at once.

The tools of MCP servers are listed before the first item, once in a conversation.

This module reads no clock, and the caller's function makes identifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict  # pydantic needs that of Python 3.12

from ...apis.items import ID_PREFIXES, HistoryItem, ItemKind, NewId, item_kind, message_text
from ...apis.output_items import item_of_message, new_item, server_call_item, summary_of
from ...conversation.built_in_tools import BUILT_IN_TOOLS, MCP_CALL, call_item
from ...conversation.messages import Message, Role
from ...sampled_messages import SampledMessage
from ..generation.events import LogprobJson, MessageBegun, MessageEnded, TextAdded
from ..http.server_sent_events import Event, event_of
from ..json_text import PLACEHOLDER, json_around, json_text
from ..tools.call_items import mcp_fields
from ..tools.citations import CitedAnswer
from ..tools.conversation_tools import AnsweredCall
from ..tools.mcp import approval_item
from .output_item import FUNCTION, MESSAGE, OutputItemBuilder

__all__ = ["EVENT_TYPES", "EventNames", "ResponseEvent", "ResponseStream", "WireEvent"]

WireEvent: TypeAlias = "dict[str, Any]"
"""An event in the form for clients."""

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


class ResponseStream:
    """One response from its first event to its last.

    - `response`: the resource at its beginning.
    - `new_id`: makes an id from a prefix.
    - `custom_tools`, `namespaces`: the recipients of custom tools, and the namespaces of tools.
      `text_tools` are the custom tools whose calls contain plain text instead of JSON.
    - `built_in_tools`: the names of the server's tools. `call_fields` returns the fields of the
      item of a call that depend only on its recipient.
    - `opening`: the first items of the output, such as a compaction.
    - `listings`: the tools of MCP servers, as items without ids; `approvals`: the recipients
      of those that need an approval.
    - `cited_answer`: begins a text for the user, whose citations become links.
    """

    def __init__(
        self,
        response: Mapping[str, Any],
        *,
        new_id: NewId,
        custom_tools: Collection[str] = (),
        text_tools: Collection[str] = (),
        namespaces: Collection[str] = (),
        built_in_tools: Collection[str] = (),
        call_fields: Callable[[str], Mapping[str, Any]] = mcp_fields,
        opening: Sequence[HistoryItem] = (),
        listings: Sequence[Mapping[str, Any]] = (),
        approvals: Collection[str] = (),
        cited_answer: Callable[[], CitedAnswer] | None = None,
        event_names: EventNames = "openai",
    ) -> None:
        self.response = {**response, "output": []}
        self.items: list[HistoryItem] = []
        self._new_id = new_id
        self._custom_tools = custom_tools
        self._text_tools = text_tools
        self._namespaces = namespaces
        self._built_in_tools = built_in_tools
        self._call_fields = call_fields
        self._opening = opening
        self._listings = listings
        self._approvals = approvals
        self._cited_answer = cited_answer
        self._event_names = _OPEN_RESPONSES_NAMES if event_names == "open-responses" else {}
        self._open: OutputItemBuilder | None = None
        self._events = 0

    def begin(self) -> Iterator[WireEvent]:
        """Write that the response exists, and that it is in progress or queued."""
        yield self._of_response("created")
        yield self._of_response(self.response["status"])

    def leave_queue(self) -> Iterator[WireEvent]:
        """Write that a queued response is in progress, its first items, and the MCP listings."""
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
        self,
        event: MessageBegun | MessageEnded,
        *,
        added: Mapping[str, Any] | None = None,
        planned: Mapping[str, Any] | None = None,
    ) -> Iterator[WireEvent]:
        """Write the events of a message, except those of its text.

        For a message that ends, `added` are fields of its item that do not come from its text, and
        `planned` are the fields of a call of a server tool.
        """
        if isinstance(event, MessageBegun):
            yield from self._give_up_call()
            yield from self._begin_item(event.channel, event.recipient)
        elif self._open is None:
            raise ValueError(f"{event} belongs to no message that has begun")
        elif self._open.kind is ItemKind.MCP_APPROVAL_REQUEST:
            yield from self._ask(self._open, event.message if event.is_complete else None)
        elif self._open.kind.is_of_server:
            yield from self._end_call_text(
                self._open, event.message, planned or {}, is_complete=event.is_complete
            )
            if not event.is_complete:
                yield from self._give_up_call()
        else:
            yield from self._end_item(self._open, event.message, event.is_complete, added)

    def take_text(self, event: TextAdded) -> Event | None:
        """Write the event of a text, unless all of it is still pending.

        The events of an item differ only in the number and the text, so the rest of their JSON is
        written once.
        """
        item = self._open
        if item is None:
            raise ValueError(f"{event} belongs to no message that has begun")
        text, logprobs = item.add(event.text, event.logprobs)
        if not text or item.is_whole:
            return None
        if logprobs:
            written = self._delta(item, text, logprobs)
            return event_of(written, written["type"])
        number = self._events
        if item.delta_json is None:
            written = self._delta(item, PLACEHOLDER, [])
            before, tail = json_around(written)
            head, _, middle = before.partition(f'"sequence_number":{number},')
            item.delta_json = written["type"], f'{head}"sequence_number":', f",{middle}", tail
        self._events = number + 1
        name, head, middle, tail = item.delta_json
        return Event(name, f"{head}{number}{middle}{json_text(text)}{tail}")

    def run_call(self) -> Iterator[WireEvent]:
        """Write that the waiting call is running."""
        item = self._open
        if item is not None and item.call is not None and item.described.running:
            yield self._of_item(f"response.{item.described.type}.{item.described.running}", item)

    def begin_approved_call(self, call: Message, request_id: str) -> Iterator[WireEvent]:
        """Write a call of an earlier response that is now running."""
        item = OutputItemBuilder(
            kind=ItemKind.SERVER_CALL,
            recipient=call.recipient,
            index=len(self.items),
            id=self._new_id(call_item(call.recipient or "").id_prefix),
            call_id=None,
        )
        self._open = item
        approval = {"approval_request_id": request_id}
        yield from self._begin_call(item, approval)
        delta, _ = item.add(message_text(call), ())
        yield self._delta(item, delta, [])
        yield from self._end_call_text(item, call, approval, is_complete=True)

    def end_call(self, answered: AnsweredCall) -> Iterator[WireEvent]:
        """Write the result of the waiting call."""
        item = self._open
        if item is None or item.call is None:
            raise ValueError("no call waits for an answer")
        if answered.status in item.described.states:
            yield self._of_item(f"response.{item.described.type}.{answered.status}", item)
        fields = {**item.planned, **answered.fields}
        item_json = self._server_call(item, answered.status, fields)
        tokens = item.call.sampled_tokens if isinstance(item.call, SampledMessage) else None
        messages = [message.to_dict() for message in (item.call, *answered.messages)]
        yield self._done(item.index, HistoryItem(item_json, tokens, messages))

    def break_off(self) -> Iterator[WireEvent]:
        """Close the open item as incomplete."""
        item = self._open
        if item is not None and item.kind.is_of_server:
            if item.call is None and item.is_whole:
                self._open = None  # it has no event yet
            elif item.call is None:
                message = Message.from_role_and_content(Role.ASSISTANT, item.sampled_text)
                yield from self._end_call_text(item, message, {}, is_complete=False)
            yield from self._give_up_call()
        elif item is not None:
            message = Message.from_role_and_content(Role.ASSISTANT, item.sampled_text).with_channel(
                "final"
            )
            message.recipient = item.recipient
            yield from self._end_item(item, message, is_complete=False)

    def end(self, status: str, **fields: Any) -> WireEvent:
        """Write the last event, which contains the whole response with these `fields`.

        `response` is not changed, so nobody can read the end before its event. A cancelled response
        ends like an incomplete one, because the API has no event for it.
        """
        ended = {**self.response, "status": status, **fields}
        outcome = "incomplete" if status == "cancelled" else status
        return self._event(f"response.{outcome}", response=ended)

    def _list(self, listing: Mapping[str, Any]) -> Iterator[WireEvent]:
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

    def _begin_item(self, channel: str | None, recipient: str | None) -> Iterator[WireEvent]:
        kind = item_kind(
            channel,
            recipient,
            custom_tools=self._custom_tools,
            built_in_tools=self._built_in_tools,
        )
        prefix = ID_PREFIXES.get(kind) or call_item(recipient or "").id_prefix
        if kind is ItemKind.SERVER_CALL and recipient in self._approvals:
            kind = ItemKind.MCP_APPROVAL_REQUEST
            prefix = ID_PREFIXES[kind]
        item = OutputItemBuilder(
            kind=kind,
            recipient=recipient,
            index=len(self.items),
            id=self._new_id(prefix),
            call_id=self._new_id("call") if kind.is_call and not kind.is_of_server else None,
            is_text=recipient in self._text_tools,
            cited=self._cited_answer() if self._cited_answer and kind.is_message else None,
        )
        self._open = item
        if kind.is_of_server:
            if not item.is_whole:
                yield from self._begin_call(item, {})
            return
        begun = new_item(
            kind, recipient, id=item.id, call_id=item.call_id, namespaces=self._namespaces
        )
        yield self._event("response.output_item.added", output_index=item.index, item=begun)
        if item.shape.part is not None:
            yield self._of_item("response.content_part.added", item, part=item.part())

    def _ask(self, item: OutputItemBuilder, call: Message | None) -> Iterator[WireEvent]:
        """Write that a call needs an approval; a call that was cut off has no item."""
        self._open = None
        if call is None:
            return
        called = self._call_fields(item.recipient or "")
        text = item.text + item.rest(is_complete=True)
        asked = approval_item(item.id, called["server_label"], called["name"], text)
        yield self._event("response.output_item.added", output_index=item.index, item=asked)
        tokens = call.sampled_tokens if isinstance(call, SampledMessage) else None
        yield self._done(item.index, HistoryItem(asked, tokens, [call.to_dict()]))

    def _begin_call(
        self, item: OutputItemBuilder, planned: Mapping[str, Any]
    ) -> Iterator[WireEvent]:
        begun = self._server_call(item, "in_progress", planned)
        yield self._event("response.output_item.added", output_index=item.index, item=begun)
        yield self._of_item(f"response.{item.described.type}.in_progress", item)

    def _end_call_text(
        self,
        item: OutputItemBuilder,
        call: Message,
        planned: Mapping[str, Any],
        *,
        is_complete: bool,
    ) -> Iterator[WireEvent]:
        """Write the end of the model's text; the call waits for its result."""
        rest = item.rest(is_complete=is_complete)
        item.call = call
        item.planned = planned
        if item.is_whole:
            yield from self._begin_call(item, planned)
            return
        if rest:
            yield self._delta(item, rest, [])
        done = {item.shape.field: item.text}
        yield self._of_item(self._text_event(item, "done"), item, **done)

    def _give_up_call(self) -> Iterator[WireEvent]:
        """Close a call that will not run; later prompts leave it out."""
        item = self._open
        if item is not None and item.call is not None:
            given_up = self._server_call(item, "incomplete", item.planned)
            yield self._done(item.index, HistoryItem(given_up))

    def _server_call(
        self, item: OutputItemBuilder, status: str, fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        recipient = item.recipient or ""
        text = {item.shape.field: item.text} if item.shape.field else {}
        fields = {**self._call_fields(recipient), **text, **fields}
        return server_call_item(recipient, id=item.id, status=status, **fields)

    def _done(self, index: int, finished: HistoryItem) -> WireEvent:
        """Write an item that has ended."""
        self.items.append(finished)
        self.response["output"].append(finished.item)
        self._open = None
        return self._event("response.output_item.done", output_index=index, item=finished.item)

    def _end_item(
        self,
        item: OutputItemBuilder,
        message: Message,
        is_complete: bool,
        added: Mapping[str, Any] | None = None,
    ) -> Iterator[WireEvent]:
        rest = item.rest(is_complete=is_complete)
        if rest:
            yield self._delta(item, rest, item.pending_logprobs())
        if item.cited is not None:
            is_answer = item.kind is ItemKind.FINAL_ANSWER
            item.annotations += item.cited.annotations(is_answer=is_answer)
        for index, annotation in enumerate(item.annotations):
            yield self._of_item(
                "response.output_text.annotation.added",
                item,
                annotation_index=index,
                annotation=annotation,
            )
        done: dict[str, Any] = {item.shape.field: item.text}
        if item.shape is MESSAGE:
            done["logprobs"] = item.logprobs
        if item.shape is FUNCTION:
            done["name"] = new_item(item.kind, item.recipient, id="", namespaces=self._namespaces)[
                "name"
            ]
        yield self._of_item(self._text_event(item, "done"), item, **done)
        if item.shape.part is not None:
            yield self._of_item("response.content_part.done", item, part=item.part())
        finished = self._history_item(item, message, is_complete, added or {})
        for index, part in enumerate(finished.item.get("summary", ())):
            yield from self._summarise(item, index, part)
        yield self._done(item.index, finished)

    def _summarise(
        self, item: OutputItemBuilder, index: int, part: Mapping[str, Any]
    ) -> Iterator[WireEvent]:
        """Write a part of a summary, which is complete at once."""
        place = {"item_id": item.id, "output_index": item.index, "summary_index": index}
        name, text = "response.reasoning_summary", part["text"]
        yield self._event(f"{name}_part.added", **place, part={**part, "text": ""})
        yield self._event(f"{name}_text.delta", **place, delta=text)
        yield self._event(f"{name}_text.done", **place, text=text)
        yield self._event(f"{name}_part.done", **place, part=part)

    def _history_item(
        self,
        item: OutputItemBuilder,
        message: Message,
        is_complete: bool,
        added: Mapping[str, Any],
    ) -> HistoryItem:
        item_json = item_of_message(
            message,
            item.kind,
            id=item.id,
            call_id=item.call_id,
            namespaces=self._namespaces,
            status="completed" if is_complete else "incomplete",
            logprobs=item.logprobs,
        )
        if item.shape.field in ("arguments", "input"):
            item_json[item.shape.field] = item.text
        if item.cited is not None:
            item_json["content"] = [item.part()]
        summary_kind = self.response.get("reasoning", {}).get("summary")
        if item.kind is ItemKind.REASONING and summary_kind and item.text.strip():
            text = summary_of(item.text, summary_kind)
            item_json["summary"] = [{"type": "summary_text", "text": text}]
        item_json.update(added)
        tokens = message.sampled_tokens if isinstance(message, SampledMessage) else None
        return HistoryItem(item_json, tokens)

    def _delta(self, item: OutputItemBuilder, delta: str, logprobs: list[LogprobJson]) -> WireEvent:
        more = {"logprobs": logprobs} if item.shape is MESSAGE else {}
        return self._of_item(self._text_event(item, "delta"), item, delta=delta, **more)

    def _text_event(self, item: OutputItemBuilder, stage: str) -> str:
        name = self._event_names.get(item.shape.event, item.shape.event)
        return f"response.{name}.{stage}"

    def _of_item(self, type_: str, item: OutputItemBuilder, **fields: Any) -> WireEvent:
        if item.shape.part is not None:
            fields = {"content_index": 0, **fields}
        return self._event(type_, item_id=item.id, output_index=item.index, **fields)

    def _of_response(self, event: str) -> WireEvent:
        snapshot = {**self.response, "output": list(self.response["output"])}
        return self._event(f"response.{event}", response=snapshot)

    def _event(self, type_: str, **fields: Any) -> WireEvent:
        number, self._events = self._events, self._events + 1
        return {"type": type_, "sequence_number": number, **fields}
