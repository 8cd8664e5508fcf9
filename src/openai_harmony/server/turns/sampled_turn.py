"""Turns as the routes run them: prepared off the event loop, in the queue, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import NamedTuple

from ...apis.turn_request import TurnRequest
from ...engines.errors import EngineError
from ...engines.sampling import Sampling
from ..keys.use import KeyUse
from ..services import Services
from .engine_place import engine_place
from .events import TurnEnded, TurnEvent
from .preparation import prepare_turn
from .reader import TurnReader
from .tally import CompletionTally

__all__ = ["PreparedTurn", "prepared_turn", "sampled_turn"]


class PreparedTurn(NamedTuple):
    """What the engine gets."""

    prompt: list[int]
    sampling: Sampling


async def prepared_turn(services: Services, request: TurnRequest) -> PreparedTurn:
    """Render the prompt, and write the grammar where there is one."""
    with services.metrics.preparation.time():
        return PreparedTurn(
            *await asyncio.to_thread(prepare_turn, request, constrain=services.settings.grammar)
        )


async def sampled_turn(
    services: Services,
    use: KeyUse,
    request: TurnRequest,
    prepared: PreparedTurn,
    *,
    is_first: bool = True,
) -> AsyncGenerator[TurnEvent, None]:
    """Sample a prepared turn; closing the generator frees its place, and the engine's slot.

    Of several turns of one request only the first can be refused. Raises what `engine_place` does.
    """
    prompt, sampling = prepared
    reader = TurnReader(request, len(prompt))
    place = engine_place(services, use, prompt, sampling, is_first=is_first)
    async with place as (tokens, tally):
        async for sampled in tokens:
            for event in reader.take(sampled):
                if isinstance(event, TurnEnded):
                    _note_end(tally, event)
                yield event
            if reader.is_over:
                return
        raise EngineError("the engine ended a completion without a reason", retryable=True)


def _note_end(tally: CompletionTally, event: TurnEnded) -> None:
    tally.ended(
        event.reason,
        cached=event.usage.cached_tokens,
        reasoning=event.usage.reasoning_tokens,
        recoveries=event.recoveries,
    )
