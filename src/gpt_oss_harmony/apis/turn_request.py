"""A request to either API becomes a `TurnRequest`: one turn of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..conversation.content import DeveloperContent, ReasoningEffort, SystemContent
from ..conversation.json_field import JsonField
from ..conversation.messages import Conversation, declared_tools
from ..conversation.tool_choice import ToolChoice
from ..conversation.tool_namespaces import ToolNamespaceConfig
from ..engines.engine import Sampling
from ..errors import wrong_type
from ..rendering.history import without_past_reasoning
from .chat_input import ParsedRequest, read_chat
from .constraints import (
    requested_effort,
    requested_format,
    requested_reasoning_tokens,
    shows_reasoning,
)
from .conversation_builder import ConversationBuilder
from .input_items import ItemReader, additional_tools
from .items import Decrypt, HistoryItem
from .request_body import Whitespace
from .requested_tools import chosen_built_in, read_later_choice, read_tool_choice, read_tools
from .requests import ChatRequest, ResponsesRequest

__all__ = ["TurnRequest", "read_response", "turn_of_chat", "turn_of_response"]


@dataclass(frozen=True)
class TurnRequest:
    """A conversation for the model to continue, and the settings for its turn.

    - `conversation`: the messages to render, without past reasoning.
    - `sampling`: settings for the engine, without a grammar.
    - `tool_choice`: the allowed calls. `later_tool_choice`: the allowed calls after a call of a
      built-in tool.
    - `response_format`: JSON in the form of Chat Completions, for `TurnOptions`; None for text.
    - `reasoning_tokens`: the most tokens of reasoning; None for the server's default.
    - `shows_reasoning`: whether the client sees the reasoning.
    - `stop`: texts that end the answer; the answer does not contain them.
    - `custom_tools`: the recipients whose calls are plain text for the client, not JSON.
    - `tool_texts`: the syntax and definition of the grammars of custom tools, by recipient; their
      calls contain plain text instead of JSON.
    - `strict_tools`: the recipients whose schemas must be enforced; otherwise the request fails.
    - `built_in_tools`: the names of the server's own tools that may be called.
    - `json_whitespace`: the white space in JSON; None for the server's default.
    """

    conversation: Conversation
    sampling: Sampling = field(default_factory=Sampling)
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    later_tool_choice: ToolChoice = field(default_factory=ToolChoice)
    response_format: Mapping[str, Any] | None = None
    reasoning_tokens: int | None = None
    shows_reasoning: bool = True
    stop: tuple[str, ...] = ()
    custom_tools: frozenset[str] = frozenset()
    tool_texts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    strict_tools: frozenset[str] = frozenset()
    built_in_tools: frozenset[str] = frozenset()
    json_whitespace: Whitespace | None = None

    @property
    def tools(self) -> frozenset[str]:
        """The declared recipients."""
        return frozenset(declared_tools(self.conversation.messages))

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces of the developer's tools, except `functions`."""
        return frozenset(
            name
            for message in self.conversation.messages
            for item in message.content
            if isinstance(item, DeveloperContent)
            for name in item.tools or ()
            if name != "functions"
        )

    @property
    def effort(self) -> ReasoningEffort | None:
        """The effort that the model reads."""
        contents = self.conversation.messages[0].content if self.conversation.messages else ()
        efforts = [item.reasoning_effort for item in contents if isinstance(item, SystemContent)]
        return efforts[0] if efforts else None

    @property
    def is_constrained(self) -> bool:
        """Return whether the request has constraints that a grammar can enforce."""
        has_budget = self.reasoning_tokens is not None
        return has_budget or self.response_format is not None or bool(self.tools)


def turn_of_response(
    request: ResponsesRequest,
    history: Sequence[HistoryItem] = (),
    *,
    date: str | None = None,
    effort: ReasoningEffort = ReasoningEffort.MEDIUM,
    sampling: Sampling | None = None,
    decrypt: Decrypt | None = None,
    references: Mapping[str, HistoryItem] | None = None,
    built_in: Mapping[str, ToolNamespaceConfig] | None = None,
) -> TurnRequest:
    """Convert a Responses request, with the items before it, to a turn.

    - `history`: the items of earlier responses or of the conversation, in order.
    - `date`: the current date for the prompt, such as ``2025-06-28``.
    - `effort`, `sampling`: the defaults for missing fields of the request.
    - `decrypt`: decrypts `encrypted_content`.
    - `references`: items that the input may name by id.
    - `built_in`: the server's own tools, by name; only requested tools are declared.

    Raises `ConversationError`, which names the wrong field.

    >>> turn = turn_of_response(ResponsesRequest(instructions="Be brief.", input="hi"))
    >>> [message.author.role.value for message in turn.conversation.messages]
    ['system', 'developer', 'user']
    """
    parsed = read_response(
        request,
        history,
        date=date,
        effort=effort,
        decrypt=decrypt,
        references=references,
        built_in=built_in,
    )
    return _turn(parsed, _body(request), request.sampling(sampling), request.stop_texts)


