"""The interface of engines: prompt tokens and sampling settings in, completion tokens out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from inspect import signature
from typing import Any, NamedTuple

from ..errors import HarmonyError, wrong_type
from ..tokens.special_tokens import CALL, RETURN


class EngineError(HarmonyError):
    """The engine failed or cannot be reached; if `retryable`, a retry may succeed."""

    def __init__(self, problem: str, *, retryable: bool = False) -> None:
        super().__init__(problem)
        self.retryable = retryable


class ContextLengthError(EngineError, ValueError):
    """The prompt leaves no room in the context; lengths are in tokens."""

    def __init__(self, prompt_length: int, context_length: int) -> None:
        super().__init__(
            # Clients search for these words, to send the request to a model with a larger context.
            f"This model's maximum context length is {context_length} tokens. However, the prompt "
            f"has {prompt_length} tokens, and the completion needs at least one; shorten the "
            "conversation"
        )
        self.prompt_length = prompt_length
        self.context_length = context_length

    @classmethod
    def check(cls, prompt_length: int, context_length: int) -> int:
        """Return how many tokens fit after the prompt; raise the error if there is no room.

        >>> ContextLengthError.check(90, 100)
        10
        """
        if prompt_length >= context_length:
            raise cls(prompt_length, context_length)
        return context_length - prompt_length


class SamplingError(EngineError, ValueError):
    """A sampling setting or a prompt is invalid, or this engine does not support it."""

    @classmethod
    def check_tokens(cls, prompt: Sequence[int], vocabulary_size: int) -> None:
        """Raise the error if the model has no embedding for a token of the prompt."""
        unknown = next((token for token in prompt if not 0 <= token < vocabulary_size), None)
        if unknown is not None:
            raise cls(
                f"the prompt has the token {unknown}, which is not in the vocabulary of the model "
                f"(0 to {vocabulary_size - 1})"
            )


def check_sizes(**sizes: int | None) -> None:
    """Raise `EngineError` for a setting that is given and not a positive integer.

    >>> check_sizes(context_length=4096, threads=None)
    """
    for setting, value in sizes.items():
        if value is not None and (not isinstance(value, int) or value < 1):
            raise EngineError(f"{setting} must be an integer from 1, not {value!r}")


def check_context(model: str, asked: int | None, longest: int) -> None:
    """Raise `EngineError` if a longer context is asked for than a model has."""
    if asked is not None and asked > longest:
        raise EngineError(
            f"the context of {model} has at most {longest:,} tokens, not {asked:,}; use a smaller "
            "context_length (--context-length)"
        )


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
    """The sampling settings of one completion; the defaults are those recommended for gpt-oss.

    - `temperature`: 0 always samples the likeliest token.
    - `top_p`, `top_k`, `min_p`: keep the likeliest tokens up to this total probability, this many
      of them (0 for all), and those with at least this share of the top probability.
    - `seed`: the same seed gives the same tokens on the same engine; None picks a new one.
    - `max_tokens`: the most tokens to sample; None for as many as fit into the context.
    - `stop_tokens`: ids that end the completion; the completion contains the stop token.
    - `logprobs`: how many of the likeliest tokens to return beside each token; 0 for only the
      token's own log-probability, None for none. They are those of the model, before any setting.
    - `frequency_penalty`, `presence_penalty`: subtracted from the logit of a token, for each
      occurrence and once, if the completion already contains it.
    - `repetition_penalty`: divides the positive logits of tokens in the prompt and the completion,
      and multiplies their negative ones.
    - `grammar`: the grammar from `gpt_oss_harmony.grammar.turn_grammar`; None for no constraint.
    - `close_in_time`: end a turn under a grammar within `max_tokens`, so that the limit cuts no
      call and no JSON answer (see `gpt_oss_harmony.grammar.ClosingMatcher`).

    Raises `SamplingError` for a value that is out of range.
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
    close_in_time: bool = False

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not least <= value <= most:
                raise SamplingError(f"{name} must be from {least} to {most}, not {value!r}")
        for name, start in (("top_k", 0), ("max_tokens", 1), ("logprobs", 0)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < start):
                raise SamplingError(f"{name} must be an integer from {start}, not {value!r}")


