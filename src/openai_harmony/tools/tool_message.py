"""What a tool says to a call: a message, the files that belong to it, and whether it failed."""

from __future__ import annotations

from pydantic import Field

from ..conversation.messages import Author, Message, Role
from .python.attachment import Attachment

__all__ = ["ToolMessage", "failure_message", "tool_message"]


class ToolMessage(Message):
    """A message of a tool. Only what every message has is for the model, and part of any JSON.

    - `attachments`: the files that belong to it.
    - `is_error`: whether the call could not be done; the text says why. What goes wrong in the
      model's own code is none: a traceback is what that code does.
    """

    attachments: tuple[Attachment, ...] = Field(default=(), exclude=True, repr=False)
    is_error: bool = Field(default=False, exclude=True, repr=False)


def tool_message(
    call: Message, text: str, *, attachments: tuple[Attachment, ...] = (), is_error: bool = False
) -> ToolMessage:
    """Make a tool's answer to a call: by its recipient, to the assistant, on the same channel.

    Text that cannot be encoded, which a model can write in JSON, is replaced by U+FFFD.
    """
    encodable = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    author = Author.new(Role.TOOL, call.recipient or "")
    said = Message.from_author_and_content(author, encodable).with_recipient("assistant")
    if call.channel is not None:
        said = said.with_channel(call.channel)
    return ToolMessage(**dict(said), attachments=attachments, is_error=is_error)


def failure_message(call: Message, problem: object) -> ToolMessage:
    """Make the answer to a call that could not be done.

    >>> call = Message.from_role_and_content("assistant", "{}").with_recipient("browser.open")
    >>> failed = failure_message(call, "there is no page")
    >>> failed.content[0].text, failed.is_error
    ('Error: there is no page', True)
    """
    return tool_message(call, f"Error: {problem}", is_error=True)
