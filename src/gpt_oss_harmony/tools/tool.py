"""The interface of built-in tools: a call goes in, messages come out.

Messages have text for the model, and files that belong to it.
"""

from __future__ import annotations

import mimetypes
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from pydantic import Field

from ..conversation.content import SystemContent
from ..conversation.messages import Author, Message, Role
from ..conversation.tool_namespaces import ToolNamespaceConfig
from ..errors import HarmonyError
from ..tokens.python_encoder import without_surrogates


@dataclass(frozen=True)
class Attachment:
    """A file that belongs to a tool message: an image that code showed, or a file that it wrote.

    `name` is the path of the file below ``/mnt/data``, or a generated name.

    >>> Attachment.of_file("tables/sales.csv", b"a,b").mime_type
    'text/csv'
    """

    name: str
    data: bytes = field(repr=False)
    mime_type: str

    @classmethod
    def of_file(cls, name: str, data: bytes) -> Attachment:
        """Make an attachment of a file; its name determines its type."""
        kind, encoding = mimetypes.guess_type(name, strict=True)
        # Of `a.csv.gz`, the type would be that of the file inside.
        if kind is None or encoding is not None:
            kind = "application/octet-stream"
        return cls(name, data, kind)


class ToolMessage(Message):
    """A message of a tool. The model and JSON see only the fields that every message has.

    - `attachments`: the files that belong to the message.
    - `is_error`: the call failed, and the text has the reason. An error in the model's own code
      does not count: its traceback is a normal result.
    """

    attachments: tuple[Attachment, ...] = Field(default=(), exclude=True, repr=False)
    is_error: bool = Field(default=False, exclude=True, repr=False)


def tool_message(
    call: Message, text: str, *, attachments: tuple[Attachment, ...] = (), is_error: bool = False
) -> ToolMessage:
    """Make the tool's message: by the recipient of the call, to the assistant, on its channel.

    U+FFFD replaces characters that cannot be encoded, which a model can write in JSON.
    """
    author = Author.new(Role.TOOL, call.recipient or "")
    message = Message.from_author_and_content(author, without_surrogates(text))
    message = message.with_recipient("assistant")
    if call.channel is not None:
        message = message.with_channel(call.channel)
    return ToolMessage(**dict(message), attachments=attachments, is_error=is_error)


def failure_message(call: Message, problem: object) -> ToolMessage:
    """Make the message for a call that failed.

    >>> call = Message.from_role_and_content("assistant", "{}").with_recipient("browser.open")
    >>> failed = failure_message(call, "there is no page")
    >>> failed.content[0].text, failed.is_error
    ('Error: there is no page', True)
    """
    return tool_message(call, f"Error: {problem}", is_error=True)


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
