"""The body of requests for a response, and the turn of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails

from ...conversation.content import ReasoningEffort
from ...conversation.json_field import JsonField, missing_field
from ...conversation.tool_namespaces import ToolNamespaceConfig
from ...engines.engine import Sampling
from ..conversation_builder import ConversationBuilder
from ..items import Decrypt, HistoryItem, NewId
from ..request_body import (
    ConstraintFields,
    Ignored,
    Metadata,
    OneAnswer,
    ParallelCalls,
    PromptCacheRetention,
    ReasoningSettings,
    Refused,
    RequestBody,
    RequestSettings,
    ServiceTier,
    StreamOptions,
    Unsupported,
    elsewhere,
)
from ..requested_format import requested_format, verbosity_instructions
from ..requested_reasoning import requested_effort
from ..requested_tools import read_tools
from ..turn import ParsedRequest, TurnRequest, noted, request_fields, turn_of_parsed
from .input import ItemReader, additional_tools, complete_item


def _check_input(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise ValueError("expected text or a list of items")
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise ValueError(f"expected a list of objects; item {index} is not an object")
    return value


Input: TypeAlias = Annotated["str | list[dict[str, Any]]", BeforeValidator(_check_input)]
"""A text by the user, or a list of items."""

ConversationId: TypeAlias = Annotated[
    str,
    BeforeValidator(lambda value: value.get("id") if isinstance(value, dict) else value),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"id": {"type": "string"}},
                    "required": ["id"],
                },
            ]
        }
    ),
]
"""An id, which may be wrapped in an object."""


class TextSettings(RequestSettings):
    """The form of the answer; the type of `format` is text, json_object or json_schema."""

    format: dict[str, Any] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ContextManagement(RequestSettings):
    """Compaction of prompts with more than `compact_threshold` tokens."""

    type: Literal["compaction"]
    compact_threshold: int | None = Field(default=None, ge=1)


Includable: TypeAlias = Literal[
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
]


class ResponsesRequest(ConstraintFields):
    """A request for a response."""

    continue_final_message: Unsupported = None
    input: Input | None = Field(default=None, description="A text by the user, or a list of items.")
    messages: Input | None = Field(default=None, description="Another name for `input`.")
    instructions: str | None = Field(
        default=None,
        description="Instructions before all others, for this response only.",
    )
    previous_response_id: str | None = None
    conversation: ConversationId | None = None
    store: bool | None = Field(
        default=None, description="Whether to store the response; true by default."
    )
    stream_options: StreamOptions | None = None
    background: bool | None = None
    metadata: Metadata | None = None
    include: list[Includable] | None = None
    text: TextSettings | None = None
    tools: list[dict[str, Any]] | None = Field(
        default=None,
        description="Functions, custom tools and namespaces. Other tools are not declared.",
    )
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: ParallelCalls = None
    truncation: Literal["auto", "disabled"] | None = None
    context_management: list[ContextManagement] | None = Field(
        default=None, max_length=1, description="Compaction of prompts that become too long."
    )
    max_output_tokens: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(
        default=None, ge=1, description="Another name for max_output_tokens."
    )
    max_tool_calls: int | None = Field(default=None, ge=1)
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    client_metadata: Annotated[Any, Ignored("it is for the client's own server")] = None
    include_reasoning: bool | None = Field(
        default=None,
        description="Reasoning is an item and cannot be hidden.",
        json_schema_extra={"enum": [None, True]},
    )
    prompt: Annotated[
        Any,
        Refused(
            "stored prompts are not supported; send `instructions` and `input`", accepted=(None,)
        ),
    ] = None
    prompt_cache_key: str | None = Field(default=None, max_length=1024)
    prompt_cache_retention: PromptCacheRetention = None
    safety_identifier: str | None = Field(default=None, max_length=1024)
    service_tier: ServiceTier = None
    user: str | None = None
    response_format: Annotated[Any, elsewhere("send `text.format`")] = None
    n: OneAnswer = None
    max_completion_tokens: Annotated[Any, elsewhere("send `max_output_tokens`")] = None
    logprobs: Annotated[
        Any, elsewhere("send `top_logprobs`, or include 'message.output_text.logprobs'")
    ] = None
    stop_sequences: Annotated[Any, elsewhere("send `stop`")] = None
    verbosity: Annotated[Any, elsewhere("send `text.verbosity`")] = None
    functions: Annotated[Any, elsewhere("send `tools`")] = None
    system: Annotated[Any, elsewhere("send `instructions`")] = None

    @model_validator(mode="before")
    @classmethod
    def _names_its_input(cls, data: Any) -> Any:
        """Refuse a misspelt `input`, which may be left out only where a conversation is named."""
        has_input = not isinstance(data, Mapping) or "input" in data
        # The two texts differ only where a field has a similar name.
        if has_input or missing_field("input", data) == missing_field("input", ()):
            return data
        missing = InitErrorDetails(type="missing", loc=("input",), input=data)
        raise ValidationError.from_exception_data(cls.__name__, [missing])

    @field_validator("messages")
    @classmethod
    def _instead_of_input(cls, messages: Any, info: ValidationInfo) -> Any:
        if messages is not None and info.data.get("input") is not None:
            raise ValueError("this is another name for input; send one of the two")
        return messages

    @field_validator("include_reasoning")
    @classmethod
    def _shows_items(cls, includes: Any) -> Any:
        if includes is False:
            raise ValueError("reasoning is an item, which clients can ignore; leave it out")
        return includes

    @field_validator("conversation")
    @classmethod
    def _instead_of_previous(cls, conversation: Any, info: ValidationInfo) -> Any:
        if conversation is not None and info.data.get("previous_response_id") is not None:
            raise ValueError("send previous_response_id or conversation, not both")
        return conversation

    @field_validator("background")
    @classmethod
    def _is_kept(cls, background: Any, info: ValidationInfo) -> Any:
        if background and info.data.get("store") is False:
            raise ValueError("a response in the background is stored; leave store out")
        return background

    @property
    def items(self) -> list[dict[str, Any]]:
        """The input as a list of items."""
        sent = self.input if self.input is not None else self.messages
        if isinstance(sent, str):
            return [{"type": "message", "role": "user", "content": sent}]
        return sent or []

    @property
    def items_field(self) -> str:
        """The name of the field with the input, for errors."""
        return "messages" if self.input is None and self.messages is not None else "input"

    @property
    def is_stored(self) -> bool:
        """Return whether the response is stored."""
        return self.store is not False

    @property
    def token_limit(self) -> int | None:
        """The most tokens of the response."""
        return self.max_tokens if self.max_output_tokens is None else self.max_output_tokens

    @property
    def shows_logprobs(self) -> bool:
        """Return whether texts have log-probabilities."""
        return "message.output_text.logprobs" in (self.include or ()) or bool(self.top_logprobs)

    @property
    def reasoning_summary(self) -> str | None:
        """The kind of summaries of reasoning; None for no summaries."""
        reasoning = self.reasoning or ReasoningSettings()
        return reasoning.summary or reasoning.generate_summary

    @property
    def compaction_threshold(self) -> int | None:
        """The number of prompt tokens above which the prompt is compacted; None for never."""
        managed = (entry.compact_threshold for entry in self.context_management or ())
        return next(managed, None)

    @property
    def encrypts_reasoning(self) -> bool:
        """Return whether reasoning has `encrypted_content`."""
        return "reasoning.encrypted_content" in (self.include or ())

    def sampling(self, defaults: Sampling | None = None) -> Sampling:
        """Return the settings for sampling the response."""
        logprobs = (self.top_logprobs or 0) if self.shows_logprobs else None
        return self.settings(defaults or Sampling(), max_tokens=self.token_limit, logprobs=logprobs)


class CompactionRequest(ResponsesRequest):
    """A conversation to compact, with the fields of a request for a response."""

    model: str
    compact_threshold: int | None = Field(
        default=None, ge=1, description="The most tokens of the compacted prompt; half by default."
    )
    prompt_cache_key: Annotated[str | None, Ignored("the engine caches every prompt by itself")] = (
        None
    )
    summarize: bool | None = Field(
        default=None, description="Whether the model writes a summary of the conversation."
    )


# Conversations

# OpenAI's limit.
_MAX_ITEMS = 20  # in one request

Items: TypeAlias = Annotated["list[dict[str, Any]]", Field(max_length=_MAX_ITEMS)]


class ConversationRequest(RequestBody):
    """A new conversation, and its first items."""

    items: Items | None = None
    metadata: Metadata | None = None


class ItemsRequest(RequestBody):
    """Items to add to a conversation."""

    items: Items


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
    request = noted(request)
    parsed = read_response(
        request,
        history,
        date=date,
        effort=effort,
        decrypt=decrypt,
        references=references,
        built_in=built_in,
    )
    return turn_of_parsed(
        parsed, request_fields(request), request.sampling(sampling), request.stop_texts
    )


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
    body = JsonField(request_fields(request))
    text_format = JsonField(request.text and request.text.format, "text.format")
    response_format = requested_format(body, text_format)
    builder = ConversationBuilder(tools)
    builder.add_instructions([request.instructions or ""])
    reader = ItemReader(builder, decrypt, references, request.instructions)
    reader.read_all(history, "history")
    for item in items:
        reader.read(item)
    verbosity = JsonField(request.text and request.text.verbosity, "text.verbosity")
    builder.add_instructions(verbosity_instructions(verbosity))
    conversation = builder.conversation(
        effort=requested_effort(body, effort),
        start_date=date,
        response_format=response_format,
    )
    return ParsedRequest(conversation, tools, response_format)


def input_items_of(
    request: ResponsesRequest,
    new_id: NewId,
    references: Mapping[str, HistoryItem] | None = None,
) -> list[HistoryItem]:
    """Return the input items, complete and with ids; references become the items that they name.

    Call it only with a request that `turn_of_response` accepts.

    >>> (item,) = input_items_of(ResponsesRequest(input="hi"), lambda prefix: f"{prefix}_1")
    >>> item.item["id"], item.item["content"]
    ('msg_1', [{'type': 'input_text', 'text': 'hi'}])
    """
    items: list[HistoryItem] = []
    for item in request.items:
        kind = item.get("type")
        is_reference = kind == "item_reference" or (kind is None and item.get("role") is None)
        stored = (references or {}).get(str(item.get("id"))) if is_reference else None
        items.append(stored or HistoryItem(complete_item(item, new_id)))
    return items
