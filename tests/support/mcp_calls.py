"""Calls of the tools of an MCP server, as a model makes them."""

from __future__ import annotations

from gpt_oss_harmony import Message, Role
from gpt_oss_harmony.tools.mcp import McpTool
from gpt_oss_harmony.tools.tool import ToolMessage


def call(recipient: str, text: str = "{}") -> Message:
    message = Message.from_role_and_content(Role.ASSISTANT, text)
    return message.with_recipient(recipient).with_channel("commentary")


async def answer(tool: McpTool, name: str, text: str = "{}", *, prefix: str = "") -> ToolMessage:
    recipient = f"{prefix}{tool.namespace.name}.{name}"
    (said,) = [each async for each in tool.call(call(recipient, text), tool.new_session())]
    assert isinstance(said, ToolMessage)
    assert (said.author.role, said.author.name) == (Role.TOOL, recipient)
    assert (said.recipient, said.channel) == ("assistant", "commentary")
    return said
