"""What a call of python does, as a ``code_interpreter_call`` shows it."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from ...apis.output_items import message_text
from ...tools.python.attachment import Attachment
from ...tools.python.code import read_code
from ...tools.tool_message import ToolMessage

__all__ = ["ShownCode", "outputs_of"]

_MOST_SHOWN = 4 << 20  # bytes of an image within a response; larger ones are files alone


class ShownCode:
    """The code for clients while the model writes it; a wrapping is taken off at the end.

    >>> code = ShownCode()
    >>> [code.feed("1 +"), code.feed(" 1"), code.rest()]
    ['1 +', ' 1', '']
    >>> code = ShownCode()
    >>> [code.feed('{"code": "1'), code.feed(' + 1"}'), code.rest()]
    ['', '', '1 + 1']
    """

    def __init__(self) -> None:
        self._held = ""
        self._is_plain = False

    def feed(self, text: str) -> str:
        """Take text; return what the shown code grows by."""
        if self._is_plain:
            return text
        self._held += text
        begun = self._held.lstrip()
        if not begun or begun[0] in "{`":
            return ""
        self._is_plain = True
        return self._held

    def rest(self) -> str:
        """Return what the shown code grows by at the end."""
        return "" if self._is_plain else read_code(self._held)


def outputs_of(messages: Iterable[ToolMessage]) -> list[dict[str, Any]]:
    """List what a call has put out: its texts, and its images as data URLs."""
    messages = list(messages)
    texts = filter(None, map(message_text, messages))
    logs: list[dict[str, Any]] = [{"type": "logs", "logs": text} for text in texts]
    images = [
        {"type": "image", "url": _data_url(one)}
        for message in messages
        for one in message.attachments
        if one.mime_type.startswith("image/") and len(one.data) <= _MOST_SHOWN
    ]
    return logs + images


def _data_url(image: Attachment) -> str:
    return f"data:{image.mime_type};base64,{base64.b64encode(image.data).decode('ascii')}"
