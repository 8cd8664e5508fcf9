"""The bodies of requests to the Responses, Chat Completions and Completions APIs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from ..engines.engine import Sampling
from .request_body import Metadata, SamplingFields, Whitespace, misplaced_field, no_bias

__all__ = [
    "ChatRequest",
    "CompletionRequest",
    "Effort",
    "Elsewhere",
    "OneAnswer",
    "ReasoningSettings",
    "ResponsesRequest",
    "StreamOptions",
    "TextSettings",
    "Unsupported",
]

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""The efforts that clients send; the model has only low, medium and high."""


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


class _Settings(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class ReasoningSettings(_Settings):
    """The amount of reasoning, and the reasoning that the client sees."""

    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = Field(
        default=None, description="Whether reasoning has a summary, which is its first sentences."
    )
    generate_summary: Literal["auto", "concise", "detailed"] | None = Field(
        default=None, description="Another name for `summary`."
    )
    max_tokens: int | None = Field(
        default=None, ge=0, description="The most tokens of reasoning in a turn."
    )
    enabled: bool | None = Field(default=None, description="False forbids reasoning.")
    exclude: bool | None = Field(default=None, description="True hides the reasoning.")


class TextSettings(_Settings):
    """The form of the answer; the type of `format` is text, json_object or json_schema."""

    format: dict[str, Any] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ContextManagement(_Settings):
    """Compaction of prompts with more than `compact_threshold` tokens."""

    type: Literal["compaction"]
    compact_threshold: int | None = Field(default=None, ge=1)


class StreamOptions(_Settings):
    """Options of a stream."""

    include_usage: bool | None = Field(default=None, description="Send the usage in a last chunk.")
    include_obfuscation: bool | None = None


def _refuse(value: Any) -> Any:
    # An empty value requests nothing: `min_tokens: 0` is the same as no such field.
    if value not in (None, False, 0, "", [], {}):
        raise ValueError("this server does not support this field; leave it out")
    return value


Unsupported: TypeAlias = Annotated[
    Any,
    BeforeValidator(_refuse),
    WithJsonSchema(
        {"description": "Not supported: leave it out.", "enum": [None, False, 0, "", [], {}]}
    ),
]
"""A field that would change the answer but that no engine supports."""

Elsewhere: TypeAlias = Annotated[Any, WithJsonSchema({"enum": [None, False, 0, "", [], {}]})]
"""A field of another API, whose error names the field of this one; empty values pass."""

OneAnswer: TypeAlias = Annotated[Any, WithJsonSchema({"enum": [None, False, 0, 1, "", [], {}]})]
"""The number of answers in an API that has one."""

Absent: TypeAlias = Annotated[Any, WithJsonSchema({"type": "null"})]
"""A field that must be null; its error names the replacement."""


class ConstraintFields(SamplingFields):
    """Constraints on the answer and the reasoning, as in vLLM and similar servers."""

    reasoning: ReasoningSettings | None = None
    reasoning_effort: Effort | None = None
    thinking_token_budget: int | None = Field(
        default=None, ge=-1, description="The most tokens of reasoning in a turn."
    )
    include_reasoning: bool | None = Field(
        default=None, description="False hides the reasoning, in Chat Completions."
    )
    chat_template_kwargs: dict[str, Any] | None = Field(
        default=None, description="`reasoning_effort`, `enable_thinking`."
    )
    structured_outputs: dict[str, Any] | None = Field(
        default=None,
        description="One of `json`, `json_object`, `regex`, `choice`, `grammar`, `structural_tag`.",
        json_schema_extra={
            "properties": {
                name: {}
                for name in ("json", "json_object", "regex", "choice", "grammar", "structural_tag")
            },
            "additionalProperties": {"enum": [None, False]},
        },
    )
    json_whitespace: Whitespace | None = Field(
        default=None, description="The white space in calls and JSON answers."
    )
    guided_json: dict[str, Any] | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    guided_json_object: bool | None = None
    min_tokens: Unsupported = None
    bad_words: Unsupported = None
    allowed_token_ids: Unsupported = None
    stop_token_ids: Unsupported = None
    ignore_eos: Unsupported = None
    use_beam_search: Unsupported = None
    truncate_prompt_tokens: Unsupported = None
    prompt_logprobs: Unsupported = None
    chat_template: Unsupported = None
    continue_final_message: Unsupported = None
    documents: Unsupported = None
    logit_bias: dict[str, Any] | None = Field(
        default=None, description="Must be empty.", json_schema_extra={"maxProperties": 0}
    )

    @field_validator("logit_bias")
    @classmethod
    def _has_no_bias(cls, bias: Any) -> Any:
        return no_bias(bias)


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


_IN_RESPONSES = {
    "response_format": "send text.format",
    "n": "send a request for each answer",
    "max_completion_tokens": "send max_output_tokens",
    "logprobs": "send top_logprobs, or include 'message.output_text.logprobs'",
    "stop_sequences": "send stop",
    "verbosity": "send text.verbosity",
    "functions": "send tools",
    "system": "send instructions",
}
_IN_CHAT = {
    "text": "send response_format, or verbosity",
    "max_output_tokens": "send max_completion_tokens",
    "input": "send messages",
    "instructions": "send a message of the role developer",
    "previous_response_id": "send all messages, or use the Responses API",
    "stop_sequences": "send stop",
    "system": "send a message of the role system",
}
"""Fields of the other APIs, and what to send instead."""


class ResponsesRequest(ConstraintFields):
    """A request for a response."""

    model: str | None = None
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
    stream: bool | None = Field(
        default=None, description="Whether to answer with server-sent events."
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
    parallel_tool_calls: bool | None = None
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
    include_reasoning: bool | None = Field(
        default=None,
        description="Reasoning is an item and cannot be hidden.",
        json_schema_extra={"enum": [None, True]},
    )
    prompt: Absent = Field(default=None, description="Stored prompts are not supported.")
    prompt_cache_key: str | None = Field(default=None, max_length=1024)
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = Field(default=None, max_length=1024)
    service_tier: str | None = None
    user: str | None = None
    response_format: Elsewhere = Field(default=None, description="Send `text.format` instead.")
    n: OneAnswer = Field(default=None, description="A response has one answer.")
    max_completion_tokens: Elsewhere = Field(
        default=None, description="Send `max_output_tokens` instead."
    )
    logprobs: Elsewhere = Field(default=None, description="Send `top_logprobs` instead.")
    stop_sequences: Elsewhere = Field(default=None, description="Send `stop` instead.")
    verbosity: Elsewhere = Field(default=None, description="Send `text.verbosity` instead.")
    functions: Elsewhere = Field(default=None, description="Send `tools` instead.")
    system: Elsewhere = Field(default=None, description="Send `instructions` instead.")

    @field_validator(*_IN_RESPONSES)
    @classmethod
    def _is_of_another_api(cls, value: Any, info: ValidationInfo) -> Any:
        return misplaced_field(value, info.field_name, _IN_RESPONSES)

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

    @field_validator("prompt")
    @classmethod
    def _is_unknown(cls, prompt: Any) -> Any:
        if prompt is not None:
            raise ValueError("stored prompts are not supported; send instructions and input")
        return prompt

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


class ChatRequest(ConstraintFields):
    """A request for a chat completion."""

    model: str | None = None
    messages: list[dict[str, Any]] = Field(min_length=1)
    stream: bool | None = Field(
        default=None, description="Whether to answer with server-sent events."
    )
    stream_options: StreamOptions | None = None
    n: int | None = Field(default=None, ge=1, le=128, description="The number of choices.")
    max_completion_tokens: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(
        default=None, ge=1, description="Another name for max_completion_tokens."
    )
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    functions: Absent = Field(default=None, description="Send tools instead.")
    function_call: Unsupported = None
    web_search_options: Absent = Field(
        default=None, description="Send the tool `web_search` to the Responses API instead."
    )
    modalities: list[str] | None = Field(default=None, json_schema_extra={"enum": [None, ["text"]]})
    audio: Unsupported = None
    verbosity: Literal["low", "medium", "high"] | None = None
    store: bool | None = None
    metadata: Metadata | None = None
    prompt_cache_key: str | None = Field(default=None, max_length=1024)
    safety_identifier: str | None = Field(default=None, max_length=1024)
    service_tier: str | None = None
    user: str | None = None
    text: Elsewhere = Field(default=None, description="Send `response_format` instead.")
    max_output_tokens: Elsewhere = Field(
        default=None, description="Send `max_completion_tokens` instead."
    )
    input: Elsewhere = Field(default=None, description="Send `messages` instead.")
    instructions: Elsewhere = Field(default=None, description="Send a message instead.")
    previous_response_id: Elsewhere = Field(default=None, description="Send all messages instead.")
    stop_sequences: Elsewhere = Field(default=None, description="Send `stop` instead.")
    system: Elsewhere = Field(default=None, description="Send a message instead.")

    @field_validator(*_IN_CHAT)
    @classmethod
    def _is_of_another_api(cls, value: Any, info: ValidationInfo) -> Any:
        return misplaced_field(value, info.field_name, _IN_CHAT)

    @field_validator("web_search_options")
    @classmethod
    def _is_searched_elsewhere(cls, options: Any) -> Any:
        if options is not None:
            raise ValueError(
                "Chat Completions has no web search; send the tool web_search to the Responses API"
            )
        return options

    @field_validator("modalities")
    @classmethod
    def _is_text(cls, modalities: Any) -> Any:
        if modalities not in (None, ["text"]):
            raise ValueError("the model writes only text; leave it out")
        return modalities

    @field_validator("top_logprobs")
    @classmethod
    def _has_logprobs(cls, top: Any, info: ValidationInfo) -> Any:
        if top and not info.data.get("logprobs"):
            raise ValueError("it needs logprobs; set logprobs to true")
        return top

    @property
    def token_limit(self) -> int | None:
        """The most tokens of a choice."""
        most = self.max_completion_tokens
        return self.max_tokens if most is None else most

    @property
    def includes_usage(self) -> bool:
        """Return whether a stream ends with the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def sampling(self, defaults: Sampling | None = None) -> Sampling:
        """Return the settings for sampling each choice."""
        logprobs = (self.top_logprobs or 0) if self.logprobs else None
        return self.settings(defaults or Sampling(), max_tokens=self.token_limit, logprobs=logprobs)


def _as_prompts(value: Any) -> Any:
    """Wrap a single prompt, text or token ids, in a list."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise ValueError("expected text, token ids, or a list of one of them")
    if value and all(_is_token(item) for item in value):
        return [value]
    for index, item in enumerate(value):
        is_tokens = isinstance(item, list) and all(map(_is_token, item))
        if not isinstance(item, str) and not is_tokens:
            raise ValueError(f"prompt {index} is neither text nor a list of token ids")
    return value


def _is_token(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_TOKENS = {"type": "array", "items": {"type": "integer", "minimum": 0}}

Prompts: TypeAlias = Annotated[
    "list[str | list[int]]",
    BeforeValidator(_as_prompts),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 128},
                {**_TOKENS, "minItems": 1},
                {"type": "array", "items": _TOKENS, "minItems": 1, "maxItems": 128},
            ]
        }
    ),
    Field(min_length=1, max_length=128),
]
"""Prompts as text or token ids; a single prompt needs no list."""


