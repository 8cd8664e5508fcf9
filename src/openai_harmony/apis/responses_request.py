"""The body of a request to the Responses API."""

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

from ..engines.sampling import Sampling
from .request_body import Metadata
from .sampling_fields import SamplingFields

__all__ = ["Effort", "ReasoningSettings", "ResponsesRequest", "StreamOptions", "TextSettings"]

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""What clients send; the model knows low, medium and high."""


def _check_input(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise ValueError("expected text or a list of items")
    for at, item in enumerate(value):
        if not isinstance(item, dict):
            raise ValueError(f"expected items that are objects; item {at} is none")
    return value


def _id_of(value: Any) -> Any:
    return value.get("id") if isinstance(value, dict) else value


Input: TypeAlias = Annotated["str | list[dict[str, Any]]", BeforeValidator(_check_input)]
"""A text by the user, or items."""

ConversationId: TypeAlias = Annotated[
    str,
    BeforeValidator(_id_of),
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
"""An id, which may stand in an object."""


class _Settings(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class ReasoningSettings(_Settings):
    """How much the model thinks; `summary` is accepted, as the reasoning itself is shown."""

    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


class TextSettings(_Settings):
    """The form of the answer: `format` is text, json_object or json_schema."""

    format: dict[str, Any] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class StreamOptions(_Settings):
    """Options of a stream."""

    include_usage: bool | None = Field(default=None, description="Send the usage in a last chunk.")
    include_obfuscation: bool | None = None


class ResponsesRequest(SamplingFields):
    """A request for a response."""

    model: str | None = None
    input: Input | None = Field(default=None, description="A text by the user, or a list of items.")
    messages: Input | None = Field(default=None, description="Another name for `input`.")
    instructions: str | None = Field(
        default=None,
        description="What comes before all other instructions, in this response alone.",
    )
    previous_response_id: str | None = None
    conversation: ConversationId | None = None
    store: bool | None = Field(
        default=None, description="Whether the response is kept; true by default."
    )
    stream: bool | None = Field(
        default=None, description="Whether to answer with server-sent events."
    )
    stream_options: StreamOptions | None = None
    background: bool | None = None
    metadata: Metadata | None = None
    include: list[str] | None = Field(
        default=None, description="`message.output_text.logprobs`, `reasoning.encrypted_content`."
    )
    reasoning: ReasoningSettings | None = None
    text: TextSettings | None = None
    tools: list[dict[str, Any]] | None = Field(
        default=None, description="Functions, custom tools and namespaces; others are not declared."
    )
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    truncation: Literal["auto", "disabled"] | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(
        default=None, ge=1, description="Another name for max_output_tokens."
    )
    max_tool_calls: int | None = Field(default=None, ge=1)
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    prompt: dict[str, Any] | None = Field(
        default=None, description="Stored prompts: there are none."
    )
    prompt_cache_key: str | None = Field(default=None, max_length=1024)
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = Field(default=None, max_length=1024)
    service_tier: str | None = None
    user: str | None = None

    @field_validator("messages")
    @classmethod
    def _instead_of_input(cls, messages: Any, info: ValidationInfo) -> Any:
        if messages is not None and info.data.get("input") is not None:
            raise ValueError("this is another name for input; send one of the two")
        return messages

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
            raise ValueError("there are no stored prompts; send instructions and input instead")
        return prompt

    @property
    def items(self) -> list[dict[str, Any]]:
        """The input as items, as they were sent."""
        sent = self.input if self.input is not None else self.messages
        if isinstance(sent, str):
            return [{"type": "message", "role": "user", "content": sent}]
        return sent or []

    @property
    def items_field(self) -> str:
        """The name under which the input was sent, for errors."""
        return "messages" if self.input is None and self.messages is not None else "input"

    @property
    def is_stored(self) -> bool:
        """Whether the response is kept."""
        return self.store is not False

    @property
    def token_limit(self) -> int | None:
        """How many tokens the response may have."""
        return self.max_tokens if self.max_output_tokens is None else self.max_output_tokens

    @property
    def shows_logprobs(self) -> bool:
        """Whether texts come with log-probabilities."""
        return "message.output_text.logprobs" in (self.include or ()) or bool(self.top_logprobs)

    @property
    def seals_reasoning(self) -> bool:
        """Whether reasoning comes with `encrypted_content`."""
        return "reasoning.encrypted_content" in (self.include or ())

    def sampling(self, defaults: Sampling | None = None) -> Sampling:
        """How the response is sampled."""
        logprobs = (self.top_logprobs or 0) if self.shows_logprobs else None
        return self.settings(defaults or Sampling(), max_tokens=self.token_limit, logprobs=logprobs)
