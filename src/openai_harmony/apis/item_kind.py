"""What a harmony message is in the APIs, told by its header alone, so that streams can tell."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from ..conversation.messages import Role

__all__ = ["ItemKind", "what_kind"]

_EVERYONE = {"all", *(role.value for role in Role)}
"""Recipients that are no tools; models write ``to=user`` at times."""


class ItemKind(str, Enum):
    """The kinds of output: the first three are texts, the others calls."""

    REASONING = "reasoning"
    COMMENTARY = "commentary"
    FINAL_ANSWER = "final_answer"
    FUNCTION_CALL = "function_call"
    CUSTOM_TOOL_CALL = "custom_tool_call"
    WEB_SEARCH_CALL = "web_search_call"
    CODE_INTERPRETER_CALL = "code_interpreter_call"
    MCP_CALL = "mcp_call"

    @property
    def is_message(self) -> bool:
        """Whether it is text for the user; its value is the phase then."""
        return self in (ItemKind.COMMENTARY, ItemKind.FINAL_ANSWER)

    @property
    def is_call(self) -> bool:
        """Whether it calls a tool."""
        return not self.is_message and self is not ItemKind.REASONING

    @property
    def is_built_in(self) -> bool:
        """Whether it calls a tool of the server."""
        return self is ItemKind.MCP_CALL or self in _OF_BUILT_IN.values()


_OF_BUILT_IN = {
    "browser": ItemKind.WEB_SEARCH_CALL,
    "python": ItemKind.CODE_INTERPRETER_CALL,
}


def what_kind(
    channel: str | None,
    recipient: str | None,
    *,
    custom_tools: Collection[str] = (),
    built_in_tools: Collection[str] = (),
) -> ItemKind:
    """Tell what a message of the model is.

    `custom_tools` are recipients; `built_in_tools` are the names of the server's own tools: but
    for the two that models were trained with, they are those of MCP servers.

    Whatever has a recipient is a call, on any channel. A call of a tool that nobody declared is
    the call of a function for the client, who can say that there is none.

    >>> what_kind("analysis", None), what_kind("analysis", "functions.now")
    (<ItemKind.REASONING: 'reasoning'>, <ItemKind.FUNCTION_CALL: 'function_call'>)
    """
    if recipient is None or recipient in _EVERYONE:
        if channel == "analysis":
            return ItemKind.REASONING
        return ItemKind.COMMENTARY if channel == "commentary" else ItemKind.FINAL_ANSWER
    if recipient in custom_tools:
        return ItemKind.CUSTOM_TOOL_CALL
    tool = recipient.partition(".")[0]
    if tool in built_in_tools:
        return _OF_BUILT_IN.get(tool, ItemKind.MCP_CALL)
    return ItemKind.FUNCTION_CALL