class CompletionRequest(SamplingFields):
    """A request to continue harmony prompts, which are text or token ids."""

    model: str | None = None
    prompt: Prompts
    stream: bool | None = Field(
        default=None, description="Whether to answer with server-sent events."
    )
    stream_options: StreamOptions | None = None
    n: int | None = Field(
        default=None, ge=1, le=128, description="The number of choices for each prompt."
    )
    best_of: int | None = Field(default=None, ge=1, le=128, description="Must be n.")
    max_tokens: int | None = Field(
        default=None, ge=0, description="0 samples nothing: `echo` then shows the prompt alone."
    )
    logprobs: int | None = Field(default=None, ge=0, le=20)
    echo: bool | None = Field(default=None, description="Whether the text begins with the prompt.")
    suffix: str | None = Field(
        default=None, description="Must be empty.", json_schema_extra={"maxLength": 0}
    )
    logit_bias: dict[str, Any] | None = Field(
        default=None, description="Must be empty.", json_schema_extra={"maxProperties": 0}
    )
    user: str | None = None

    @field_validator("logit_bias")
    @classmethod
    def _has_no_bias(cls, bias: Any) -> Any:
        return no_bias(bias)

    @field_validator("suffix")
    @classmethod
    def _has_no_suffix(cls, suffix: Any) -> Any:
        if suffix:
            raise ValueError("the model can only continue texts; leave it out")
        return suffix

    @field_validator("best_of")
    @classmethod
    def _shows_all(cls, best_of: Any, info: ValidationInfo) -> Any:
        if best_of is not None and best_of != (info.data.get("n") or 1):
            raise ValueError("the server does not compare choices; leave it out")
        return best_of

    def sampling(self, defaults: Sampling | None = None) -> Sampling:
        """Return the settings for sampling each choice, unless `max_tokens` is 0."""
        return self.settings(
            defaults or Sampling(), max_tokens=self.max_tokens or None, logprobs=self.logprobs
        )
