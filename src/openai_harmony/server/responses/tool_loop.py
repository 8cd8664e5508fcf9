"""The turns of one response: the server answers calls of its own tools, and samples again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from ...apis.item_kind import what_kind
from ...apis.tool_choice import choice_after_call, choice_without
from ...apis.turn_request import TurnRequest
from ...conversation.messages import Conversation, Message
from ...engines.engine import FinishReason
from ...engines.errors import ContextLengthError
from ..keys.use import KeyUse
from ..services import Services
from ..tools.conversation_tools import AnsweredCall
from ..turns.events import MessageEnded, TurnEnded, TurnEvent, Usage
from ..turns.sampled_turn import PreparedTurn, sampled_turn
from .plan import ResponsePlan, prepare_plan_turn

__all__ = ["CallAnswered", "CallBegun", "LoopEnded", "LoopEvent", "ToolLoop"]

_MOST_REFUSED = 3  # calls beyond the limit, which only a model without a grammar makes


class CallBegun(NamedTuple):
    """A call is being answered."""

    call: Message


class CallAnswered(NamedTuple):
    """What came of the call."""

    answered: AnsweredCall


class LoopEnded(NamedTuple):
    """The end of the last turn; `reason` says why the response is incomplete, if it is."""

    reason: str | None


LoopEvent: TypeAlias = "TurnEvent | CallBegun | CallAnswered | LoopEnded"


class ToolLoop:
    """Samples turn after turn, until one ends with something else than a call of the server's tool.

    - What a response may sample, it may in all its turns together.
    - A choice that requires a call is fulfilled by the first.
    - After `max_tool_calls`, the request's or the server's, the tools cannot be called any more;
      where no grammar prevents it, the model is told so.
    """

    def __init__(self, services: Services, plan: ResponsePlan) -> None:
        self._services = services
        self._plan = plan
        self._turn = plan.turn
        most = services.settings.max_tool_calls
        self._calls_left = min(most, plan.request.max_tool_calls or most)
        self._refused = 0

    async def events(self, use: KeyUse) -> AsyncGenerator[LoopEvent, None]:
        """Yield what happens; closing it frees the engine, and ends a call under way."""
        prepared: PreparedTurn | None = self._plan.prepared
        is_first = True
        with self._services.admission.held():
            while prepared is not None:
                said: list[Message] = []
                ended: TurnEnded | None = None
                turn = sampled_turn(self._services, use, self._turn, prepared, is_first=is_first)
                async with aclosing(turn) as events:
                    async for event in events:
                        if isinstance(event, MessageEnded) and event.is_complete:
                            said.append(event.message)
                        elif isinstance(event, TurnEnded):
                            ended = event
                        yield event
                if ended is None or ended.reason is FinishReason.LENGTH:
                    break
                call = self._call(said)
                if call is None:
                    yield LoopEnded(None)
                    return
                if self._calls_left <= -_MOST_REFUSED:
                    yield LoopEnded("max_tool_calls")
                    return
                yield CallBegun(call)
                answered = await self._answered(call)
                yield CallAnswered(answered)
                is_first = False
                prepared = await self._prepared([*said, *answered.messages], ended.usage)
        yield LoopEnded("max_output_tokens")

    def _call(self, said: Sequence[Message]) -> Message | None:
        """Return the call of a tool of the server that a turn ends with."""
        if not said:
            return None
        last = said[-1]
        kind = what_kind(
            last.channel,
            last.recipient,
            custom_tools=self._turn.custom_tools,
            built_in_tools=self._plan.tools.names,
        )
        return last if kind.is_built_in else None

    async def _answered(self, call: Message) -> AnsweredCall:
        self._calls_left -= 1
        if self._calls_left < 0:
            problem = "no more calls can be made in this response; answer with what you know"
            answered = self._plan.tools.refused(call, problem)
        else:
            answered = await self._plan.tools.run(call)
        self._services.metrics.count_tool_call(
            (call.recipient or "").partition(".")[0], answered.status
        )
        return answered

    async def _prepared(self, messages: Sequence[Message], usage: Usage) -> PreparedTurn | None:
        """Prepare the next turn; None where there is no room for it."""
        self._turn = next_turn = self._next_turn(messages, usage)
        if next_turn.sampling.max_tokens == 0:
            return None
        try:
            self._turn, prepared = await asyncio.to_thread(
                prepare_plan_turn, self._services, self._plan.request, next_turn
            )
        except ContextLengthError:
            return None
        return prepared

    def _next_turn(self, messages: Sequence[Message], usage: Usage) -> TurnRequest:
        turn = self._turn
        choice = choice_after_call(self._plan.request.tool_choice, turn.tool_choice)
        if self._calls_left <= 0:
            choice = choice_without(self._plan.tools.names, choice, sorted(turn.tools))
        limit = turn.sampling.max_tokens
        left = None if limit is None else max(0, limit - usage.output_tokens)
        return replace(
            turn,
            conversation=Conversation.from_messages([*turn.conversation.messages, *messages]),
            tool_choice=choice,
            sampling=replace(turn.sampling, max_tokens=left),
        )
