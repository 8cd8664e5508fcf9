"""What a request asks of a model, whichever API it came by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..conversation.content import DeveloperContent
from ..conversation.messages import Conversation, declared_tools
from ..engines.sampling import Sampling

__all__ = ["TurnRequest"]


@dataclass(frozen=True)
class TurnRequest:
    """A conversation to go on with, and how.

    - `conversation`: as it is rendered; past reasoning has been left out.
    - `sampling`: settings for the engine, without a grammar.
    - `tool_choice`, `response_format`: JSON as Chat Completions has it, for `TurnOptions`; None
      where the request restricts nothing.
    - `stop`: texts that end an answer, and are not part of it.
    - `custom_tools`: the recipients whose calls carry text for the client and not JSON.
    - `strict_tools`: the recipients whose schema must be enforced, or the request be refused.
    - `built_in_tools`: the names of the server's own tools that may be called.
    """

    conversation: Conversation
    sampling: Sampling = field(default_factory=Sampling)
    tool_choice: Any = None
    response_format: Mapping[str, Any] | None = None
    stop: tuple[str, ...] = ()
    custom_tools: frozenset[str] = frozenset()
    strict_tools: frozenset[str] = frozenset()
    built_in_tools: frozenset[str] = frozenset()

    @property
    def tools(self) -> frozenset[str]:
        """The recipients that are declared."""
        return frozenset(declared_tools(self.conversation.messages))

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces of the developer's tools, but for `functions`."""
        return frozenset(
            name
            for message in self.conversation.messages
            for item in message.content
            if isinstance(item, DeveloperContent)
            for name in item.tools or ()
            if name != "functions"
        )

    @property
    def is_constrained(self) -> bool:
        """Whether it asks for something that a grammar can make sure of."""
        return self.response_format is not None or bool(self.tools)
