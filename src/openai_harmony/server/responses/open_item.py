"""An item of a response while the model writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...apis.custom_input import CustomToolInput
from ...apis.item_kind import ItemKind
from ...conversation.messages import Message
from ..tools.citations import CitedAnswer
from ..tools.code_interpreter import ShownCode
from ..turns.events import TokenLogprob

__all__ = ["FUNCTION", "MESSAGE", "ItemShape", "OpenItem", "logprob_json"]


class ItemShape(NamedTuple):
    """Where the text of a kind of items stands, and what its events are called."""

    part: str | None  # the type of the part that holds the text; None where the item itself does
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
    ItemKind.WEB_SEARCH_CALL: ItemShape(None, "", ""),
    ItemKind.CODE_INTERPRETER_CALL: ItemShape(None, "code", "code_interpreter_call_code"),
    ItemKind.MCP_CALL: ItemShape(None, "arguments", "mcp_call_arguments"),
}
_LEAST = -9999.0  # what the API writes for an impossible token: JSON has no infinity


@dataclass
class OpenItem:
    """An item that has begun: its text grows."""

    kind: ItemKind
    recipient: str | None
    index: int
    id: str
    call_id: str | None
    cited: CitedAnswer | None = None
    """What clients see of a text for the user."""
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    _said: list[str] = field(default_factory=list)
    _shown: list[str] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)
    call: Message | None = None
    """The call of a built-in tool, once it is whole and waits for its answer."""
    planned: Mapping[str, Any] = field(default_factory=dict)
    """What the item of that call shows already."""
    _reader: CustomToolInput | ShownCode | CitedAnswer | None = None
    _untold: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._reader = self.cited
        if self.kind is ItemKind.CUSTOM_TOOL_CALL:
            self._reader = CustomToolInput()
        elif self.kind is ItemKind.CODE_INTERPRETER_CALL:
            self._reader = ShownCode()

    @property
    def shape(self) -> ItemShape:
        """Where its text stands."""
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
        shown = text if self._reader is None else self._reader.feed(text)
        self._shown.append(shown)
        known = [logprob_json(logprob) for logprob in logprobs]
        self.logprobs += known
        self._untold += known
        return shown, self.untold_logprobs() if shown else []

    def untold_logprobs(self) -> list[dict[str, Any]]:
        """Return those of the tokens whose text was held back until now."""
        untold, self._untold = self._untold, []
        return untold

    def rest(self, *, is_complete: bool) -> str:
        """Return what the text for clients grows by at the end."""
        rest = "" if self._reader is None else self._reader.rest()
        if self.shape.field == "arguments" and is_complete and not self.text.strip():
            rest = "{}"  # what clients parse is JSON
        self._shown.append(rest)
        return rest

    def part(self) -> dict[str, Any]:
        """The part that holds the text, as it stands."""
        part: dict[str, Any] = {"type": self.shape.part, "text": self.text}
        if self.shape is MESSAGE:
            part |= {"annotations": list(self.annotations), "logprobs": list(self.logprobs)}
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
