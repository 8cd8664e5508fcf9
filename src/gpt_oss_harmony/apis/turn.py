"""One turn of the model: what a request to any API becomes.

`turn_of_chat`, `turn_of_response` and `turn_of_messages` make it; `preparation` renders its prompt
and writes its grammar, and `reader` reads the tokens that the model answers with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import BaseModel

from ..config import RenderConversationConfig
from ..conversation.content import DeveloperContent, ReasoningEffort, SystemContent
from ..conversation.json_field import JsonField, noting, unread_in, without_indices
from ..conversation.messages import Conversation, declared_tools, is_answer
from ..conversation.tool_choice import ToolChoice
from ..conversation.tool_namespaces import namespace_of
from ..encoding import load_harmony_encoding
from ..engines.engine import Sampling
from ..errors import ConversationError, wrong_type
from ..rendering.history import without_past_reasoning
from ..rendering.renderer import Segment
from ..sampled_messages import OPENING, prompt_length, prompt_segments, prompt_tokens
from .conversation_builder import RequestedFormat
from .items import ItemRules
from .requested_reasoning import requested_reasoning_tokens, shows_reasoning
from .requested_tools import (
    RequestedTools,
    chosen_built_in,
    read_later_choice,
    read_tool_choice,
)

if TYPE_CHECKING:
    from .request_body import ConstraintFields, Whitespace

_Model = TypeVar("_Model", bound=BaseModel)


RENDERING = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")
"""The rendering of prompts: requests have already left out past reasoning; calls keep their tokens.
"""


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
    - `client_tools`: the recipients of `CLIENT_TOOLS`, whose calls have items of their own.
    - `strict_tools`: the recipients whose schemas must be enforced; otherwise the request fails.
    - `built_in_tools`: the names of the server's own tools that may be called. `approvals`: the
      recipients among them whose calls the client must approve first.
    - `continues`: whether the model goes on writing the last message, an answer.
    - `json_whitespace`: the white space in JSON; None for the server's default.
    - `unread`: the fields inside of the request's messages and tools that change nothing, by names
      without indices, such as ``messages[].cache_control``. `missing_tools`: an error for each type
      of tool that nobody runs, which names what would help.
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
    client_tools: frozenset[str] = frozenset()
    strict_tools: frozenset[str] = frozenset()
    built_in_tools: frozenset[str] = frozenset()
    approvals: frozenset[str] = frozenset()
    continues: bool = False
    json_whitespace: Whitespace | None = None
    unread: tuple[str, ...] = field(default=(), compare=False)
    missing_tools: Mapping[str, ConversationError] = field(default_factory=dict, compare=False)

    def prompt(self, most_tokens: int | None = None) -> list[int]:
        """Render the tokens that the model continues; this may take a while.

        More than `most_tokens` raise `PromptLengthError`, except where an answer is continued.

        >>> turn = TurnRequest(Conversation.from_messages([]))
        >>> turn.prompt()
        [200006, 173781]
        """
        if self.continues:
            return [token for segment in self.segments() for token in segment.tokens]
        encoding = load_harmony_encoding("HarmonyGptOss")
        return prompt_tokens(  # the same, but faster
            encoding, self.conversation, RENDERING, most_tokens=most_tokens
        )

    def prompt_length(self) -> int:
        """Count the tokens of the prompt; a very long one is quicker to count than to render."""
        if self.continues:
            return len(self.prompt())
        encoding = load_harmony_encoding("HarmonyGptOss")
        return prompt_length(encoding, self.conversation, RENDERING)

    def segments(self) -> list[Segment]:
        """Render the prompt as segments."""
        encoding = load_harmony_encoding("HarmonyGptOss")
        segments = list(prompt_segments(encoding, self.conversation, RENDERING))
        return segments[:-2] if self.continues else segments  # no stop token, no next header

    def begun_tokens(self) -> list[int]:
        """Render the header and the text of the answer that the model goes on writing."""
        if not self.continues:
            return []
        last = Conversation(messages=self.conversation.messages[-1:])
        return replace(self, conversation=last).prompt()[len(OPENING) :]

    @cached_property
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
    def item_rules(self) -> ItemRules:
        """What the request says about the items of the turn."""
        return ItemRules(
            custom_tools=self.custom_tools,
            client_tools=self.client_tools,
            text_tools=self.tool_texts.keys(),
            server_tools=self.built_in_tools,
            approvals=self.approvals,
            namespaces=frozenset(map(namespace_of, self.tools)) - {"functions"},
            shows_reasoning=self.shows_reasoning,
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
        if self.continues:
            return bool(self.tools)  # which the model cannot call in the middle of an answer
        has_budget = self.reasoning_tokens is not None
        return has_budget or self.response_format is not None or bool(self.tools)


class ParsedRequest(NamedTuple):
    """The conversation of a request, and the requested tools and response format.

    `sources` has the index of the request's message for each message of a chat's conversation; it
    is None for the system and developer messages, which have several sources.
    """

    conversation: Conversation
    tools: RequestedTools
    response_format: RequestedFormat | None
    sources: Sequence[int | None] = ()


def request_fields(request: ConstraintFields) -> dict[str, Any]:
    """Return the fields of a request, with `reasoning` as JSON."""
    reasoning = request.reasoning
    return {**vars(request), "reasoning": None if reasoning is None else reasoning.model_dump()}


_READ_INSIDE = {
    *("input", "messages", "output_config", "output_format", "response_format", "system", "text"),
    *("format", "tool_choice", "tools"),
}
"""Fields whose inside the turn reads, object by object."""


def noted(request: _Model) -> _Model:
    """Return a copy of a request whose objects note which of their fields the turn reads."""
    if isinstance(request, Mapping):  # the mistake that people make
        remedy = "write ChatRequest(**request) or ResponsesRequest(**request)"
        raise wrong_type("request", "a ChatRequest or ResponsesRequest", request, remedy)
    fields = ((name, value) for name, value in vars(request).items() if name in _READ_INSIDE)
    return request.model_copy(
        update={
            name: noted(value) if isinstance(value, BaseModel) else noting(value)
            for name, value in fields
        }
    )


def turn_of_parsed(
    parsed: ParsedRequest, body: Mapping[str, Any], sampling: Sampling, stop: tuple[str, ...]
) -> TurnRequest:
    """Make the turn of a request from its conversation and its other fields.

    The fields of a `noted` request have the turn's `unread` ones.
    """
    conversation, tools, response_format, _ = parsed
    fields = JsonField(body)
    continues = fields["continue_final_message"].value is True
    requested = fields["tool_choice"]
    choice = read_tool_choice(requested, tools)
    turn = TurnRequest(
        conversation=without_earlier_reasoning(conversation, continues=continues),
        sampling=sampling,
        tool_choice=choice,
        later_tool_choice=read_later_choice(requested, choice),
        response_format=None if response_format is None else response_format.to_dict(),
        reasoning_tokens=requested_reasoning_tokens(fields),
        shows_reasoning=shows_reasoning(fields),
        stop=stop,
        custom_tools=frozenset(tools.custom),
        tool_texts=dict(tools.texts),
        client_tools=frozenset(tools.client),
        strict_tools=frozenset(tools.strict),
        json_whitespace=fields["json_whitespace"].value,
        built_in_tools=chosen_built_in(choice, tools),
        unread=(*unread_fields(body), *map(_missing_tool, tools.others.items())),
        missing_tools=tools.others,
        continues=continues,
    )
    return checked_beginning(turn, list(fields["messages"].items())[-1]) if continues else turn


def without_earlier_reasoning(conversation: Conversation, *, continues: bool) -> Conversation:
    """Leave out past reasoning; an answer that the model goes on writing keeps that before it."""
    ended = len(conversation.messages) - continues
    kept = without_past_reasoning(conversation.messages[:ended])
    return Conversation.from_messages([*kept, *conversation.messages[ended:]])


def checked_beginning(turn: TurnRequest, last: JsonField) -> TurnRequest:
    """Return a turn that continues its `last` message, if that can be continued.

    Raises `ConversationError`.
    """
    messages = turn.conversation.messages
    if last["role"].value != "assistant" or not is_answer(messages[-1]):
        raise last.error("only a text by the assistant at the end can be continued")
    if turn.response_format is not None:
        problem = "a form of the answer cannot be enforced after its beginning"
    elif turn.tool_choice.mode == "required":
        problem = "a call is required, but the answer has begun"
    else:
        return turn
    raise last.error(f"{problem}; leave one of them out")


def _missing_tool(missing: tuple[str, ConversationError]) -> str:
    kind, error = missing
    return without_indices(error.field or "").removesuffix("type") + kind


def unread_fields(body: Mapping[str, Any], *, indices: bool = False) -> tuple[str, ...]:
    """Name the fields inside of those of a `noted` request that were not read."""
    return tuple(dict.fromkeys(_unread(body, "", indices=indices)))


def _unread(fields: Mapping[str, Any], path: str, *, indices: bool) -> Iterator[str]:
    for name in sorted(_READ_INSIDE & fields.keys()):
        value = fields[name]
        if isinstance(value, BaseModel):
            yield from _unread(vars(value), f"{path}{name}.", indices=indices)
        else:
            yield from unread_in(value, f"{path}{name}", indices=indices)
