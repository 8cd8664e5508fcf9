"""Tools that a chat runs itself, with what they keep of the conversation."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..conversation.messages import Message

if TYPE_CHECKING:
    from ..tools.tool import Tool, ToolSession
    from ..tools.tool_message import ToolMessage

__all__ = ["ChatTools", "shortened"]

_LINES = 8
_CHARACTERS = 600
_LAST_STEPS = 0.2  # seconds in which a tool that was interrupted says so to what it runs


class ChatTools:
    """The tools of one chat, which has one conversation at a time; the caller closes them."""

    def __init__(self, tools: Sequence[Tool[Any]]) -> None:
        self._tools = tools
        self._sessions: dict[str, ToolSession] = {}
        self._folder: Path | None = None

    def run(self, recipient: str | None) -> bool:
        """Say whether one of the tools runs calls to a recipient."""
        return any(tool.accepts(recipient) for tool in self._tools)

    async def answers(self, call: Message) -> list[ToolMessage]:
        """Return what the tool that is called says; cancelled, it is interrupted."""
        tool = next(tool for tool in self._tools if tool.accepts(call.recipient))
        name = tool.namespace.name
        if name not in self._sessions:
            self._sessions[name] = tool.new_session()
        try:
            return [message async for message in tool.call(call, self._sessions[name])]
        except asyncio.CancelledError:
            # After this the loop stands still until the person has written the next line.
            await asyncio.sleep(_LAST_STEPS)
            raise

    def begin_anew(self) -> None:
        """Forget the conversation."""
        self._sessions.clear()

    def saved(self, answer: ToolMessage) -> list[Path]:
        """Write the files that belong to an answer to a new folder, which stays; return them.

        Where a file of the conversation had the same name, it is replaced.
        """
        files = []
        for attachment in answer.attachments:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="harmony-chat-"))
            file = self._folder / attachment.name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(attachment.data)
            files.append(file)
        return files


def shortened(text: str) -> str:
    r"""Return the beginning of a text, and how much there is more.

    >>> shortened("\n".join("abcdefghijkl"))[-16:]
    'h\n[4 lines more]'
    """
    lines = text[:_CHARACTERS].split("\n")
    shown = "\n".join(lines[:_LINES])
    if len(lines) > _LINES:
        return f"{shown}\n[{text.count(chr(10)) + 1 - _LINES:,} lines more]"
    if len(text) > len(shown):
        return f"{shown}\n[{len(text) - len(shown):,} characters more]"
    return shown
