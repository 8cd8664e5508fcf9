"""How completions are sampled: the settings that all engines take."""

from __future__ import annotations

from dataclasses import dataclass

from ..tokens.special_tokens import CALL, RETURN
from .errors import SamplingError

__all__ = ["Sampling"]

_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, 100),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "repetition_penalty": (0.01, 100),
}


@dataclass(frozen=True)
class Sampling:
    """Settings of one completion; the defaults are those recommended for gpt-oss.

    - `temperature`: 0 is greedy.
    - `top_p`, `top_k`, `min_p`: keep the likeliest tokens that make up this probability, this many
      of them (0 for all), and those with this share of the likeliest one's probability.
    - `seed`: the same seed gives the same tokens on the same engine; None is a new one each time.
    - `max_tokens`: at most so many tokens; None for all that the context has room for.
    - `stop_tokens`: ids that end the completion, and are its last token.
    - `logprobs`: how many of the likeliest tokens to tell beside each token, 0 for its own
      log-probability alone, None for nothing. They are those of the model, before any setting.
    - `frequency_penalty`, `presence_penalty`: taken off the logit of a token for each time, and
      once, that it is in the completion.
    - `repetition_penalty`: divides (multiplies, where negative) the logits of tokens in the prompt
      and the completion.
    - `grammar`: the text that `openai_harmony.grammar.turn_grammar` writes.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None
    stop_tokens: frozenset[int] = frozenset((RETURN, CALL))
    logprobs: int | None = None
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    grammar: str | None = None

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not least <= value <= most:
                raise SamplingError(f"{name} must be from {least} to {most}, not {value!r}")
        for name, start in (("top_k", 0), ("max_tokens", 1), ("logprobs", 0)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < start):
                raise SamplingError(f"{name} must be an integer from {start}, not {value!r}")