def read_response(
    request: ResponsesRequest,
    history: Sequence[HistoryItem] = (),
    *,
    date: str | None = None,
    effort: ReasoningEffort = ReasoningEffort.MEDIUM,
    decrypt: Decrypt | None = None,
    references: Mapping[str, HistoryItem] | None = None,
    built_in: Mapping[str, ToolNamespaceConfig] | None = None,
) -> ParsedRequest:
    """Parse a request as `turn_of_response` does, but keep the reasoning of all turns."""
    if request.input is None and request.messages is None and not history:
        raise JsonField(None, "input").unexpected("text or a list of items")
    items = list(JsonField(request.items, request.items_field).items())
    earlier = [JsonField(stored.item, f"history[{i}]") for i, stored in enumerate(history)]
    declared = JsonField(request.tools, "tools").optional_items()
    tools = read_tools([*declared, *additional_tools([*earlier, *items])], built_in)
    body = JsonField(_body(request))
    text_format = JsonField(request.text and request.text.format, "text.format")
    response_format = requested_format(body, text_format)
    builder = ConversationBuilder(tools)
    builder.add_instructions([request.instructions or ""])
    reader = ItemReader(builder, decrypt, references, request.instructions)
    reader.read_all(history, "history")
    for item in items:
        reader.read(item)
    conversation = builder.conversation(
        effort=requested_effort(body, effort),
        start_date=date,
        response_format=response_format,
    )
    return ParsedRequest(conversation, tools, response_format)


def turn_of_chat(
    request: ChatRequest,
    *,
    date: str | None = None,
    effort: ReasoningEffort = ReasoningEffort.MEDIUM,
    sampling: Sampling | None = None,
) -> TurnRequest:
    """Convert a Chat Completions request to a turn; `turn_of_response` explains the arguments.

    >>> chat = ChatRequest(messages=[{"role": "user", "content": "hi"}])
    >>> turn_of_chat(chat) == turn_of_response(ResponsesRequest(input="hi"))
    True
    """
    body = _body(request)
    parsed = read_chat(body, conversation_start_date=date, default_effort=effort)
    return _turn(parsed, body, request.sampling(sampling), request.stop_texts)


def _body(request: ResponsesRequest | ChatRequest) -> dict[str, Any]:
    """Return the fields of a request, with `reasoning` as JSON."""
    if isinstance(request, Mapping):
        remedy = "write ChatRequest(**request) or ResponsesRequest(**request)"
        raise wrong_type("request", "a ChatRequest or ResponsesRequest", request, remedy)
    reasoning = request.reasoning
    return {**vars(request), "reasoning": None if reasoning is None else reasoning.model_dump()}


def _turn(
    parsed: ParsedRequest, body: Mapping[str, Any], sampling: Sampling, stop: tuple[str, ...]
) -> TurnRequest:
    conversation, tools, response_format, _ = parsed
    fields = JsonField(body)
    requested = fields["tool_choice"]
    choice = read_tool_choice(requested, tools)
    return TurnRequest(
        conversation=Conversation.from_messages(without_past_reasoning(conversation.messages)),
        sampling=sampling,
        tool_choice=choice,
        later_tool_choice=read_later_choice(requested, choice),
        response_format=None if response_format is None else response_format.to_dict(),
        reasoning_tokens=requested_reasoning_tokens(fields),
        shows_reasoning=shows_reasoning(fields),
        stop=stop,
        custom_tools=frozenset(tools.custom),
        tool_texts=dict(tools.texts),
        strict_tools=frozenset(tools.strict),
        json_whitespace=fields["json_whitespace"].value,
        built_in_tools=chosen_built_in(choice, tools),
    )
