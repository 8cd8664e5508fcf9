"""Requests become turns of the model, in the same way for both APIs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..conversation.content import ReasoningEffort
from ..conversation.json_field import JsonField
from ..conversation.messages import Conversation
from ..conversation.tool_namespaces import ToolNamespaceConfig
from ..engines.sampling import Sampling
from ..rendering.history import without_past_reasoning
from .chat_messages import ReadChat, read_chat
from .chat_request import ChatRequest
from .conversation_builder import Dialogue, read_effort
from .history import HistoryItem, Unseal
from .item_reader import ItemReader, additional_tools
from .requested_tools import RequestedTools, read_tools
from .response_format import AnswerFormat, read_answer_format
from .responses_request import ReasoningSettings, ResponsesRequest, TextSettings
from .tool_choice import chosen_built_in, read_tool_choice
from .turn_request import TurnRequest

__all__ = ["read_response", "turn_of_chat", "turn_of_response"]


def turn_of_response(
    request: ResponsesRequest,
    history: Sequence[HistoryItem] = (),
    *,
    date: str | None = None,
    effort: ReasoningEffort = ReasoningEffort.MEDIUM,
    sampling: Sampling | None = None,
    unseal: Unseal | None = None,
    references: Mapping[str, HistoryItem] | None = None,
    built_in: Mapping[str, ToolNamespaceConfig] | None = None,
) -> TurnRequest:
    """Turn a request and the items before it into a turn.

    - `history`: the items of earlier responses, or of the conversation, in their order.
    - `date`: the current date (``2025-06-28``) as the model reads it.
    - `effort`, `sampling`: what is used where the request says nothing.
    - `unseal`: opens encrypted content; `references`: the items that the input names by id.
    - `built_in`: the server's own tools, by name; a request that wants one declares it.

    Raises `ConversationError`, which names the field at fault.

    >>> turn = turn_of_response(ResponsesRequest(instructions="Be brief.", input="hi"))
    >>> [message.author.role.value for message in turn.conversation.messages]
    ['system', 'developer', 'user']
    """
    read = read_response(
        request,
        history,
        date=date,
        effort=effort,
        unseal=unseal,
        references=references,
        built_in=built_in,
    )
    return _turn(read, dict(request), request.sampling(sampling), request.stop_texts)


def read_response(
    request: ResponsesRequest,
    history: Sequence[HistoryItem] = (),
    *,
    date: str | None = None,
    effort: ReasoningEffort = ReasoningEffort.MEDIUM,
    unseal: Unseal | None = None,
    references: Mapping[str, HistoryItem] | None = None,
    built_in: Mapping[str, ToolNamespaceConfig] | None = None,
) -> ReadChat:
    """Read a request as `turn_of_response` does, with the reasoning of all turns."""
    if request.input is None and request.messages is None and not history:
        raise JsonField(None, "input").unexpected("text or a list of items")
    items = list(JsonField(request.items, request.items_field).items())
    tools = _tools(JsonField(request.tools, "tools"), history, items, built_in)
    answer_format = _answer_format(request.text)
    dialogue = Dialogue(tools)
    dialogue.add_instructions([request.instructions or ""])
    reader = ItemReader(dialogue, unseal, references)
    reader.read_all(history, "history")
    for item in items:
        reader.read(item)
    conversation = dialogue.conversation(
        effort=_effort(request.reasoning, effort), start_date=date, answer_format=answer_format
    )
    return ReadChat(conversation, tools, answer_format)


def turn_of_chat(
    request: ChatRequest,
    *,
    date: str | None = None,
    effort: ReasoningEffort = ReasoningEffort.MEDIUM,
    sampling: Sampling | None = None,
) -> TurnRequest:
    """Turn a request into a turn; the arguments are those of `turn_of_response`.

    >>> chat = ChatRequest(messages=[{"role": "user", "content": "hi"}])
    >>> turn_of_chat(chat) == turn_of_response(ResponsesRequest(input="hi"))
    True
    """
    body = dict(request)
    read = read_chat(body, conversation_start_date=date, default_effort=effort)
    return _turn(read, body, request.sampling(sampling), request.stop_texts)


def _turn(
    read: ReadChat, body: Mapping[str, Any], sampling: Sampling, stop: tuple[str, ...]
) -> TurnRequest:
    conversation, tools, answer_format = read
    choice = read_tool_choice(JsonField(body)["tool_choice"], tools)
    return TurnRequest(
        conversation=Conversation.from_messages(without_past_reasoning(conversation.messages)),
        sampling=sampling,
        tool_choice=choice,
        response_format=None if answer_format is None else answer_format.to_response_format(),
        stop=stop,
        custom_tools=frozenset(tools.custom),
        strict_tools=frozenset(tools.strict),
        built_in_tools=chosen_built_in(choice, tools),
    )


def _tools(
    tools: JsonField,
    history: Sequence[HistoryItem],
    items: Sequence[JsonField],
    built_in: Mapping[str, ToolNamespaceConfig] | None,
) -> RequestedTools:
    before = [JsonField(known.item, f"history[{at}]") for at, known in enumerate(history)]
    wanted = [*tools.optional_items(), *additional_tools([*before, *items])]
    return read_tools(wanted, built_in)


def _effort(asked: ReasoningSettings | None, default: ReasoningEffort) -> ReasoningEffort | None:
    return read_effort(JsonField(asked.effort if asked else None, "reasoning.effort"), default)


def _answer_format(asked: TextSettings | None) -> AnswerFormat | None:
    return read_answer_format(JsonField(asked.format if asked else None, "text.format"))
