"""A chat request at the engine: its choices as one stream of turn events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from ...apis.chat_request import ChatRequest
from ...apis.turn_request import TurnRequest
from ...apis.turns import turn_of_chat
from ...engines.errors import ContextLengthError
from ..api_error import ApiError
from ..keys.caller import Caller
from ..keys.use import key_use
from ..services import Services
from ..turns.events import TurnEvent
from ..turns.merged import merged
from ..turns.sampled_turn import PreparedTurn, prepared_turn, sampled_turn
from ..turns.seeds import with_seed_of

__all__ = ["chat_turn", "choice_events"]


async def chat_turn(services: Services, body: ChatRequest) -> TurnRequest:
    """Read the request; a long one takes a while, so this is done off the event loop."""
    return await asyncio.to_thread(turn_of_chat, body, date=services.current_date())


async def choice_events(
    services: Services, caller: Caller, turn: TurnRequest, count: int
) -> AsyncGenerator[tuple[int, TurnEvent], None]:
    """Sample `count` choices at once; yield their events, with the index of the choice.

    The prompt and the grammar are the same for all. Each has a place of its own at the engine,
    as it is as much work as another request; but a request is refused as a whole, or not at all.
    """
    prepared = await prepared_turn(services, turn)
    with key_use(services, caller) as use:
        choices = [
            sampled_turn(services, use, turn, _nth(prepared, index), is_first=index == 0)
            for index in range(count)
        ]
        async with aclosing(merged(choices)) as events:
            try:
                async for event in events:
                    yield event
            except ContextLengthError as error:
                raise ApiError.of(error, prompt_field="messages") from error


def _nth(prepared: PreparedTurn, index: int) -> PreparedTurn:
    return prepared._replace(sampling=with_seed_of(prepared.sampling, index))
