"""Which calls a turn may make: the `tool_choice` of the APIs, against what is declared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from .calls import Call
from .errors import GrammarError

__all__ = ["ToolChoice", "chosen_calls"]


class ToolChoice(NamedTuple):
    """Whether calls are allowed, and to which recipients (None: to all that are declared).

    >>> ToolChoice.read({"type": "function", "name": "get_weather"})
    ToolChoice(mode='required', names=('get_weather',))
    """

    mode: Literal["none", "auto", "required"] = "auto"
    names: tuple[str, ...] | None = None

    @classmethod
    def read(cls, raw: str | Mapping[str, Any] | ToolChoice | None) -> ToolChoice:
        """Read what the Responses and the Chat Completions API take; None is ``auto``."""
        if raw is None or isinstance(raw, ToolChoice):
            return raw or cls()
        if isinstance(raw, str):
            return cls(_mode(raw))
        if isinstance(raw, Mapping):
            allowed = raw.get("allowed_tools", raw)
            if raw.get("type") == "allowed_tools" and isinstance(allowed, Mapping):
                tools = allowed.get("tools")
                if not isinstance(tools, list):
                    raise GrammarError("tool_choice.tools: expected a list of tools")
                return cls(_mode(allowed.get("mode", "auto")), tuple(map(_name, tools)))
            return cls("required", (_name(raw),))
        raise GrammarError(f"tool_choice: expected text or an object, found {raw!r:.80}")


def _mode(raw: object) -> Literal["none", "auto", "required"]:
    if raw == "none" or raw == "auto" or raw == "required":
        return raw
    raise GrammarError(
        f"tool_choice: {raw!r:.80} is unknown",
        remedy='use "none", "auto", "required" or an object that names a tool',
    )


def _name(raw: object) -> str:
    """Read the name of a function, or the type of a built-in tool."""
    if isinstance(raw, Mapping):
        function = raw.get("function", raw)
        name = function.get("name") if isinstance(function, Mapping) else None
        if name is None and raw.get("type") != "function":
            name = raw.get("type")
        if isinstance(name, str):
            return name
    raise GrammarError(
        f"tool_choice: {raw!r:.80} names no tool",
        remedy='write it as {"type": "function", "name": ...}',
    )


def chosen_calls(choice: ToolChoice, declared: Mapping[str, Call]) -> list[Call]:
    """Select the calls that `choice` allows; a name may stand for a namespace.

    Raises `GrammarError` where it names what is not declared, or requires a call of nothing.
    """
    if choice.mode == "none":
        return []
    names = declared if choice.names is None else choice.names
    found = {call.recipient: call for name in names for call in _named(name, declared)}
    if choice.mode == "required" and not found:
        raise GrammarError(
            "tool_choice: a call is required and no tool is declared",
            remedy="declare one, or leave tool_choice out",
        )
    return list(found.values())


def _named(name: str, declared: Mapping[str, Call]) -> Iterable[Call]:
    for recipient in (name, f"functions.{name}"):
        if recipient in declared:
            return [declared[recipient]]
    members = [call for call in declared.values() if call.recipient.startswith(f"{name}.")]
    if not members:
        raise GrammarError(
            f"tool_choice: {name!r} is not declared",
            remedy=f"declared are: {', '.join(declared) or 'none'}",
        )
    return members
