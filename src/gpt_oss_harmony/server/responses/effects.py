"""What a response does outside: it samples at the engine, runs tools, and is stored."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from ...apis.items import ItemEvent
from ...apis.reader import TurnReader
from ...apis.responses.writer import AnsweredCall, ResponseEnd, ResponseWriter
from ...apis.turn import TurnRequest
from ...conversation.messages import Message
from ...conversation.tool_namespaces import namespace_of
from ..encryption import OwnerCipher
from ..preparation import PreparedTurn, with_grammar
from ..sampling import sample_turn
from ..services import Services
from ..store import NewResponse, StoreError, new_id
from .history import CURRENT_DATE, new_items
from .plan import ResponsePlan, named_container
from .run import ResponseRules, ResponseRun
from .truncation import truncated_turn

_LOG = logging.getLogger(__name__)

_PATIENCE_SECONDS = 45.0  # in which the database may come back before a background response ends
_RETRY_SECONDS = 1.0


async def store_beginning(services: Services, plan: ResponsePlan) -> None:
    """Claim what a response uses, and store its beginning if it is stored.

    Earlier items that are not stored become part of its input.
    """
    history, response = plan.history, plan.response
    created_at = response["created_at"]
    expires_at = services.settings.expires_at(created_at)
    if not plan.request.is_stored:
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
            background=bool(plan.request.background),
            expires_at=expires_at,
            previous_response_id=response["previous_response_id"] if history.is_stored else None,
            conversation_id=plan.request.conversation,
            claims=plan.claims,
        )
    )


def _stored_body(plan: ResponsePlan, response: Mapping[str, Any]) -> dict[str, Any]:
    body = {name: value for name, value in response.items() if name != "output"}
    return {**body, CURRENT_DATE: plan.history.date}


def run_response(services: Services, plan: ResponsePlan, held: ExitStack) -> ResponseRun:
    """Run a planned response; hold what is `held` until its end."""
    request, turn, tools, settings = plan.request, plan.turn, plan.tools, services.settings
    cipher = OwnerCipher(services.cipher, plan.owner)
    writer = ResponseWriter(
        plan.response,
        new_id=new_id,
        now=lambda: int(time.time()),
        call_fields=tools.call_fields,
        opening=plan.compaction,
        listings=plan.listings,
        cited_text=partial(tools.cited_answer, keeps_marks=turn.response_format is not None),
        seal=cipher.encrypt_reasoning if request.encrypts_reasoning else None,
        sign=partial(services.cipher.sign, owner=plan.owner),
        event_names="openai" if plan.caller.uses_sdk else settings.event_names,
    )
    limit = settings.max_tool_calls
    rules = ResponseRules(
        turn,
        owner=plan.owner,
        is_announced=bool(request.background or request.stream),
        is_stored=request.is_stored,
        is_generated=plan.is_generated,
        approved=plan.approved,
        tools=tools.names,
        planned_fields=tools.planned_fields,
        max_tool_calls=min(limit, request.max_tool_calls or limit),
    )
    effects = _ServerEffects(services, plan, held)
    run = ResponseRun(writer, rules, effects)
    effects.run = run
    # Begun now, so that a later failure is the end of a response whose id its client has.
    if request.background:
        run.announce()
    services.live_responses.add(run)
    return run


class _ServerEffects:
    """The effects of one response at a server."""

    run: ResponseRun

    def __init__(self, services: Services, plan: ResponsePlan, held: ExitStack) -> None:
        self._services = services
        self._plan = plan
        self._has_called = False  # a tool, so that a repetition would call it again
        self._earlier = plan.earlier
        self._held = held.pop_all()
        self._held.enter_context(plan.caller.usage.held())
        self._held.enter_context(services.admission.whole_request())

    async def prepare(self, turn: TurnRequest) -> tuple[TurnRequest, PreparedTurn]:
        plan, services = self._plan, self._services
        if turn is plan.turn:
            return turn, plan.prepared
        with services.metrics.preparation.time():
            turn, prepared = await services.pools.encoding.run(
                plan.owner, truncated_turn, services, plan.request, turn
            )
            return turn, await with_grammar(services, plan.owner, turn, prepared)

    def sample(
        self, turn: TurnRequest, prepared: PreparedTurn, *, is_first: bool
    ) -> AsyncGenerator[ItemEvent, None]:
        mends = self._services.settings.mend_arguments
        reader = TurnReader(turn, len(prepared.prompt), new_id=new_id, mend_arguments=mends)
        caller = self._plan.caller
        return sample_turn(self._services, caller, turn, prepared, reader, is_first=is_first)

    async def call(self, call: Message, problem: str | None) -> AnsweredCall:
        plan, tools, services = self._plan, self._plan.tools, self._services
        container = named_container(plan.request)
        if container is not None and namespace_of(call.recipient) in tools.containers:
            for ended in self._earlier:
                await ended.wait()
            if self._earlier:
                tools.renew_containers(
                    await services.pools.encoding.run(plan.owner, plan.open_tools)
                )
                self._earlier = ()
            expires_at = services.settings.expires_at(int(time.time()))
            with suppress(StoreError):  # it was deleted meanwhile, or the database is away
                await services.store.containers.touch(container, plan.owner, expires_at)
        self._has_called = True
        if problem is not None:
            answered = tools.refused(call, problem)
        elif services.telemetry is None:
            answered = await tools.run(call)
        else:
            with services.telemetry.tool_call(call.recipient or "") as span:
                answered = await tools.run(call)
                span.status = answered.status
        tool_calls = services.metrics.tool_calls
        tool_calls.labels(namespace_of(call.recipient), answered.status).inc()
        return answered

    async def store(self, end: ResponseEnd) -> bool:
        """Nobody waits for a background response, so its end is tried again for a while."""
        plan, services, fields = self._plan, self._services, self._fields(end)
        clock = asyncio.get_running_loop().time
        last_try = clock() + (_PATIENCE_SECONDS if plan.request.background else 0)
        while True:
            try:
                return await services.store.responses.finish(plan.owner, plan.id, **fields)
            except StoreError as error:
                # Not a subclass: those name a fault of this response, or a full disk, and not an
                # absence.
                is_away = type(error) is StoreError
                if not is_away or services.admission.is_closed or clock() >= last_try:
                    raise
            await asyncio.sleep(_RETRY_SECONDS)

    def keep(self, end: ResponseEnd) -> None:
        self._services.live_responses.keep_unstored(self._plan.id, self._fields(end))

    def _fields(self, end: ResponseEnd) -> dict[str, Any]:
        plan, response, run = self._plan, end.response, self.run
        history, tools = plan.history, plan.tools
        return {
            "status": response["status"],
            "body": _stored_body(plan, response),
            "output": new_items(run.writer.items),
            "events": [*(event.data for event in run.log.events), end.event.data],
            "completed_at": response["completed_at"],
            "sessions": (
                tools.sessions() if history.is_stored else tools.all_sessions(history.sessions)
            ),
        }

    async def discard(self) -> None:
        try:
            await self._services.store.responses.delete(self._plan.id, self._plan.owner)
        except StoreError:
            _LOG.error("the response %s, which failed, could not be deleted", self._plan.id)

    async def close(self, run: ResponseRun) -> None:
        """Let the request be repeated if it has not succeeded, and has not called a tool."""
        plan = self._plan
        has_failed = run.error is not None or run.response["status"] in ("cancelled", "failed")
        if plan.claims and has_failed and not self._has_called:
            try:
                await self._services.store.claims.release(plan.id, plan.owner)
            except StoreError:
                _LOG.error("the request of the response %s cannot be repeated", plan.id)
        self._held.close()
        self._services.live_responses.discard(run)
