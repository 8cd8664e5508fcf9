"""Tools and choices of tools as a response repeats them: flat, with every nullable field.

What opens an MCP server is left out, so that no response holds a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["echoed_tool_choice", "echoed_tools"]

_NESTED = ("function", "custom")
_SECRETS = ("authorization", "headers")


def echoed_tools(tools: Iterable[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """Repeat the tools of a request.

    >>> echoed_tools([{"type": "function", "function": {"name": "now"}}])[0]["parameters"] is None
    True
    """
    return [_tool(tool) for tool in tools or ()]


def echoed_tool_choice(choice: str | Mapping[str, Any] | None) -> str | dict[str, Any]:
    """Repeat a choice; leaving it out is ``auto``.

    >>> echoed_tool_choice({"type": "function", "function": {"name": "now"}})
    {'type': 'function', 'name': 'now'}
    """
    if choice is None or isinstance(choice, str):
        return choice or "auto"
    if choice.get("type") in ("none", "auto", "required"):
        return str(choice["type"])
    if choice.get("type") != "allowed_tools":
        return _flat(choice)
    allowed = choice.get("allowed_tools") or choice
    tools = [_flat(tool) for tool in allowed["tools"]]
    return {"type": "allowed_tools", "mode": allowed.get("mode") or "auto", "tools": tools}


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    flat = _flat(tool)
    name = flat.get("name")
    if flat["type"] == "function":
        known = {"type": "function", "name": name, "description": None, "parameters": None}
        return {**known, "strict": None, **flat}
    if flat["type"] == "custom":
        known = {"type": "custom", "name": name, "description": None}
        return {**known, "format": {"type": "text"}, **flat}
    if flat["type"] == "code_interpreter":
        return {"container": {"type": "auto"}, **flat}
    if flat["type"] == "namespace":
        members = echoed_tools(flat.get("tools"))
        return {**flat, "description": flat.get("description") or "", "tools": members}
    if flat["type"] == "mcp":
        return {name: value for name, value in flat.items() if name not in _SECRETS}
    return flat


def _flat(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Lift the fields that Chat Completions puts under the type's name."""
    kind = tool["type"]
    nested = tool.get(kind) if kind in _NESTED else None
    return {"type": kind, **nested} if isinstance(nested, Mapping) else dict(tool)
