"""Items of the Responses API: their kinds, their ids, and the items that a server stores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from ..conversation.messages import Message, Role
from ..conversation.tool_namespaces import namespace_of

__all__ = [
    "ID_PREFIXES",
    "Decrypt",
    "HistoryItem",
    "ItemKind",
    "NewId",
    "called_name",
    "item_kind",
    "message_text",
]

_NOT_TOOLS = {"all", *(role.value for role in Role)}
"""Recipients that are not tools; models sometimes write ``to=user``."""


class HistoryItem(NamedTuple):
    """An item of the Responses API, with fields that only the server stores.

    - `tokens`: the sampled tokens of the item, if they are stored.
    - `messages`: for a call of a built-in tool that the server ran, the call and the tool's
      messages, as the JSON of harmony messages.
    """

    item: Mapping[str, Any]
    tokens: tuple[int, ...] | None = None
    messages: Sequence[Mapping[str, Any]] = ()


Decrypt: TypeAlias = "Callable[[str], Sequence[HistoryItem] | None]"
"""A function that decrypts `encrypted_content`; None if this server did not encrypt the text."""

NewId: TypeAlias = "Callable[[str], str]"
"""A function that makes an id with a prefix such as ``msg``."""


class ItemKind(str, Enum):
    """The kinds of output items: three kinds of text, and kinds of calls.

    A `SERVER_CALL` calls a tool that the server runs; `call_item` describes its item.
    """

    REASONING = "reasoning"
    COMMENTARY = "commentary"
    FINAL_ANSWER = "final_answer"
    FUNCTION_CALL = "function_call"
    CUSTOM_TOOL_CALL = "custom_tool_call"
    SERVER_CALL = "server_call"
    MCP_APPROVAL_REQUEST = "mcp_approval_request"

    @property
    def is_message(self) -> bool:
        """Return whether the item is text for the user; its value is then the phase."""
        return self in (ItemKind.COMMENTARY, ItemKind.FINAL_ANSWER)

    @property
    def is_call(self) -> bool:
        """Return whether the item calls a tool."""
        return not self.is_message and self is not ItemKind.REASONING

    @property
    def is_of_server(self) -> bool:
        """Return whether the item calls a tool of the server."""
        return self in (ItemKind.SERVER_CALL, ItemKind.MCP_APPROVAL_REQUEST)


ID_PREFIXES: Mapping[ItemKind, str] = {
    ItemKind.REASONING: "rs",
    ItemKind.COMMENTARY: "msg",
    ItemKind.FINAL_ANSWER: "msg",
    ItemKind.FUNCTION_CALL: "fc",
    ItemKind.CUSTOM_TOOL_CALL: "ctc",
    ItemKind.MCP_APPROVAL_REQUEST: "mcpr",
}
"""Prefixes of item ids, except those of `CallItem`. A `call_id` starts with ``call`` instead."""


def item_kind(
    channel: str | None,
    recipient: str | None,
    *,
    custom_tools: Collection[str] = (),
    built_in_tools: Collection[str] = (),
) -> ItemKind:
    """Return the item kind of a message by the model; it depends only on the header.

    `custom_tools` are recipients. `built_in_tools` are the names of the server's own tools:
    built-in tools, and those of MCP servers.

    A message with a recipient is a call on any channel. A call of an undeclared tool is a function
    call, so the client can report that the function does not exist.

    >>> item_kind("analysis", None), item_kind("analysis", "functions.now")
    (<ItemKind.REASONING: 'reasoning'>, <ItemKind.FUNCTION_CALL: 'function_call'>)
    """
    if recipient is None or recipient in _NOT_TOOLS:
        if channel == "analysis":
            return ItemKind.REASONING
        return ItemKind.COMMENTARY if channel == "commentary" else ItemKind.FINAL_ANSWER
    if recipient in custom_tools:
        return ItemKind.CUSTOM_TOOL_CALL
    is_of_server = namespace_of(recipient) in built_in_tools
    return ItemKind.SERVER_CALL if is_of_server else ItemKind.FUNCTION_CALL


def called_name(recipient: str, namespaces: Collection[str] = ()) -> tuple[str, str | None]:
    """Return the name of a called function, and its namespace unless that is `functions`.

    The name of an undeclared tool is its whole recipient.

    >>> called_name("functions.now"), called_name("files.ls", {"files"}), called_name("python")
    (('now', None), ('ls', 'files'), ('python', None))
    """
    function = recipient.removeprefix("functions.")
    if function and function != recipient:
        return function, None
    # One namespace may be called `a` and another `a.b`.
    for namespace in sorted(namespaces, key=len, reverse=True):
        name = recipient.removeprefix(f"{namespace}.")
        if name and name != recipient:
            return name, namespace
    return recipient, None


def message_text(message: Message) -> str:
    """Return the text of a message, as `Message.text` does."""
    return message.text
