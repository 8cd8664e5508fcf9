"""The fields of a request that say how tokens are sampled, the same in every API."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from ..engines.sampling import Sampling
from .request_body import RequestBody

__all__ = ["SamplingFields", "StopTexts", "no_bias"]

_SEEDS = 2**63


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


_StopText: TypeAlias = Annotated[str, Field(min_length=1)]

StopTexts: TypeAlias = Annotated[
    list[_StopText],
    Field(max_length=16),
    BeforeValidator(_as_list),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 16},
            ]
        }
    ),
]
"""One text, or several."""


def no_bias(bias: Any) -> Any:
    """Refuse a `logit_bias`, which no engine has: answers would not be what was asked for."""
    if bias:
        raise ValueError("the engines have no such setting; leave it out")
    return bias


class SamplingFields(RequestBody):
    """How tokens are sampled; what is left out is as the server has it."""

    temperature: float | None = Field(default=None, ge=0, le=2, description="0 is greedy.")
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: int | None = Field(default=None, ge=-1, description="0 and -1 are for all tokens.")
    min_p: float | None = Field(default=None, ge=0, le=1)
    seed: int | None = Field(default=None, ge=-_SEEDS, le=_SEEDS - 1)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    repetition_penalty: float | None = Field(default=None, ge=0.01, le=100)
    stop: StopTexts | None = Field(
        default=None, description="Texts that end the answer, and are not a part of it."
    )

    def settings(
        self, defaults: Sampling, *, max_tokens: int | None, logprobs: int | None
    ) -> Sampling:
        """Put what the request says over the defaults."""
        said = {name: getattr(self, name) for name in _NAMES}
        said |= {"max_tokens": max_tokens, "logprobs": logprobs}
        if self.top_k == -1:
            said["top_k"] = 0
        known = {name: getattr(defaults, name) for name in (*_FIXED, *said)}
        return Sampling(**{**known, **{k: v for k, v in said.items() if v is not None}})

    @property
    def stop_texts(self) -> tuple[str, ...]:
        """The texts that end an answer."""
        return tuple(self.stop or ())


_NAMES = tuple(name for name in SamplingFields.model_fields if name != "stop")
_FIXED = ("stop_tokens", "grammar")
