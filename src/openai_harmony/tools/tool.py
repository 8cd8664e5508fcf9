"""The interface of the built-in tools: a call in, the tool's messages out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Generic, Protocol, TypeVar

from ..conversation.content import SystemContent, TextContent
from ..conversation.messages import Message
from ..conversation.tool_namespaces import ToolNamespaceConfig
from .tool_message import ToolMessage

__all__ = ["Tool", "ToolSession", "call_text"]


class ToolSession(Protocol):
    """What a tool keeps of one conversation; it can be stored as JSON with each response."""

    def to_json(self) -> str:
        """Return the session as JSON text, which `Tool.load_session` reads."""
        ...


_Session = TypeVar("_Session", bound=ToolSession)


class Tool(ABC, Generic[_Session]):
    """A built-in tool, shared by all conversations; what belongs to one is in its session.

    A session is used by one call at a time, as a conversation makes one after the other.
    """

    @property
    @abstractmethod
    def namespace(self) -> ToolNamespaceConfig:
        """What the system message declares; its name is the tool's."""

    @abstractmethod
    def new_session(self) -> _Session:
        """Begin a conversation."""

    @abstractmethod
    def load_session(self, stored: str) -> _Session:
        """Read the JSON of a session; raises `ValueError` where it is none."""

    @abstractmethod
    def call(self, message: Message, session: _Session) -> AsyncIterator[ToolMessage]:
        """Do what a message asks for, and yield what the tool says, as `ToolMessage`.

        `message` is one that `accepts` its recipient. Whatever the model wrote, and whatever went
        wrong with it, becomes a message to the model; an exception is a bug.
        """

    @abstractmethod
    async def close(self) -> None:
        """Free what the tool holds; calls under way may fail."""

    def declare(self, content: SystemContent) -> SystemContent:
        """Declare the tool in a system message, in place."""
        return content.with_tools(self.namespace)

    def accepts(self, recipient: str | None) -> bool:
        """Say whether a message to `recipient` is a call of this tool, as models write it."""
        bare = (recipient or "").removeprefix("functions.")
        return bare.partition(".")[0] == self.namespace.name


def call_text(message: Message) -> str:
    """Return the text of a call."""
    return "".join(item.text for item in message.content if isinstance(item, TextContent))
