"""An output item of a response while the model writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...apis.custom_tools import CustomToolInput
from ...apis.items import ItemKind
from ...apis.output_items import call_arguments
from ...conversation.built_in_tools import CallItem, call_item
from ...conversation.messages import Message
from ..generation.events import LogprobJson, TokenLogprob
from ..tools.call_items import ShownCode
from ..tools.citations import CitedAnswer

__all__ = ["FUNCTION", "MESSAGE", "ItemShape", "OutputItemBuilder"]


class ItemShape(NamedTuple):
    """The field with the text of a kind of items, and the name of its events."""

    part: str | None  # the type of the content part with the text; None if the item has it
    field: str
    event: str


MESSAGE = ItemShape("output_text", "text", "output_text")
FUNCTION = ItemShape(None, "arguments", "function_call_arguments")
_SHAPES = {
    ItemKind.REASONING: ItemShape("reasoning_text", "text", "reasoning_text"),
    ItemKind.COMMENTARY: MESSAGE,
    ItemKind.FINAL_ANSWER: MESSAGE,
    ItemKind.FUNCTION_CALL: FUNCTION,
    ItemKind.CUSTOM_TOOL_CALL: ItemShape(None, "input", "custom_tool_call_input"),
    ItemKind.MCP_APPROVAL_REQUEST: ItemShape(None, "arguments", ""),
}


@dataclass
class OutputItemBuilder:
    """An item that has begun and whose text grows."""

    kind: ItemKind
    recipient: str | None
    index: int
    id: str
    call_id: str | None
    is_text: bool = False
    """Whether a call of a custom tool contains plain text instead of JSON."""
    cited: CitedAnswer | None = None
    """Converts a text for the user: its citations become links."""
    logprobs: list[LogprobJson] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)
    call: Message | None = None
    """The call of a built-in tool, once it is complete and waits for its result."""
    planned: Mapping[str, Any] = field(default_factory=dict)
    """The fields that the item of that call already has."""
    described: CallItem = field(init=False)
    """The item of a call of a server's tool."""
    shape: ItemShape = field(init=False)
    """The field and the events of its text."""
    is_whole: bool = field(init=False)
    """Whether the item has no event before the model's text is complete."""
    delta_json: tuple[str, str, str, str] | None = None
    """The name of its text events, and their JSON before, between and after number and text."""
    _sampled: list[str] = field(default_factory=list)
    _emitted: list[str] = field(default_factory=list)
    _pending_logprobs: list[LogprobJson] = field(default_factory=list)
    _converter: CustomToolInput | ShownCode | CitedAnswer | None = None

    def __post_init__(self) -> None:
        self.described = call_item(self.recipient or "")
        if self.kind is ItemKind.SERVER_CALL:
            self.shape = ItemShape(None, self.described.text, self.described.text_events)
        else:
            self.shape = _SHAPES[self.kind]
        self.is_whole = self.kind.is_of_server and not self.shape.event
        self._converter = self.cited
        if self.kind is ItemKind.CUSTOM_TOOL_CALL:
            self._converter = CustomToolInput(is_text=self.is_text)
        elif self.kind is ItemKind.SERVER_CALL and self.described.text == "code":
            self._converter = ShownCode()

    @property
    def sampled_text(self) -> str:
        """The text that the model wrote."""
        return "".join(self._sampled)

    @property
    def text(self) -> str:
        """The text that clients have so far."""
        return "".join(self._emitted)

    def add(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> tuple[str, list[LogprobJson]]:
        """Take text; return the text that is safe to emit to clients, and its log-probabilities."""
        self._sampled.append(text)
        emitted = text if self._converter is None else self._converter.feed(text)
        self._emitted.append(emitted)
        if logprobs:
            written = [logprob.to_json() for logprob in logprobs]
            self.logprobs += written
            self._pending_logprobs += written
        return emitted, self.pending_logprobs() if emitted else []

    def pending_logprobs(self) -> list[LogprobJson]:
        """Return the log-probabilities of the tokens whose text was pending."""
        pending, self._pending_logprobs = self._pending_logprobs, []
        return pending

    def rest(self, *, is_complete: bool) -> str:
        """Return the rest of the text for clients."""
        rest = "" if self._converter is None else self._converter.rest()
        if self.shape.field == "arguments" and not self.text.strip():
            rest = call_arguments("", is_complete=is_complete)
        self._emitted.append(rest)
        return rest

    def part(self) -> dict[str, Any]:
        """Return the content part with the text so far."""
        part: dict[str, Any] = {"type": self.shape.part, "text": self.text}
        if self.shape is MESSAGE:
            part |= {"annotations": list(self.annotations), "logprobs": list(self.logprobs)}
        return part
