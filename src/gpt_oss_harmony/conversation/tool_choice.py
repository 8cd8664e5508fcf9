"""The `tool_choice` of the Responses and Chat Completions APIs: a mode, and the named tools."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from .json_field import JsonField

ToolMode: TypeAlias = Literal["none", "auto", "required"]

_MODES: tuple[ToolMode, ...] = ("none", "auto", "required")


class ToolChoice(NamedTuple):
    """Whether calls are allowed, and their recipients (None: all declared ones)."""

    mode: ToolMode = "auto"
    names: tuple[str, ...] | None = None


class NamedTools(NamedTuple):
    """Whether calls are allowed, and the tools that a choice names (None: all declared ones).

    `field` is the list of tools, or the choice itself.
    """

    mode: ToolMode
    tools: list[JsonField] | None
    field: JsonField


def named_tools(choice: JsonField) -> NamedTools:
    """Read a choice in any of its forms; null is ``auto``. The tools are returned unread.

    Raises `ConversationError`, which names the wrong field.

    >>> choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "python"}]}
    >>> named_tools(JsonField(choice, "tool_choice")).tools[0].path
    'tool_choice.tools[0]'
    """
    if choice.is_null:
        return NamedTools("auto", None, choice)
    if isinstance(choice.value, str):
        return NamedTools(_mode(choice), None, choice)
    kind = choice["type"].value
    if kind in _MODES:  # {"type": "auto"}, as some clients write it
        return NamedTools(_mode(choice["type"]), None, choice)
    if kind != "allowed_tools":
        return NamedTools("required", [choice], choice)
    allowed = choice if choice["allowed_tools"].is_null else choice["allowed_tools"]
    mode = "auto" if allowed["mode"].is_null else _mode(allowed["mode"])
    return NamedTools(mode, list(allowed["tools"].items()), allowed["tools"])


def _mode(field: JsonField) -> ToolMode:
    text = field.text()
    for mode in _MODES:
        if text == mode:
            return mode
    raise field.unexpected("one of none, auto, required, or an object that names a tool")
