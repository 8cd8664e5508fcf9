"""One turn of the model before it is sampled: a request in, its prompt and its grammar out.

A schema may say what no grammar can check token by token. Where the client insists on it
(``strict``), the request is refused; elsewhere any JSON object may stand there, as in APIs that
enforce nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ...apis.turn_request import TurnRequest
from ...config import RenderConversationConfig
from ...conversation.content import Content, DeveloperContent
from ...conversation.messages import Conversation
from ...conversation.tool_namespaces import ToolNamespaceConfig
from ...encoding import load_harmony_encoding
from ...engines.engine import Sampling
from ...grammar import GrammarError, Matcher, TurnOptions, enforceable_schema, turn_grammar
from ...sampled_messages import prompt_tokens

__all__ = [
    "RENDERING",
    "PreparedTurn",
    "TurnConstraint",
    "compiled_grammar",
    "prepare_turn",
    "turn_constraint",
]

RENDERING = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")
"""How the server renders: a request has left past reasoning out; calls keep their tokens."""

_ANY_OBJECT: dict[str, Any] = {"type": "object"}


class PreparedTurn(NamedTuple):
    """The input of the engine."""

    prompt: list[int]
    sampling: Sampling


def prepare_turn(request: TurnRequest) -> PreparedTurn:
    """Render the prompt; the sampling has no grammar yet.

    It may take a while: call it off the event loop. Raises `ConversationError`.
    """
    encoding = load_harmony_encoding("HarmonyGptOss")
    return PreparedTurn(prompt_tokens(encoding, request.conversation, RENDERING), request.sampling)


def compiled_grammar(request: TurnRequest) -> str:
    """Write the grammar of a request, and compile it for the engine, which shares what is compiled.

    It may take a while, too. Raises `GrammarError`.
    """
    grammar = turn_constraint(request).grammar
    Matcher(grammar)
    return grammar


@dataclass(frozen=True)
class TurnConstraint:
    """A grammar, and the errors of the schemas that it does not enforce."""

    grammar: str
    unenforced: tuple[GrammarError, ...] = ()


def turn_constraint(request: TurnRequest) -> TurnConstraint:
    """Write the grammar of a request; raises `GrammarError` for strict schemas beyond grammars."""
    response_format = request.response_format
    options = TurnOptions(
        tool_choice=request.tool_choice,
        response_format=response_format,
        # Clients read the text of an answer as JSON; a preamble before it would be a part of it.
        preambles=response_format is None or response_format.get("type") == "text",
    )
    try:
        return TurnConstraint(turn_grammar(request.conversation, options))
    except GrammarError:
        loosened = _Loosened(request.strict_tools)
        conversation = loosened.conversation(request.conversation)
        options = replace(options, response_format=loosened.format(response_format))
        return TurnConstraint(turn_grammar(conversation, options), tuple(loosened.errors))


class _Loosened:
    """Copies the sources of a grammar, without the schemas that cannot be enforced."""

    def __init__(self, strict_tools: frozenset[str]) -> None:
        self._strict_tools = strict_tools
        self.errors: list[GrammarError] = []

    def conversation(self, conversation: Conversation) -> Conversation:
        """Loosen the tools of the developer's messages."""
        messages = []
        for message in conversation.messages:
            if any(isinstance(item, DeveloperContent) for item in message.content):
                content = [self._content(item) for item in message.content]
                message = message.model_copy(update={"content": content})
            messages.append(message)
        return Conversation.from_messages(messages)

    def format(self, response_format: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Loosen a response format to any JSON object."""
        if response_format is None or response_format.get("type") != "json_schema":
            return response_format
        described = response_format.get("json_schema", response_format)
        is_strict = bool(described.get("strict"))
        if self._is_enforceable(described.get("schema"), "response_format#", is_strict=is_strict):
            return response_format
        return {"type": "json_object"}

    def _content(self, item: Content) -> Content:
        if not isinstance(item, DeveloperContent) or not item.tools:
            return item
        tools = {name: self._namespace(namespace) for name, namespace in item.tools.items()}
        return item.model_copy(update={"tools": tools})

    def _namespace(self, namespace: ToolNamespaceConfig) -> ToolNamespaceConfig:
        tools = []
        for tool in namespace.tools:
            recipient = f"{namespace.name}.{tool.name}"
            is_strict = recipient in self._strict_tools
            pointer = f"tools/{recipient}#"
            if not self._is_enforceable(tool.parameters, pointer, is_strict=is_strict):
                tool = tool.model_copy(update={"parameters": _ANY_OBJECT})
            tools.append(tool)
        return namespace.model_copy(update={"tools": tools})

    def _is_enforceable(self, schema: object, pointer: str, *, is_strict: bool) -> bool:
        """Tell whether a schema stays; a strict one does, so that writing its grammar fails."""
        if schema is None or is_strict:
            return True
        try:
            enforceable_schema(schema, pointer)
        except GrammarError as error:
            self.errors.append(error)
            return False
        return True
