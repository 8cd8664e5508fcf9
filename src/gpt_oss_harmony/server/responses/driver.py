"""Carries out the commands of one response's machine: the only place of cancellation and errors.

A run starts its machine, samples and runs tools as it commands, logs its events, and stores the end
before its last event is logged.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import ExitStack, aclosing
from functools import partial
from typing import Any

from ...apis.items import message_text
from ...apis.requests import ReasoningSettings, ResponsesRequest
from ...apis.turn_request import TurnRequest, turn_of_response
from ...conversation.tool_namespaces import namespace_of
from ...engines.completion import complete
from ...engines.engine import ContextLengthError, EngineError
from ..encryption import OwnerCipher
from ..generation.events import TextAdded, Usage
from ..generation.preparation import PreparedTurn
from ..generation.sampling import sample_turn, with_grammar
from ..http.errors import ApiError, api_error_of
from ..http.server_sent_events import EventLog
from ..services import Services
from ..store import NewResponse, StoreError, new_id
from .history import CURRENT_DATE, new_items
from .machine import (
    Announced,
    CallAnswered,
    Cancelled,
    Command,
    Discard,
    Encrypt,
    Encrypted,
    Failed,
    Input,
    NoRoom,
    ResponseMachine,
    ResponseRules,
    RunCall,
    Sample,
    Started,
    State,
    Store,
    Stored,
    StoringFailed,
    Summarise,
    Summarised,
    TurnPrepared,
)
from .plan import ResponsePlan, prepare_plan_turn
from .stream import ResponseStream

__all__ = ["ResponseRun", "store_beginning"]

_LOG = logging.getLogger(__name__)

_FIRST_EVENT_SECONDS = 1.0  # after which the first event is sent, even without a token

_SUMMARY_REQUEST = (
    "Summarize the following thoughts in {length}, in the first person. Write the summary alone."
    "\n\n{reasoning}"
)
_SUMMARY_LENGTHS = {
    "concise": "one sentence",
    "auto": "two or three sentences",
    "detailed": "one sentence for each step",
}
_SUMMARISED = 20_000  # characters of reasoning
_SUMMARY_TOKENS = 400


async def store_beginning(services: Services, plan: ResponsePlan) -> None:
    """Claim what a response uses, and store its beginning if it is stored.

    Earlier items that are not stored become part of its input.
    """
    history, response = plan.history, plan.response
    created_at = response["created_at"]
    expires_at = services.settings.expires_at(created_at)
    if not plan.is_stored:
        if plan.claims:
            take = services.store.claims.take
            await take(plan.claims, plan.owner, plan.id, expires_at)
        return
    await services.store.responses.begin(
        NewResponse(
            id=plan.id,
            owner=plan.owner,
            created_at=created_at,
            body=_stored_body(plan, response),
            input=new_items(plan.input if history.is_stored else [*history.items, *plan.input]),
            status=response["status"],
            background=plan.is_background,
            expires_at=expires_at,
            previous_response_id=response["previous_response_id"] if history.is_stored else None,
            conversation_id=plan.request.conversation,
            claims=plan.claims,
        )
    )


def _stored_body(plan: ResponsePlan, response: Mapping[str, Any]) -> dict[str, Any]:
    body = {name: value for name, value in response.items() if name != "output"}
    return {**body, CURRENT_DATE: plan.history.date}


def _machine_of(services: Services, plan: ResponsePlan) -> ResponseMachine:
    """Make the machine of a plan."""
    request, turn, tools, settings = plan.request, plan.turn, plan.tools, services.settings
    limit = settings.max_tool_calls
    by_model = settings.reasoning_summaries == "model"
    stream = ResponseStream(
        plan.response,
        new_id=new_id,
        custom_tools=turn.custom_tools,
        text_tools=turn.tool_texts,
        namespaces=set(map(namespace_of, turn.tools)),
        built_in_tools=tools.names,
        call_fields=tools.call_fields,
        opening=plan.compaction,
        listings=plan.listings,
        approvals=tools.approvals,
        cited_answer=partial(tools.cited_answer, keeps_marks=turn.response_format is not None),
        event_names="openai" if plan.caller.uses_sdk else settings.event_names,
    )
    rules = ResponseRules(
        turn,
        now=lambda: int(time.time()),
        is_announced=plan.is_background or bool(request.stream),
        is_stored=plan.is_stored,
        is_generated=plan.is_generated,
        approved=plan.approved,
        tools=tools.names,
        approvals=tools.approvals,
        planned_fields=tools.planned_fields,
        max_tool_calls=min(limit, request.max_tool_calls or limit),
        summary=request.reasoning_summary if by_model else None,
        encrypts=request.encrypts_reasoning,
    )
    return ResponseMachine(stream, rules)


class ResponseRun:
    """A response from its plan to its end.

    A failure before the first event fails the request: nothing is stored, and the caller gets the
    `ApiError`. A later failure ends the response as failed, with an event in its log.
    """

    def __init__(self, services: Services, plan: ResponsePlan) -> None:
        self.plan = plan
        self.log = EventLog()
        self._services = services
        self._machine = _machine_of(services, plan)
        self._stop_error: ApiError | None = None
        self._has_called = False  # a tool, so that a repetition would call it again
        self._held = ExitStack()
        self._held.enter_context(plan.caller.usage.held())
        if plan.is_background:
            self._take(Announced())
        services.live_responses.add(self)
        # Two tasks: work can be cancelled at any time, even before its first step, and then the
        # other one still stores the end.
        self._working = asyncio.ensure_future(self._work())
        self._task = asyncio.ensure_future(self._run())

    @property
    def id(self) -> str:
        """The id of the response."""
        return self.plan.id

    @property
    def owner(self) -> str:
        """The owner of the response."""
        return self.plan.owner

    @property
    def is_stored(self) -> bool:
        """True for a response that is stored."""
        return self.plan.is_stored

    @property
    def stream(self) -> ResponseStream:
        """The items of the response so far."""
        return self._machine.stream

    @property
    def response(self) -> dict[str, Any]:
        """The current state of the response."""
        response = self._machine.stream.response
        return {**response, "output": list(response["output"])}

    def stop(self, error: ApiError | None = None) -> None:
        """Free the engine; the response ends as cancelled, or with an error as failed.

        Does nothing after everything was sampled.
        """
        self._stop_error = error
        self._working.cancel()

    async def ended(self) -> dict[str, Any]:
        """Wait for the end and return the response. Raises `ApiError` if it never began."""
        await self.finished()
        if self._machine.error is not None:
            raise self._machine.error
        return self.response

    async def finished(self) -> None:
        """Wait until the response has ended and is stored."""
        await asyncio.wait({self._task})

    def _take(self, happened: Input) -> Command | None:
        """Log the events of an input; return the next command."""
        step = self._machine.take(happened)
        for event in step.events:
            self.log.add(event)
        return step.command

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(_FIRST_EVENT_SECONDS, self._take, Announced())
        try:
            await asyncio.wait({self._working})
            command = self._last_command()
            # From here on, nothing can stop the response: its end is stored, or it is deleted.
            if isinstance(command, Store):
                await self._store(command)
            elif isinstance(command, Discard):
                await self._discard()
            if self.plan.claims:
                await self._release_claims()
        finally:
            timer.cancel()
            self._working.cancel()
            self.log.close(self._machine.error)
            self._held.close()
            self._services.live_responses.discard(self)

    def _last_command(self) -> Command | None:
        """Return the command after the work has ended, failed, or was cancelled."""
        working = self._working
        if working.cancelled():
            error = self._stop_error
            return self._take(Cancelled() if error is None else Failed(error))
        failure = working.exception()
        if failure is not None:
            return self._take(Failed(api_error_of(failure, "a response")))
        return working.result()

    async def _work(self) -> Command | None:
        """Carry out commands until the response has ended; return its last command."""
        command = self._take(Started())
        with self._services.admission.whole_request():
            while isinstance(command, (Sample, RunCall)):
                if isinstance(command, Sample):
                    command = await self._sample(command)
                else:
                    command = await self._run_call(command)
        return command

    async def _sample(self, sample: Sample) -> Command | None:
        """Sample a turn; the engine's slot is free before the next command."""
        services, caller, machine = self._services, self.plan.caller, self._machine
        turn, prepared = sample.turn, self.plan.prepared
        if turn is not self.plan.turn:
            try:
                turn, prepared = await self._prepared(turn)
            except ContextLengthError:
                return self._take(NoRoom())
            self._take(TurnPrepared(turn))
        command: Command | None = None
        sampling = sample_turn(services, caller, turn, prepared, is_first=sample.is_first)
        async with aclosing(sampling) as events:
            async for event in events:
                if isinstance(event, TextAdded):  # by far the most events
                    written = machine.take_text(event)
                    if written is not None:
                        self.log.add(written)
                    continue
                command = self._take(event)
                while machine.state is State.COMPLETING:
                    command = self._take(await self._complete(command))
        return self._take(NoRoom()) if machine.state is State.SAMPLING else command

    async def _prepared(self, turn: TurnRequest) -> tuple[TurnRequest, PreparedTurn]:
        services, owner = self._services, self.owner
        with services.metrics.preparation.time():
            turn, prepared = await services.pools.encoding.run(
                owner, prepare_plan_turn, services, self.plan.request, turn
            )
            return turn, await with_grammar(services, owner, turn, prepared)

    async def _complete(self, command: Command | None) -> Summarised | Encrypted:
        """Make the fields of a reasoning item that do not come from its message."""
        if isinstance(command, Summarise):
            return await self._summarise(command)
        if not isinstance(command, Encrypt):
            raise TypeError(f"{command} is no command about reasoning")
        cipher = OwnerCipher(self._services.cipher, self.owner)
        encrypt = self._services.pools.encoding.run
        return Encrypted(await encrypt(self.owner, cipher.encrypt_reasoning, command.message))

    async def _summarise(self, command: Summarise) -> Summarised:
        """Let the model summarise its reasoning, in the slot of its turn.

        If it fails, the summary consists of sentences of the reasoning.
        """
        question = _SUMMARY_REQUEST.format(
            length=_SUMMARY_LENGTHS[command.kind], reasoning=command.reasoning[:_SUMMARISED]
        )
        turn = turn_of_response(
            ResponsesRequest(
                input=question,
                reasoning=ReasoningSettings(effort="low"),
                max_output_tokens=_SUMMARY_TOKENS,
            )
        )
        try:
            completion = await complete(self._services.engine, turn.conversation, turn.sampling)
        except EngineError:
            _LOG.warning("the reasoning of the response %s has no summary by the model", self.id)
            return Summarised("")
        prompt, output = len(completion.prompt), len(completion.tokens)
        self.plan.caller.usage.tokens += prompt + output
        usage = Usage(input_tokens=prompt, output_tokens=output, reasoning_tokens=output)
        answers = [m for m in completion.messages if m.channel == "final" and m.recipient is None]
        summary = " ".join(message_text(answer).strip() for answer in answers)
        return Summarised(summary, usage)

    async def _run_call(self, command: RunCall) -> Command | None:
        call, tools, telemetry = command.call, self.plan.tools, self._services.telemetry
        self._has_called = True
        if command.problem is not None:
            answered = tools.refused(call, command.problem)
        elif telemetry is None:
            answered = await tools.run(call)
        else:
            with telemetry.tool_call(call.recipient or "") as span:
                answered = await tools.run(call)
                span.status = answered.status
        self._services.metrics.count_tool_call(namespace_of(call.recipient), answered.status)
        return self._take(CallAnswered(answered))

    async def _store(self, command: Store) -> None:
        """Store the end; a response that is not stored has failed."""
        plan, response, stream = self.plan, command.response, self._machine.stream
        history, tools = plan.history, plan.tools

        async def finish() -> bool:
            return await self._services.store.responses.finish(
                self.owner,
                plan.id,
                status=response["status"],
                body=_stored_body(plan, response),
                output=new_items(stream.items),
                events=[*(event.data for event in self.log.events), command.last.data],
                completed_at=response["completed_at"],
                sessions=(
                    tools.sessions() if history.is_stored else tools.all_sessions(history.sessions)
                ),
            )

        happened: Stored | StoringFailed
        try:
            happened = Stored(await finish())
        except Exception as error:  # noqa: BLE001 - it becomes the last event
            is_known = isinstance(error, StoreError)  # the store has logged its cause
            problem = "the response %s could not be stored"
            _LOG.error(problem, plan.id, exc_info=None if is_known else error)
            happened = StoringFailed(api_error_of(error, "a response"))
        self._take(happened)

    async def _release_claims(self) -> None:
        """Let the request be repeated if it has not succeeded, and has not called a tool."""
        status = self._machine.stream.response["status"]
        has_failed = self._machine.error is not None or status in ("cancelled", "failed")
        if has_failed and not self._has_called:
            try:
                await self._services.store.claims.release(self.id, self.owner)
            except StoreError:
                _LOG.error("the request of the response %s cannot be repeated", self.id)

    async def _discard(self) -> None:
        """Delete the stored beginning of a response that never began for its client."""
        try:
            await self._services.store.responses.delete(self.id, self.owner)
        except StoreError:
            _LOG.error("the response %s, which failed, could not be deleted", self.id)
