"""The grammar of a request, and what of it could not be enforced.

A schema may say what no grammar can check token by token. Where the client insists on it
(``strict``), the request is refused; elsewhere any JSON object may stand there, as in APIs that
enforce nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...apis.turn_request import TurnRequest
from ...conversation.content import Content, DeveloperContent
from ...conversation.messages import Conversation, Message
from ...conversation.tool_namespaces import ToolNamespaceConfig
from ...grammar import GrammarError, TurnOptions, enforceable_schema, turn_grammar

__all__ = ["TurnConstraint", "turn_constraint"]

_ANY_OBJECT: dict[str, Any] = {"type": "object"}


@dataclass(frozen=True)
class TurnConstraint:
    """A grammar, and the errors of the schemas that it does not enforce."""

    grammar: str
    unenforced: tuple[GrammarError, ...] = ()


def turn_constraint(request: TurnRequest) -> TurnConstraint:
    """Write the grammar of a request; raises `GrammarError` where something strict cannot be."""
    wanted = request.response_format
    options = TurnOptions(
        tool_choice=request.tool_choice,
        response_format=wanted,
        # Clients read the text of an answer as JSON; a preamble before it would be a part of it.
        preambles=wanted is None or wanted.get("type") == "text",
    )
    try:
        return TurnConstraint(turn_grammar(request.conversation, options))
    except GrammarError:
        loosened = _Loosened(request.strict_tools)
        conversation = loosened.conversation(request.conversation)
        options = replace(options, response_format=loosened.format(wanted))
        return TurnConstraint(turn_grammar(conversation, options), tuple(loosened.errors))


class _Loosened:
    """Copies what a grammar is written from, without the schemas that cannot be enforced."""

    def __init__(self, strict_tools: frozenset[str]) -> None:
        self._strict_tools = strict_tools
        self.errors: list[GrammarError] = []

    def conversation(self, conversation: Conversation) -> Conversation:
        return Conversation.from_messages([self._message(one) for one in conversation.messages])

    def format(self, wanted: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Loosen a response format to any JSON object."""
        if wanted is None or wanted.get("type") != "json_schema":
            return wanted
        described = wanted.get("json_schema", wanted)
        schema = described.get("schema")
        if self._keeps(schema, "response_format#", is_strict=bool(described.get("strict"))):
            return wanted
        return {"type": "json_object"}

    def _message(self, message: Message) -> Message:
        if not any(isinstance(item, DeveloperContent) for item in message.content):
            return message
        content = [self._content(item) for item in message.content]
        return message.model_copy(update={"content": content})

    def _content(self, item: Content) -> Content:
        if not isinstance(item, DeveloperContent) or not item.tools:
            return item
        tools = {name: self._namespace(namespace) for name, namespace in item.tools.items()}
        return item.model_copy(update={"tools": tools})

    def _namespace(self, namespace: ToolNamespaceConfig) -> ToolNamespaceConfig:
        tools = []
        for tool in namespace.tools:
            recipient = f"{namespace.name}.{tool.name}"
            strict = recipient in self._strict_tools
            if self._keeps(tool.parameters, f"tools/{recipient}#", is_strict=strict):
                tools.append(tool)
            else:
                tools.append(tool.model_copy(update={"parameters": _ANY_OBJECT}))
        return namespace.model_copy(update={"tools": tools})

    def _keeps(self, schema: object, pointer: str, *, is_strict: bool) -> bool:
        if schema is None or is_strict:
            return True
        try:
            enforceable_schema(schema, pointer)
        except GrammarError as error:
            self.errors.append(error)
            return False
        return True
