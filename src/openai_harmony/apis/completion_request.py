"""The body of a request to the Completions API: a prompt that is continued as it is."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema, field_validator

from ..engines.sampling import Sampling
from .responses_request import StreamOptions
from .sampling_fields import SamplingFields, no_bias

__all__ = ["CompletionRequest"]


def _as_prompts(value: Any) -> Any:
    """Make a list of prompts of what may be one: a text, or token ids."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise ValueError("expected text, token ids, or a list of one of them")
    if value and all(_is_token(item) for item in value):
        return [value]
    for at, item in enumerate(value):
        is_tokens = isinstance(item, list) and all(map(_is_token, item))
        if not isinstance(item, str) and not is_tokens:
            raise ValueError(f"prompt {at} is neither text nor a list of token ids")
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
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
                {**_TOKENS, "minItems": 1},
                {"type": "array", "items": _TOKENS, "minItems": 1},
            ]
        }
    ),
    Field(min_length=1, max_length=128),
]
"""Texts, or token ids; one of them may stand alone."""


class CompletionRequest(SamplingFields):
    """A request for completions; the prompts are harmony as text or as token ids."""

    model: str | None = None
    prompt: Prompts
    stream: bool | None = Field(
        default=None, description="Whether to answer with server-sent events."
    )
    stream_options: StreamOptions | None = None
    n: int | None = Field(
        default=None, ge=1, le=128, description="How many choices for each prompt."
    )
    best_of: int | None = Field(default=None, ge=1, le=128, description="Must be n.")
    max_tokens: int | None = Field(default=None, ge=1)
    logprobs: int | None = Field(default=None, ge=0, le=20)
    echo: bool | None = Field(default=None, description="Whether the text begins with the prompt.")
    suffix: str | None = Field(default=None, description="Must be empty.")
    logit_bias: dict[str, Any] | None = Field(default=None, description="Must be empty.")
    user: str | None = None

    @field_validator("logit_bias")
    @classmethod
    def _has_no_bias(cls, bias: Any) -> Any:
        return no_bias(bias)

    @field_validator("suffix")
    @classmethod
    def _has_no_suffix(cls, suffix: Any) -> Any:
        if suffix:
            raise ValueError("the model only continues texts; leave it out")
        return suffix

    @field_validator("best_of")
    @classmethod
    def _shows_all(cls, best_of: Any, info: ValidationInfo) -> Any:
        if best_of is not None and best_of != (info.data.get("n") or 1):
            raise ValueError("choices are not compared; leave it out")
        return best_of

    def sampling(self, defaults: Sampling | None = None) -> Sampling:
        """How each choice is sampled."""
        return self.settings(
            defaults or Sampling(), max_tokens=self.max_tokens, logprobs=self.logprobs
        )
