"""Messages that a tool returns to a call: text for the model, and files that belong to it."""

from __future__ import annotations

import mimetypes
from dataclasses import dataclass, field

from pydantic import Field

from ..conversation.messages import Author, Message, Role
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
