"""The body of a request to ``/v1/completions``: what the API has, and what vLLM added."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import Field, field_validator

from ...apis.completion_request import CompletionRequest
from ...engines.sampling import Sampling

__all__ = ["CompletionBody"]

_MOST_CHOICES = 128


class CompletionBody(CompletionRequest):
    """A request for completions.

    Text is encoded with its special tokens: this endpoint is for prompts as the model reads them.
    """

    skip_special_tokens: bool | None = Field(
        default=None,
        description="Whether special tokens are left out of the text; true by default.",
    )
    return_token_ids: bool | None = Field(
        default=None, description="Whether choices have `prompt_token_ids` and `token_ids`."
    )
    return_tokens_as_token_ids: bool | None = Field(
        default=None, description="Whether log-probabilities name tokens as `token_id:ID`."
    )
    stop_token_ids: list[int] | None = Field(
        default=None, description="Tokens that end the completion, beside <|return|> and <|call|>."
    )
    ignore_eos: bool | None = Field(
        default=None, description="Whether only `stop_token_ids` end the completion."
    )
    structured_outputs: dict[str, Any] | None = Field(
        default=None, description="`grammar`: what the completion must follow, as llguidance reads."
    )

    @field_validator("structured_outputs")
    @classmethod
    def _is_a_grammar(cls, wanted: Any) -> Any:
        if wanted and (wanted.keys() != {"grammar"} or not isinstance(wanted["grammar"], str)):
            raise ValueError("only 'grammar' is read here, a text; for JSON, ask for a chat")
        return wanted

    @field_validator("echo")
    @classmethod
    def _echoes_text_alone(cls, echo: Any, info: Any) -> Any:
        if echo and info.data.get("logprobs") is not None:
            raise ValueError("the engines tell no log-probabilities of prompts; leave logprobs out")
        return echo

    @field_validator("n")
    @classmethod
    def _is_no_flood(cls, n: Any, info: Any) -> Any:
        prompts = len(info.data.get("prompt") or ())
        if n is not None and n * prompts > _MOST_CHOICES:
            raise ValueError(f"{prompts} prompts with {n} choices each are over {_MOST_CHOICES}")
        return n

    @property
    def shows_special_tokens(self) -> bool:
        """Whether they are in the text."""
        return self.skip_special_tokens is False

    def sampling(self, defaults: Sampling | None = None) -> Sampling:
        """How each choice is sampled."""
        known = super().sampling(defaults)
        stop_tokens = frozenset(self.stop_token_ids or ())
        if not self.ignore_eos:
            stop_tokens |= known.stop_tokens
        grammar = (self.structured_outputs or {}).get("grammar")
        return replace(known, stop_tokens=stop_tokens, grammar=grammar)
