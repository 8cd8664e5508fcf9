"""The calls that a conversation declares: recipients, and what the body of each must be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..conversation.declared_tools import declared_tools
from ..conversation.messages import Message
from ..conversation.tool_namespaces import ToolDescription
from .errors import GrammarError

__all__ = ["Call", "declared_calls"]

NO_ARGUMENTS: dict[str, Any] = {"type": "object", "additionalProperties": False}

_RECIPIENT = re.compile(r"[^\s<|>]+")  # what a header can hold and the parser reads back


class Call(NamedTuple):
    """A call that the model may write; without a `schema` its body is free text, such as code."""

    recipient: str
    schema: dict[str, Any] | None

    @property
    def is_function(self) -> bool:
        """Whether it calls a function of the developer and no built-in tool."""
        return self.recipient.startswith("functions.")


def declared_calls(messages: Iterable[Message]) -> dict[str, Call]:
    """Find the calls of the tools that system and developer messages declare, by recipient.

    >>> from openai_harmony import Role, SystemContent
    >>> system = Message.from_role_and_content(Role.SYSTEM, SystemContent().with_python_tool())
    >>> declared_calls([system])
    {'python': Call(recipient='python', schema=None)}
    """
    return {
        recipient: Call(_checked(recipient), None if tool is None else _schema(tool))
        for recipient, tool in declared_tools(messages).items()
    }


def _schema(tool: ToolDescription) -> dict[str, Any]:
    return NO_ARGUMENTS if tool.parameters is None else tool.parameters


def _checked(recipient: str) -> str:
    if not _RECIPIENT.fullmatch(recipient):
        raise GrammarError(
            f"{recipient!r} cannot stand in a header",
            remedy="rename the tool, without white space, '<', '|' and '>'",
        )
    return recipient
