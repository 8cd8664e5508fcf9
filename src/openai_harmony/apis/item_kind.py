"""What a harmony message is in the APIs, told by its header alone, so that streams can tell."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from ..messages import Role

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
    BUILT_IN_CALL = "built_in_call"

    @property
    def is_message(self) -> bool:
        """Whether it is text for the user; its value is the phase then."""
        return self in (ItemKind.COMMENTARY, ItemKind.FINAL_ANSWER)

    @property
    def is_call(self) -> bool:
        """Whether it calls a tool."""
        return not self.is_message and self is not ItemKind.REASONING


def what_kind(
    channel: str | None,
    recipient: str | None,
    *,
    custom_tools: Collection[str] = (),
    built_in_tools: Collection[str] = (),
) -> ItemKind:
    """Tell what a message of the model is; the tools are recipients.

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
    if recipient in built_in_tools:
        return ItemKind.BUILT_IN_CALL
    return ItemKind.FUNCTION_CALL
