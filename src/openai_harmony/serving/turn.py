"""One turn of the model: a request and an engine in, its messages out while they are sampled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from ..apis.turn_request import TurnRequest
from ..config import RenderConversationConfig
from ..encoding import load_harmony_encoding
from ..engines.engine import Engine
from ..engines.errors import EngineError
from ..engines.sampling import Sampling
from ..sampled_messages import prompt_tokens
from .turn_constraint import turn_constraint
from .turn_events import TurnEvent
from .turn_reader import TurnReader

__all__ = ["RENDERING", "prepare_turn", "run_turn"]

RENDERING = RenderConversationConfig(auto_drop_analysis=False, header_style="guide")
"""How the server renders: a request has left past reasoning out; calls keep their tokens."""


def prepare_turn(request: TurnRequest, *, constrain: bool) -> tuple[list[int], Sampling]:
    """Render the prompt, and write the grammar where the request asks for something.

    It may take a while: call it off the event loop. Raises `ConversationError`, `GrammarError`.
    """
    encoding = load_harmony_encoding("HarmonyGptOss")
    prompt = prompt_tokens(encoding, request.conversation, RENDERING)
    if not (constrain and request.is_constrained):
        return prompt, request.sampling
    return prompt, replace(request.sampling, grammar=turn_constraint(request).grammar)


async def run_turn(
    engine: Engine, request: TurnRequest, *, constrain: bool = True
) -> AsyncGenerator[TurnEvent, None]:
    """Sample a turn; closing the generator frees the engine's slot.

    Raises what `prepare_turn` and `Engine.generate` raise.
    """
    prompt, sampling = await asyncio.to_thread(prepare_turn, request, constrain=constrain)
    reader = TurnReader(request, len(prompt))
    async with aclosing(engine.generate(prompt, sampling)) as stream:
        async for sampled in stream:
            for event in reader.take(sampled):
                yield event
            if reader.is_over:
                return
    raise EngineError("the engine ended a completion without a reason", retryable=True)
