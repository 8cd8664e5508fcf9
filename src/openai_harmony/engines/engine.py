"""What the rest of the library asks of whatever runs a model: token ids in, token ids out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from enum import Enum
from typing import NamedTuple

from .errors import ContextLengthError, SamplingError
from .sampling import Sampling

__all__ = ["Engine", "FinishReason", "Health", "SampledToken"]


class FinishReason(str, Enum):
    """Why a completion ended."""

    STOP = "stop"
    """With a stop token, which is part of the completion."""
    LENGTH = "length"
    """`max_tokens`, or the context, was used up."""


class SampledToken(NamedTuple):
    """One token of a completion.

    `logprob` and `top_logprobs`, the likeliest tokens first, are natural logarithms; None unless
    they were asked for. The last token has the `finish_reason` and, where the engine tells it,
    `cached_tokens`: how many tokens of the prompt it had read before and kept.
    """

    token: int
    logprob: float | None = None
    top_logprobs: tuple[tuple[int, float], ...] | None = None
    finish_reason: FinishReason | None = None
    cached_tokens: int | None = None


class Health(NamedTuple):
    """Whether an engine can take requests, and what it is busy with."""

    ready: bool
    running: int = 0
    detail: str = ""


class Engine(ABC):
    """Something that runs a model; requests may come from one event loop at a time.

    ::

        async with engine:
            async for sampled in engine.generate(prompt, Sampling(temperature=0)):
                ...
    """

    model: str
    """The model's name."""

    context_length: int
    """Tokens of prompt and completion together, at most."""

    origin: str = ""
    """Where the model comes from and what runs it, in words: ``vLLM at http://localhost:8000``."""

    def generate(
        self, prompt: Sequence[int], sampling: Sampling | None = None
    ) -> AsyncGenerator[SampledToken, None]:
        """Sample a completion after `prompt`, token by token.

        Closing the generator early (``aclose``, or a cancelled task) frees the engine's slot at
        once. Raises `ContextLengthError`, `SamplingError` for settings that this engine does not
        have, before anything is sampled; and `EngineError`.
        """
        sampling = sampling or Sampling()
        tokens = list(prompt)
        if not tokens:
            raise SamplingError("the prompt is empty")
        room = ContextLengthError.check(len(tokens), self.context_length)
        return self._generate(tokens, sampling, min(room, sampling.max_tokens or room))

    @abstractmethod
    def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        """Sample at most `max_tokens` tokens; the prompt has been checked."""

    @abstractmethod
    async def health(self) -> Health:
        """Tell whether the engine can take requests; raises nothing."""

    @abstractmethod
    async def close(self) -> None:
        """Give back what the engine holds; requests under way end with an `EngineError`."""

    async def __aenter__(self) -> Engine:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
