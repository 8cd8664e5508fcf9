"""What came of a call of an MCP server's tool, as an ``mcp_call`` shows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...apis.output_items import message_text
from ...tools.tool_message import ToolMessage

__all__ = ["mcp_outcome"]

_ERROR = "Error: "  # how failures begin for the model; clients have a field for them


def mcp_outcome(messages: Iterable[ToolMessage]) -> dict[str, Any]:
    """Return the output of a call, or its error.

    >>> call = ToolMessage.from_role_and_content("assistant", "{}")
    >>> from openai_harmony.tools.tool_message import failure_message
    >>> mcp_outcome([failure_message(call, "no such city")])["error"]["content"]
    [{'type': 'text', 'text': 'no such city'}]
    """
    messages = list(messages)
    text = "\n".join(map(message_text, messages))
    if not any(message.is_error for message in messages):
        return {"output": text, "error": None}
    content = [{"type": "text", "text": text.removeprefix(_ERROR)}]
    return {"output": None, "error": {"type": "mcp_tool_execution_error", "content": content}}
