"""The body of requests to Anthropic's Messages API.

The fields are those of the API, with the sampling settings and the effort of our other APIs. Fields
that the model cannot obey raise an error; `Ignored` ones do not change the answer.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, ValidationInfo, field_validator

from ...engines.engine import Sampling
from ..request_body import (
    OWNER,
    Effort,
    Ignored,
    OneAnswer,
    RequestSettings,
    SamplingFields,
    Unsupported,
    Whitespace,
    elsewhere,
)

ReasoningDisplay: TypeAlias = Literal["shown", "sealed", "with_calls"]
"""The reasoning in an answer: all of it, only its signature, or only that before a call."""


class ThinkingSettings(RequestSettings):
    """Whether the model reasons, for how long, and what of it the client sees."""

    type: Literal["enabled", "adaptive", "between_tools", "disabled"]
    budget_tokens: int | None = Field(
        default=None, ge=0, description="The most tokens of reasoning in a turn."
    )
    display: Literal["summarized", "omitted"] | None = Field(
        default=None, description="`omitted` sends only the signature of the reasoning."
    )


class ThreadSettings(RequestSettings):
    """A thread: messages that the server keeps under the id of its last answer."""

    type: Literal["create", "continue"]
    previous_message_id: str | None = Field(
        default=None,
        validate_default=True,
        description="With `continue`: the id of the last answer.",
    )

    @field_validator("previous_message_id")
    @classmethod
    def _fits_the_type(cls, id: Any, info: ValidationInfo) -> Any:
        if (id is None) is (info.data.get("type") == "continue"):
            raise ValueError("send it with the type continue, and only then")
        return id


class OutputConfig(RequestSettings):
    """The effort, and the form of the answer: a JSON Schema."""

    effort: Effort | None = None
    format: dict[str, Any] | None = Field(
        default=None, description="`type` (json_schema) and `schema`."
    )


class MessagesRequest(SamplingFields):
    """A request for a message."""

    # Anthropic's API has the same limit.
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
    stop_sequences: list[Annotated[str, Field(min_length=1)]] | None = Field(
        default=None,
        max_length=16,
        description="Texts that end the answer; the answer does not contain them.",
    )
    stop: Annotated[Any, elsewhere("send `stop_sequences`")] = None
    max_completion_tokens: Annotated[Any, elsewhere("send `max_tokens`")] = None
    max_output_tokens: Annotated[Any, elsewhere("send `max_tokens`")] = None
    n: OneAnswer = None
    input: Annotated[Any, elsewhere("send `messages`")] = None
    instructions: Annotated[Any, elsewhere("send `system`")] = None
    response_format: Annotated[Any, elsewhere("send `output_config.format`")] = None
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
    thread: ThreadSettings | None = Field(
        default=None, description="Whether the server keeps the messages, or has kept them."
    )
    container: Unsupported = None
    mcp_servers: Unsupported = None
    cache_control: Annotated[Any, Ignored("the engine caches every prompt by itself")] = None
    context_management: Annotated[
        Any, Ignored("nothing is removed; past reasoning is dropped in any case")
    ] = None
    diagnostics: Annotated[Any, Ignored("the usage reports the cached tokens")] = None
    inference_geo: Annotated[Any, Ignored("the server runs in one place")] = None
    metadata: Annotated[Any, Ignored(OWNER)] = None
    service_tier: Annotated[Any, Ignored("there is one tier", accepted=("auto",))] = None
    speed: Annotated[Any, Ignored("there is one speed", accepted=("standard",))] = None
    user_profile_id: Annotated[Any, Ignored(OWNER)] = None

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