class FinishReason(str, Enum):
    """The reason for the end of a completion."""

    STOP = "stop"
    """The model sampled a stop token, which is part of the completion."""
    LENGTH = "length"
    """The completion reached `max_tokens` or the end of the context."""


class SampledToken(NamedTuple):
    """One token of a completion.

    `logprob` and `top_logprobs` (the likeliest tokens first) are natural logarithms; None unless
    requested. The last token has the `finish_reason` and, if the engine reports them, the
    `cached_tokens`: how many tokens of the prompt came from the prefix cache. `is_forced` is True
    for tokens that the engine did not sample because the grammar allowed no other token.
    """

    token: int
    logprob: float | None = None
    top_logprobs: tuple[tuple[int, float], ...] | None = None
    finish_reason: FinishReason | None = None
    cached_tokens: int | None = None
    is_forced: bool = False


class Health(NamedTuple):
    """The state of an engine: whether it can take requests, and how many are running."""

    ready: bool
    running: int = 0
    detail: str = ""


class Engine(ABC):
    """An engine runs a model: token ids in, token ids out.

    Make its requests from one event loop at a time.

    ::

        async with engine:
            async for sampled in engine.generate(prompt, Sampling(temperature=0)):
                ...
    """

    model: str
    """The model's name."""

    context_length: int
    """The most tokens of prompt and completion together."""

    origin: str = ""
    """A readable origin of the model, such as ``vLLM at http://localhost:8000``."""

    skips_forced: bool = False
    """Whether tokens that a grammar forces need no step of the model."""

    closes_in_time: bool = False
    """Whether the engine supports `Sampling.close_in_time`."""

    counts_tokens: bool = True
    """Whether a grammar may limit the tokens of a message."""

    def generate(
        self, prompt: Sequence[int], sampling: Sampling | None = None
    ) -> AsyncGenerator[SampledToken, None]:
        """Sample a completion after `prompt`, token by token.

        If the generator is closed early (``aclose``, or a cancelled task), its slot is free at
        once. Raises `ContextLengthError` if the prompt is too long, `SamplingError` for settings
        that this engine does not support, and `EngineError` if the engine fails.
        """
        if sampling is None:
            sampling = Sampling()
        elif not isinstance(sampling, Sampling):
            raise wrong_type("sampling", "a Sampling", sampling, "write Sampling(temperature=0)")
        tokens = list(prompt)
        if not tokens:
            raise SamplingError("the prompt is empty; send at least one token")
        if sampling.close_in_time and sampling.grammar is not None and not self.closes_in_time:
            raise SamplingError(
                f"close_in_time: {self.origin or self.model} cannot end a turn within max_tokens; "
                "use a model of Transformers, MLX or NumPy, or leave close_in_time out"
            )
        room = ContextLengthError.check(len(tokens), self.context_length)
        return self._generate(tokens, sampling, min(room, sampling.max_tokens or room))

    @abstractmethod
    def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        """Sample at most `max_tokens` tokens; the prompt has been checked."""

    async def score(self, tokens: Sequence[int], logprobs: int = 0) -> list[SampledToken]:
        """Return the log-probability of each token of a text, given the tokens before it.

        The first token has none. `logprobs` is the number of the likeliest tokens beside each.
        Raises `SamplingError` if this engine cannot score texts, and what `generate` raises.
        """
        raise SamplingError(
            f"{self.origin or self.model} returns no log-probabilities of prompts; use vLLM or a "
            "model of Transformers, or leave echo or logprobs out"
        )

    @abstractmethod
    async def health(self) -> Health:
        """Return the engine's state; this method raises no error."""

    @abstractmethod
    async def close(self) -> None:
        """Free the engine's resources; running requests end with an `EngineError`."""

    async def __aenter__(self) -> Engine:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def unknown_options(
    engine: str, options: Mapping[str, Any], error: TypeError, opens: Callable[..., Any]
) -> EngineError | TypeError:
    """Return the error for options that the function which `opens` an engine does not have."""
    if not options:
        return error
    named = [
        parameter.name
        for parameter in signature(opens).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name != "name"
    ]
    given, others = ", ".join(sorted(options)), ", ".join(named)
    return EngineError(f"{engine} does not have all of the options {given}; it has {others}")
