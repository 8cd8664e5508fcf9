"""The turns of one response: the server runs calls of its own tools and samples again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from ...apis.items import item_kind
from ...apis.tool_choice import choice_without
from ...conversation.messages import Conversation, Message
from ...engines.engine import ContextLengthError, FinishReason
from ..generation.events import MessageEnded, TurnEnded, TurnEvent, Usage
from ..generation.preparation import PreparedTurn
from ..generation.sampling import sample_turn, with_grammar
from ..services import Services
from ..tools.conversation_tools import AnsweredCall
from .plan import ResponsePlan, prepare_plan_turn

__all__ = ["ApprovedCallBegun", "CallAnswered", "CallBegun", "LoopEnded", "LoopEvent", "ToolLoop"]

_MAX_REFUSED = 3  # calls beyond the limit, which only a model without a grammar makes


class CallBegun(NamedTuple):
    """A call runs."""

    call: Message


class ApprovedCallBegun(NamedTuple):
    """An approved call of an earlier response runs."""

    call: Message
    request_id: str


class CallAnswered(NamedTuple):
    """The result of the call."""

    answered: AnsweredCall


class LoopEnded(NamedTuple):
    """The end of the last turn, and the reason if the response is incomplete."""

    incomplete_reason: str | None


LoopEvent: TypeAlias = "TurnEvent | CallBegun | ApprovedCallBegun | CallAnswered | LoopEnded"


class ToolLoop:
    """Samples turns until one ends without a call of the server's tools.

    - The token limit applies to all turns of a response together.
    - The first call fulfils a choice that requires a call.
    - After `max_tool_calls` of the request or the server, the tools cannot be called any more. If
      no grammar prevents it, the model gets a message instead of a result.
    """

    def __init__(self, services: Services, plan: ResponsePlan) -> None:
        self._services = services
        self._plan = plan
        self._turn = plan.turn
        limit = services.settings.max_tool_calls
        self._calls_left = min(limit, plan.request.max_tool_calls or limit)

    async def events(self) -> AsyncGenerator[LoopEvent, None]:
        """Yield the events; closing the generator frees the engine and ends a running call."""
        prepared: PreparedTurn | None = self._plan.prepared
        caller = self._plan.caller
        is_first = True
        with self._services.admission.whole_request():
            for approved in self._plan.approved:
                yield ApprovedCallBegun(approved.call, approved.request_id)
                answered = await self._answer(approved.call)
                yield CallAnswered(answered)
                prepared = await self._prepare([approved.call, *answered.messages], Usage())
            while prepared is not None:
                messages: list[Message] = []
                ended: TurnEnded | None = None
                turn = sample_turn(self._services, caller, self._turn, prepared, is_first=is_first)
                async with aclosing(turn) as events:
                    async for event in events:
                        if isinstance(event, MessageEnded) and event.is_complete:
                            messages.append(event.message)
                        elif isinstance(event, TurnEnded):
                            ended = event
                        yield event
                if ended is None or ended.reason is FinishReason.LENGTH:
                    break
                call = self._call(messages)
                if call is None or call.recipient in self._plan.tools.approvals:
                    yield LoopEnded(None)
                    return
                if self._calls_left <= -_MAX_REFUSED:
                    yield LoopEnded("max_tool_calls")
                    return
                yield CallBegun(call)
                answered = await self._answer(call)
                yield CallAnswered(answered)
                is_first = False
                prepared = await self._prepare([*messages, *answered.messages], ended.usage)
        yield LoopEnded("max_output_tokens")

    def _call(self, messages: Sequence[Message]) -> Message | None:
        """Return the call of a server tool at the end of a turn."""
        if not messages:
            return None
        last = messages[-1]
        kind = item_kind(
            last.channel,
            last.recipient,
            custom_tools=self._turn.custom_tools,
            built_in_tools=self._plan.tools.names,
        )
        return last if kind.is_built_in else None

    async def _answer(self, call: Message) -> AnsweredCall:
        self._calls_left -= 1
        telemetry = self._services.telemetry
        if self._calls_left < 0:
            problem = "no more calls can be made in this response; answer with what you know"
            answered = self._plan.tools.refused(call, problem)
        elif telemetry is None:
            answered = await self._plan.tools.run(call)
        else:
            with telemetry.tool_call(call.recipient or "") as span:
                answered = await self._plan.tools.run(call)
                span.status = answered.status
        tool = (call.recipient or "").partition(".")[0]
        self._services.metrics.count_tool_call(tool, answered.status)
        return answered

    async def _prepare(self, messages: Sequence[Message], usage: Usage) -> PreparedTurn | None:
        """Prepare the next turn; None if there is no room for it."""
        turn = self._turn
        choice = turn.later_tool_choice
        if self._calls_left <= 0:
            choice = choice_without(self._plan.tools.names, choice, sorted(turn.tools))
        limit = turn.sampling.max_tokens
        remaining = None if limit is None else max(0, limit - usage.output_tokens)
        self._turn = next_turn = replace(
            turn,
            conversation=Conversation.from_messages([*turn.conversation.messages, *messages]),
            tool_choice=choice,
            sampling=replace(turn.sampling, max_tokens=remaining),
        )
        if remaining == 0:
            return None
        services, owner = self._services, self._plan.owner
        try:
            with services.metrics.preparation.time():
                self._turn, prepared = await services.pools.encoding.run(
                    owner, prepare_plan_turn, services, self._plan.request, next_turn
                )
                return await with_grammar(services, owner, self._turn, prepared)
        except ContextLengthError:
            return None
