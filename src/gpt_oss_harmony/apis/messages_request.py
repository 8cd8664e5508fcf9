"""The body of requests to Anthropic's Messages API.

The fields are those of the API, with the sampling settings and the effort of our other APIs. Fields
that the model cannot obey raise an error; `IGNORED` lists those that do not change the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from ..engines.engine import Sampling
from .request_body import SamplingFields, Whitespace, misplaced_field
from .requests import Effort, Elsewhere, OneAnswer, Unsupported

__all__ = ["IGNORED", "MessagesRequest", "OutputConfig", "ReasoningDisplay", "ThinkingSettings"]

ReasoningDisplay: TypeAlias = Literal["shown", "sealed", "with_calls"]
"""The reasoning in an answer: all of it, only its signature, or only that before a call."""

IGNORED: Mapping[str, str] = {
    "cache_control": "the engine caches every prompt by itself",
    "context_management": "nothing is removed; past reasoning is dropped in any case",
    "diagnostics": "the usage reports the cached tokens",
    "inference_geo": "the server runs in one place",
    "metadata": "the owner of a request is its API key",
    "service_tier": "there is one tier",
    "speed": "there is one speed",
    "user_profile_id": "the owner of a request is its API key",
}
"""Fields of the API that do not change the answer, with the reasons."""


_ELSEWHERE = {
    "stop": "send stop_sequences",
    "max_completion_tokens": "send max_tokens",
    "max_output_tokens": "send max_tokens",
    "n": "send a request for each answer",
    "input": "send messages",
    "instructions": "send system",
    "response_format": "send output_config.format",
}
"""Fields of the other APIs, and what to send instead."""


class _Settings(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class ThinkingSettings(_Settings):
    """Whether the model reasons, for how long, and what of it the client sees."""

    type: Literal["enabled", "adaptive", "between_tools", "disabled"]
    budget_tokens: int | None = Field(
        default=None, ge=0, description="The most tokens of reasoning in a turn."
    )
    display: Literal["summarized", "omitted"] | None = Field(
        default=None, description="`omitted` sends only the signature of the reasoning."
    )


class OutputConfig(_Settings):
    """The effort, and the form of the answer: a JSON Schema."""

    effort: Effort | None = None
    format: dict[str, Any] | None = Field(
        default=None, description="`type` (json_schema) and `schema`."
    )


class MessagesRequest(SamplingFields):
    """A request for a message."""

    model: str | None = None
    messages: list[dict[str, Any]] = Field(min_length=1, max_length=100_000)
    system: str | list[dict[str, Any]] | None = Field(
        default=None, description="Instructions: a text, or text blocks."
    )
    max_tokens: int | None = Field(
        default=None,
        ge=0,
        description="The most tokens of the answer; its reasoning counts. 0 only reads the prompt, "
        "so that the engine has it in its cache.",
    )
    stream: bool | None = Field(
        default=None, description="Whether to answer with server-sent events."
    )
    stop_sequences: list[Annotated[str, Field(min_length=1)]] | None = Field(
        default=None,
        max_length=16,
        description="Texts that end the answer; the answer does not contain them.",
    )
    stop: Elsewhere = Field(default=None, description="Send `stop_sequences` instead.")
    max_completion_tokens: Elsewhere = Field(default=None, description="Send `max_tokens` instead.")
    max_output_tokens: Elsewhere = Field(default=None, description="Send `max_tokens` instead.")
    n: OneAnswer = Field(default=None, description="A request has one answer.")
    input: Elsewhere = Field(default=None, description="Send `messages` instead.")
    instructions: Elsewhere = Field(default=None, description="Send `system` instead.")
    response_format: Elsewhere = Field(
        default=None, description="Send `output_config.format` instead."
    )
    thinking: ThinkingSettings | None = None
    output_config: OutputConfig | None = None
    output_format: dict[str, Any] | None = Field(
        default=None, description="Another name for `output_config.format`."
    )
    reasoning_effort: Effort | None = Field(
        default=None, description="Another name for `output_config.effort`."
    )
    json_whitespace: Whitespace | None = Field(
        default=None, description="The white space in calls and JSON answers."
    )
    tools: list[dict[str, Any]] | None = Field(
        default=None, description="Tools of the client, each with its `input_schema`."
    )
    tool_choice: dict[str, Any] | None = None
    container: Unsupported = None
    mcp_servers: Unsupported = None
    cache_control: Any = Field(default=None, description=IGNORED["cache_control"])
    context_management: Any = Field(default=None, description=IGNORED["context_management"])
    diagnostics: Any = Field(default=None, description=IGNORED["diagnostics"])
    inference_geo: Any = Field(default=None, description=IGNORED["inference_geo"])
    metadata: Any = Field(default=None, description=IGNORED["metadata"])
    service_tier: Any = Field(default=None, description=IGNORED["service_tier"])
    speed: Any = Field(default=None, description=IGNORED["speed"])
    user_profile_id: Any = Field(default=None, description=IGNORED["user_profile_id"])

    @field_validator(*_ELSEWHERE)
    @classmethod
    def _is_of_another_api(cls, value: Any, info: ValidationInfo) -> Any:
        return misplaced_field(value, info.field_name, _ELSEWHERE)

    @property
    def stop_texts(self) -> tuple[str, ...]:
        """The texts that end the answer."""
        return tuple(self.stop_sequences or ())

    @property
    def reasoning_display(self) -> ReasoningDisplay:
        """The part of the reasoning that the client sees.

        Many clients read the first block as the answer. So a request without `thinking` gets
        reasoning only before a call, where the next request must send it back.
        """
        thinking = self.thinking
        if thinking is None or thinking.type in ("disabled", "between_tools"):
            return "with_calls"
        return "sealed" if thinking.display == "omitted" else "shown"

    def sampling(self, defaults: Sampling | None = None) -> Sampling:
        """Return the settings for sampling the answer; a token of no answer is sampled, too."""
        most = 1 if self.max_tokens == 0 else self.max_tokens
        return self.settings(defaults or Sampling(), max_tokens=most, logprobs=None)
