"""The sessions of built-in tools, one of each tool for each session with a client."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..tool import Tool, ToolSession

__all__ = ["Conversation", "Conversations"]


@dataclass
class Conversation:
    """What the tools keep for one client; the lock is held during a call, as they ask."""

    sessions: dict[str, ToolSession]
    """By the names of the tools."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Conversations:
    """Conversations by the ids of sessions; beyond `most`, those unused longest are forgotten."""

    def __init__(self, tools: Sequence[Tool[Any]], most: int) -> None:
        self._tools = tools
        self._most = most
        self._known: OrderedDict[str, Conversation] = OrderedDict()

    def get(self, key: str) -> Conversation:
        """Return the conversation of a session; begin it where there is none."""
        if key not in self._known:
            self._known[key] = Conversation(
                {tool.namespace.name: tool.new_session() for tool in self._tools}
            )
        self._known.move_to_end(key)
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return self._known[key]
