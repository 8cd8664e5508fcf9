"""Items that a conversation already has, as they are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

__all__ = ["HistoryItem", "NewId", "Unseal"]


class HistoryItem(NamedTuple):
    """An item of the Responses API, and what only the server knows of it.

    - `tokens`: those that it was sampled as, where they are known.
    - `messages`: for the call of a built-in tool that the server has answered, the call and what
      the tool said, as the JSON of harmony messages.
    """

    item: Mapping[str, Any]
    tokens: tuple[int, ...] | None = None
    messages: Sequence[Mapping[str, Any]] = ()


Unseal: TypeAlias = "Callable[[str], Sequence[HistoryItem] | None]"
"""Opens an `encrypted_content`; None where this server has not made it."""

NewId: TypeAlias = "Callable[[str], str]"
"""Makes an id that starts with a prefix such as ``msg``."""
