"""The events of a message to the whole one, as a client joins them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..conversation_builder import arguments_object
from .input import INVALID_JSON


class MessagesFold:
    """Joins the events of a stream.

    Arguments of a call that are not a JSON object become the only field of its input.
    """

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._texts: list[list[str]] = []  # of the blocks

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an event."""
        kind, message = event["type"], self._message
        if kind == "message_start":
            message |= {**event["message"], "content": []}
        elif kind == "content_block_start":
            message["content"].append(dict(event["content_block"]))
            self._texts.append([])
        elif kind == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "signature_delta":
                message["content"][-1]["signature"] = delta["signature"]
            else:
                self._texts[-1] += [text for name, text in delta.items() if name != "type"]
        elif kind == "message_delta":
            message |= event["delta"]
            message |= {k: v for k, v in event.items() if k not in ("type", "delta")}

    def whole(self) -> dict[str, Any]:
        """Return the message."""
        for block, texts in zip(self._message["content"], self._texts, strict=True):
            text = "".join(texts)
            if block["type"] == "tool_use":
                block["input"] = arguments_object(text or "{}", INVALID_JSON)
            else:
                block[block["type"]] = text
        return self._message
