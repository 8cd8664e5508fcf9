"""The `tool_choice` of both APIs, with every tool by the recipient of its calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..conversation.json_field import JsonField
from ..conversation.tool_choice import named_tools
from .requested_tools import BUILT_IN_TOOLS, RequestedTools

__all__ = ["choice_after_call", "choice_without", "chosen_built_in", "read_tool_choice"]


def read_tool_choice(choice: JsonField, tools: RequestedTools) -> str | dict[str, Any] | None:
    """Read a choice for `TurnOptions`; None restricts nothing.

    Raises `ConversationError` where it asks for a call that cannot be made.

    >>> from openai_harmony.apis.requested_tools import read_tools
    >>> tools = read_tools([JsonField({"type": "function", "name": "now"})])
    >>> read_tool_choice(JsonField({"type": "function", "name": "now"}), tools)
    {'type': 'function', 'name': 'functions.now'}
    """
    mode, named, field = named_tools(choice)
    if named is None:
        if mode == "required" and not tools.recipients:
            raise choice.error("a call is required, and the model has no tool that it could call")
        return None if mode == "auto" else mode
    if field is choice:
        (name, *others) = _recipients(choice, tools)
        return _one(name) if not others else _some("required", [name, *others])
    names = [
        name
        for tool in named
        if tool["type"].text() not in tools.others  # declared, and left out with its declaration
        for name in _recipients(tool, tools)
    ]
    if names:
        return _some(mode, names)
    if mode == "required":
        raise field.error("a call is required, and none of these can be called")
    return "none"


def chosen_built_in(
    choice: str | Mapping[str, Any] | None, tools: RequestedTools
) -> frozenset[str]:
    """Find the built-in tools that a choice, which was read, lets the model call."""
    if choice == "none":
        return frozenset()
    if choice is None or isinstance(choice, str):
        return frozenset(tools.built_in)
    if choice.get("mode") == "none":
        return frozenset()
    allowed = {tool["name"] for tool in choice.get("tools", (choice,))}
    return frozenset(
        name for name in tools.built_in if not allowed.isdisjoint(tools.recipients_of(name))
    )


def choice_after_call(
    asked: str | Mapping[str, Any] | None, choice: str | Mapping[str, Any] | None
) -> str | Mapping[str, Any] | None:
    """Return the choice for the turn after a call of a built-in tool: what was required is done.

    `asked` is the choice as the request has it, `choice` as it was read.

    >>> choice_after_call("required", "required")
    >>> choice_after_call("none", "none")
    'none'
    """
    if choice == "required" or not isinstance(choice, Mapping):
        return None if choice == "required" else choice
    is_list = isinstance(asked, Mapping) and asked.get("type") == "allowed_tools"
    return {**choice, "mode": "auto"} if is_list and "tools" in choice else None


def choice_without(
    built_in: Collection[str],
    choice: str | Mapping[str, Any] | None,
    recipients: Iterable[str],
) -> str | dict[str, Any]:
    """Return a choice that leaves the built-in tools out, of `recipients` that are declared.

    >>> choice_without({"python"}, None, ["python"])
    'none'
    """
    if choice == "none":
        return "none"
    if isinstance(choice, Mapping):
        recipients = [tool["name"] for tool in choice.get("tools", (choice,))]
    left = [name for name in recipients if name.partition(".")[0] not in built_in]
    return _some("auto", left) if left else "none"


def _recipients(tool: JsonField, tools: RequestedTools) -> list[str]:
    """Find the recipients that a choice names: one tool, or all of a namespace."""
    kind = tool["type"].text()
    built_in = tools.recipients_of(BUILT_IN_TOOLS.get(kind, ""))
    if built_in:
        return built_in
    if kind not in ("function", "custom", "namespace"):
        raise tool["type"].error(
            f"a tool of the type {kind!r:.80} cannot be called here; {_declared(tools)}"
        )
    named = tool if tool[kind].is_null else tool[kind]
    name = named["name"]
    if kind == "namespace":
        found = [one for one in tools.recipients if one.startswith(f"{name.text()}.")]
    else:
        recipient = tools.recipient(name.text(), named["namespace"].optional_text())
        found = [recipient] if recipient in tools.recipients else []
    if not found:
        raise name.error(f"{name.value!r:.80} is not declared; {_declared(tools)}")
    return found


def _declared(tools: RequestedTools) -> str:
    return f"declared are: {', '.join(tools.recipients) or 'none'}"


def _one(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name}


def _some(mode: str, names: Iterable[str]) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": [_one(name) for name in names]}
