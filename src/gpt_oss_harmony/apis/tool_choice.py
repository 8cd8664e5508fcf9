"""The `tool_choice` of both APIs as a `ToolChoice` of the recipients that may be called."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..conversation.built_in_tools import requested_tool
from ..conversation.json_field import JsonField
from ..conversation.tool_choice import ToolChoice, named_tools
from ..conversation.tool_namespaces import namespace_of
from .requested_tools import RequestedTools

__all__ = ["choice_without", "chosen_built_in", "read_later_choice", "read_tool_choice"]


def read_tool_choice(choice: JsonField, tools: RequestedTools) -> ToolChoice:
    """Read a choice; null restricts nothing.

    Raises `ConversationError` if it requires a call that is impossible.

    >>> from gpt_oss_harmony.apis.requested_tools import read_tools
    >>> tools = read_tools([JsonField({"type": "function", "name": "now"})])
    >>> read_tool_choice(JsonField({"type": "function", "name": "now"}), tools)
    ToolChoice(mode='required', names=('functions.now',))
    """
    mode, named, field = named_tools(choice)
    if named is None:
        if mode == "required" and not tools.recipients:
            raise choice.error("a call is required, but the model has no tool to call")
        return ToolChoice(mode)
    names = [
        name
        for tool in named
        # An allowed tool that the model cannot have was left out with its declaration.
        if tool is choice or tool["type"].text() not in tools.others
        for name in _recipients(tool, tools)
    ]
    if names:
        return ToolChoice(mode, tuple(names))
    if mode == "required":
        raise field.error("a call is required, but none of these tools can be called")
    return ToolChoice("none")


def read_later_choice(choice: JsonField, first: ToolChoice) -> ToolChoice:
    """Return the choice after a call of a built-in tool; `first` was read from `choice`.

    The required call is then done. The tools of a list are still allowed; without a list, all are.

    >>> read_later_choice(JsonField("required"), ToolChoice("required"))
    ToolChoice(mode='auto', names=None)
    """
    if first.mode == "none":
        return first
    is_list = named_tools(choice).field is not choice
    return ToolChoice("auto", first.names if is_list else None)


def chosen_built_in(choice: ToolChoice, tools: RequestedTools) -> frozenset[str]:
    """Return the built-in tools that a choice allows."""
    if choice.mode == "none":
        return frozenset()
    if choice.names is None:
        return frozenset(tools.built_in)
    return frozenset(
        name
        for name in tools.built_in
        if not set(choice.names).isdisjoint(tools.recipients_of(name))
    )


def choice_without(
    built_in: Collection[str], choice: ToolChoice, recipients: Iterable[str]
) -> ToolChoice:
    """Return a choice without the built-in tools; `recipients` are all declared ones.

    >>> choice_without({"python"}, ToolChoice(), ["python"])
    ToolChoice(mode='none', names=None)
    """
    names = recipients if choice.names is None else choice.names
    left = tuple(name for name in names if namespace_of(name) not in built_in)
    return ToolChoice("auto", left) if left and choice.mode != "none" else ToolChoice("none")


def _recipients(tool: JsonField, tools: RequestedTools) -> list[str]:
    """Return the recipients that a choice names: one tool, or all tools of a namespace."""
    kind = tool["type"].text()
    if built_in := tools.recipients_of(requested_tool(kind)):
        return built_in
    declared = f"declared tools: {', '.join(tools.recipients) or 'none'}"
    if kind not in ("function", "custom", "namespace"):
        raise tool["type"].error(
            f"a tool of the type {kind!r:.80} cannot be called here; {declared}"
        )
    named = tool if tool[kind].is_null else tool[kind]
    name = named["name"]
    if kind == "namespace":
        prefix = f"{name.text()}."
        recipients = [item for item in tools.recipients if item.startswith(prefix)]
    else:
        recipient = tools.recipient(name.text(), named["namespace"].optional_text())
        recipients = [recipient] if recipient in tools.recipients else []
    if not recipients:
        raise name.error(f"{name.value!r:.80} is not declared; {declared}")
    return recipients
