"""One completion at the engine: in the queue before it, counted, and given up in order."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import NamedTuple

from ...engines.engine import SampledToken
from ...engines.errors import ContextLengthError, EngineError
from ...engines.sampling import Sampling
from ..admission import shutting_down
from ..keys.use import KeyUse
from ..services import Services
from .tally import CompletionTally

__all__ = ["EnginePlace", "engine_place"]


class EnginePlace(NamedTuple):
    """The tokens as they are sampled; `tally` is told when the completion has ended."""

    tokens: AsyncGenerator[SampledToken, None]
    tally: CompletionTally


@asynccontextmanager
async def engine_place(
    services: Services,
    use: KeyUse,
    prompt: list[int],
    sampling: Sampling,
    *,
    is_first: bool = True,
) -> AsyncGenerator[EnginePlace, None]:
    """Wait for a place, and sample in it; at the end the engine's slot is free at once.

    Of several completions for one request only the first can be refused. Raises what
    `Admission.place` and `Engine.generate` raise; when the engine was closed because the server
    ends, that is what the error says.
    """
    room = ContextLengthError.check(len(prompt), services.context_length)
    sampling = replace(sampling, max_tokens=min(room, sampling.max_tokens or room))
    with CompletionTally(services.metrics, use, len(prompt)) as tally:
        async with services.admission.place(is_first=is_first):
            tally.has_place()
            stream = tally.follow(services.engine.generate(prompt, sampling))
            try:
                async with aclosing(stream) as tokens:
                    yield EnginePlace(tokens, tally)
            except EngineError as error:
                if services.admission.is_closed and not isinstance(error, ValueError):
                    raise shutting_down() from error
                raise
