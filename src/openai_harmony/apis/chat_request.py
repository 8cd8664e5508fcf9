"""The body of a request to the Chat Completions API."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from ..engines.sampling import Sampling
from .request_body import Metadata
from .responses_request import Effort, StreamOptions
from .sampling_fields import SamplingFields, no_bias

__all__ = ["ChatRequest"]


class ChatRequest(SamplingFields):
    """A request for a chat completion."""

    model: str | None = None
    messages: list[dict[str, Any]] = Field(min_length=1)
    stream: bool | None = Field(
        default=None, description="Whether to answer with server-sent events."
    )
    stream_options: StreamOptions | None = None
    n: int | None = Field(default=None, ge=1, le=128, description="How many choices.")
    max_completion_tokens: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(
        default=None, ge=1, description="Another name for max_completion_tokens."
    )
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    logit_bias: dict[str, Any] | None = Field(default=None, description="Must be empty.")
    reasoning_effort: Effort | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    functions: list[dict[str, Any]] | None = Field(default=None, description="Send tools instead.")
    verbosity: Literal["low", "medium", "high"] | None = None
    store: bool | None = None
    metadata: Metadata | None = None
    prompt_cache_key: str | None = Field(default=None, max_length=1024)
    safety_identifier: str | None = Field(default=None, max_length=1024)
    service_tier: str | None = None
    user: str | None = None

    @field_validator("logit_bias")
    @classmethod
    def _has_no_bias(cls, bias: Any) -> Any:
        return no_bias(bias)

    @field_validator("top_logprobs")
    @classmethod
    def _has_logprobs(cls, top: Any, info: ValidationInfo) -> Any:
        if top and not info.data.get("logprobs"):
            raise ValueError("it needs logprobs to be true")
        return top

    @property
    def token_limit(self) -> int | None:
        """How many tokens a choice may have."""
        most = self.max_completion_tokens
        return self.max_tokens if most is None else most

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def sampling(self, defaults: Sampling | None = None) -> Sampling:
        """How each choice is sampled."""
        logprobs = (self.top_logprobs or 0) if self.logprobs else None
        return self.settings(defaults or Sampling(), max_tokens=self.token_limit, logprobs=logprobs)
