"""The tools that a conversation declares, by the recipients that calls of them have."""

from __future__ import annotations

from collections.abc import Iterable

from .content import DeveloperContent, SystemContent
from .messages import Message
from .tool_namespaces import ToolDescription, ToolNamespaceConfig

__all__ = ["declared_tools"]


def declared_tools(messages: Iterable[Message]) -> dict[str, ToolDescription | None]:
    """Find the tools of system and developer messages; None for one that takes free text.

    >>> from openai_harmony import Role
    >>> system = Message.from_role_and_content(Role.SYSTEM, SystemContent().with_python_tool())
    >>> declared_tools([system])
    {'python': None}
    """
    return {
        recipient: tool
        for message in messages
        for item in message.content
        if isinstance(item, (SystemContent, DeveloperContent))
        for namespace in (item.tools or {}).values()
        for recipient, tool in _recipients(namespace)
    }


def _recipients(namespace: ToolNamespaceConfig) -> list[tuple[str, ToolDescription | None]]:
    if not namespace.tools:
        return [(namespace.name, None)]
    return [(f"{namespace.name}.{tool.name}", tool) for tool in namespace.tools]
