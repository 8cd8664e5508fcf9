"""The interface of built-in tools: a call goes in, messages come out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ..conversation.content import SystemContent
from ..conversation.messages import Message
from ..conversation.tool_namespaces import ToolNamespaceConfig
from ..errors import HarmonyError
from .tool_message import ToolMessage

__all__ = ["ServerFunction", "ServerTool", "Tool", "ToolError", "ToolSession"]


class ToolError(HarmonyError):
    """A call failed; the message is for the model and names a remedy."""


class ToolSession(Protocol):
    """A tool's state in one conversation; it can be stored as JSON with each response."""

    def to_json(self) -> str:
        """Return the session as JSON text, which `Tool.load_session` reads."""
        ...


_Session = TypeVar("_Session", bound=ToolSession)


class Tool(ABC, Generic[_Session]):
    """A built-in tool. All conversations share it; a session has the state of one conversation.

    Only one call at a time uses a session, because a conversation makes its calls one by one.
    """

    @property
    @abstractmethod
    def namespace(self) -> ToolNamespaceConfig:
        """The namespace that the system message declares; its name is the name of the tool."""

    @abstractmethod
    def new_session(self) -> _Session:
        """Begin a conversation."""

    @abstractmethod
    def load_session(self, stored: str) -> _Session:
        """Read the JSON of a session; raises `ValueError` if it is invalid."""

    @abstractmethod
    def call(self, message: Message, session: _Session) -> AsyncIterator[ToolMessage]:
        """Run the call in a message and yield the messages that the tool returns.

        `accepts` must allow the message's recipient. Every problem with the call becomes a message
        to the model; an exception is a bug.
        """

    @abstractmethod
    async def close(self) -> None:
        """Free the tool's resources; calls in progress may fail."""

    def declare(self, content: SystemContent) -> SystemContent:
        """Declare the tool in a system message, in place."""
        return content.with_tools(self.namespace)

    def accepts(self, recipient: str | None) -> bool:
        """Return whether a message to `recipient` calls this tool, in any spelling of models."""
        bare = (recipient or "").removeprefix("functions.")
        return bare.partition(".")[0] == self.namespace.name


@dataclass(frozen=True)
class ServerFunction:
    """A function as its server lists it; `input_schema` and `annotations` are JSON.

    >>> ServerFunction("get-time", "Tells it.", {}, {"readOnlyHint": True}).is_read_only
    True
    """

    name: str
    description: str | None
    input_schema: Mapping[str, Any]
    annotations: Mapping[str, Any] | None = None

    @property
    def is_read_only(self) -> bool:
        """True if the server declares that the function changes nothing."""
        return (self.annotations or {}).get("readOnlyHint") is True


class ServerTool(Tool[_Session]):
    """The tools of another server; all conversations share the server's state."""

    @property
    @abstractmethod
    def functions(self) -> Mapping[str, ServerFunction]:
        """The functions that the server lists, by their names in `namespace`."""
