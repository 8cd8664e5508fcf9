"""Items that only the server can read: encrypted reasoning, and compactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...apis.history import HistoryItem
from ...apis.output_items import message_text
from ...conversation.messages import Message
from ...sampled_messages import SampledMessage
from ..sealed_reasoning import ReasoningSeal, UnsealError

__all__ = ["OwnedSeal"]


class OwnedSeal:
    """Seals items with their tokens for one owner, and opens what was sealed for it.

    >>> seal = OwnedSeal(ReasoningSeal.with_new_key(), owner="key_1")
    >>> text = seal.seal([HistoryItem({"type": "reasoning", "content": []}, (17171,))])
    >>> seal.open(text)
    [HistoryItem(item={'type': 'reasoning', 'content': []}, tokens=(17171,), messages=())]
    >>> seal.open("another server's")
    """

    def __init__(self, seal: ReasoningSeal, owner: str) -> None:
        self._seal = seal
        self._owner = owner

    def seal(self, items: Iterable[HistoryItem]) -> str:
        """Encrypt items."""
        return self._seal.seal({"items": [_packed(item) for item in items]}, self._owner)

    def seal_reasoning(self, message: Message) -> str:
        """Encrypt a message of reasoning, as the item that it becomes."""
        content = [{"type": "reasoning_text", "text": message_text(message)}]
        tokens = message.sampled_tokens if isinstance(message, SampledMessage) else None
        return self.seal([HistoryItem({"type": "reasoning", "content": content}, tokens)])

    def open(self, text: str) -> Sequence[HistoryItem] | None:
        """Decrypt items; None where they were not sealed here for this owner."""
        try:
            sealed = self._seal.unseal(text, self._owner)
        except UnsealError:
            return None
        return [
            HistoryItem(one["item"], _tokens(one), one.get("messages", ()))
            for one in sealed["items"]
        ]


def _packed(known: HistoryItem) -> dict[str, Any]:
    packed: dict[str, Any] = {"item": dict(known.item)}
    if known.tokens is not None:
        packed["tokens"] = list(known.tokens)
    if known.messages:
        packed["messages"] = list(known.messages)
    return packed


def _tokens(packed: dict[str, Any]) -> tuple[int, ...] | None:
    return tuple(packed["tokens"]) if "tokens" in packed else None
