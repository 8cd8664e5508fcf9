"""Turns as the routes run them: prepared off the event loop, in the queue, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from ..apis.turn_request import TurnRequest
from ..engines.errors import EngineError
from ..engines.sampling import Sampling
from .completion_tally import CompletionTally
from .engine_place import engine_place
from .services import Services
from .turn import prepare_turn
from .turn_events import TurnEnded, TurnEvent
from .turn_reader import TurnReader

__all__ = ["PreparedTurn", "measured_turn", "prepared_turn", "sampled_turn"]


class PreparedTurn(NamedTuple):
    """What the engine gets."""

    prompt: list[int]
    sampling: Sampling


async def measured_turn(
    services: Services, request: TurnRequest
) -> AsyncGenerator[TurnEvent, None]:
    """Sample a turn; closing the generator frees its place, and the engine's slot.

    What is wrong with a request is said before it waits. Raises what `prepare_turn`,
    `Admission.place` and `Engine.generate` raise.
    """
    prepared = await prepared_turn(services, request)
    async with aclosing(sampled_turn(services, request, prepared)) as events:
        async for event in events:
            yield event


async def prepared_turn(services: Services, request: TurnRequest) -> PreparedTurn:
    """Render the prompt, and write the grammar where there is one."""
    with services.metrics.preparation.time():
        return PreparedTurn(
            *await asyncio.to_thread(prepare_turn, request, constrain=services.settings.grammar)
        )


async def sampled_turn(
    services: Services, request: TurnRequest, prepared: PreparedTurn, *, is_first: bool = True
) -> AsyncGenerator[TurnEvent, None]:
    """Sample a prepared turn; of several turns of one request only the first can be refused."""
    prompt, sampling = prepared
    reader = TurnReader(request, len(prompt))
    async with engine_place(services, prompt, sampling, is_first=is_first) as (tokens, tally):
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
