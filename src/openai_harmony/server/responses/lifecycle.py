"""Starts responses; retrieves, cancels and deletes them by their ids."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from ...apis.requests import ResponsesRequest
from ..auth.api_keys import Caller
from ..generation.sampling import with_grammar
from ..http.errors import ApiError
from ..services import Services
from ..store import StoredResponse
from .history import History, response_json
from .live_responses import EventLog, WireEvent
from .plan import plan_response
from .run import ResponseRun, store_beginning

__all__ = [
    "cancel_response",
    "delete_response",
    "response_events",
    "retrieve_response",
    "start_response",
]


async def start_response(
    services: Services,
    caller: Caller,
    request: ResponsesRequest,
    *,
    history: History | None = None,
    is_generated: bool = True,
) -> ResponseRun:
    """Plan a response, store its beginning, and run it; the arguments are those of the plan.

    Raises what `plan_response` raises, and `ApiError` where the queue is full.
    """
    services.admission.check(caller.owner)
    owner, pools = caller.owner, services.pools
    request = await services.file_texts.of_response(owner, request)
    with services.metrics.preparation.time():
        plan = await pools.encoding.run(
            owner,
            plan_response,
            services,
            caller,
            request,
            history=history,
            is_generated=is_generated,
        )
        prepared = await with_grammar(services, owner, plan.turn, plan.prepared)
        plan = replace(plan, prepared=prepared)
    held = ExitStack()
    held.enter_context(caller.usage.held())

    async def begin() -> ResponseRun:
        with held:
            if plan.is_stored:
                await pools.store.run(owner, store_beginning, services, plan)
            run = ResponseRun(services, plan)
            services.live_responses.add(run)
            return run

    def stop(begun: asyncio.Future[ResponseRun]) -> None:
        if not begun.cancelled() and begun.exception() is None:
            begun.result().stop()

    beginning = asyncio.ensure_future(begin())
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:  # the client has gone; what is stored is deleted
        beginning.add_done_callback(stop)
        raise


async def retrieve_response(services: Services, id: str, owner: str) -> dict[str, Any]:
    """Read a response as it is now. Raises `NotFoundError`, as all of these do."""
    live = services.live_responses.find(id, owner)
    return response_json(await _stored(services, id, owner)) if live is None else live.response


async def response_events(
    services: Services, id: str, owner: str, after: int
) -> AsyncGenerator[WireEvent, None]:
    """Return the events with a number above `after`, future ones included."""
    live = services.live_responses.find(id, owner)
    if live is not None:
        return live.events(after)
    stored = await _stored(services, id, owner)
    if stored.is_running:
        raise ApiError(
            409,
            f"the response {id!r} runs at another server, which has its events; "
            "retrieve it without stream until it has ended",
            param="stream",
            code="response_runs_elsewhere",
        )
    events = await services.pools.store.run(owner, services.store.responses.events, id, owner)
    if not events:  # lost with the server that ran it: the end is all there is
        outcome = "incomplete" if stored.status == "cancelled" else stored.status
        last: WireEvent = {
            "type": f"response.{outcome}",
            "sequence_number": after + 1,
            "response": response_json(stored),
        }
        events, after = [last], -1
    log = EventLog(events)
    log.close()
    return log.read(after)


async def cancel_response(services: Services, id: str, owner: str) -> dict[str, Any]:
    """End a response that is under way; the items that it has stay.

    One in the background may have ended by itself meanwhile: then it is returned as it is.
    """
    await _stop(services, id, owner)
    stored = await _stored(services, id, owner)
    if stored.is_running:  # at another server, which finds out when it has sampled all
        body = {**stored.body, "status": "cancelled"}
        finish = services.store.responses.finish
        await services.pools.store.run(owner, finish, id, status="cancelled", body=body)
        stored = await _stored(services, id, owner)
    if stored.status != "cancelled" and not stored.background:
        raise ApiError(
            400,
            f"the response {id!r} cannot be cancelled any more: it is {stored.status}",
            code="response_already_ended",
        )
    return response_json(stored)


async def delete_response(services: Services, id: str, owner: str) -> None:
    """Delete a response; one that is under way is cancelled before."""
    await _stop(services, id, owner)
    await services.pools.store.run(owner, services.store.responses.delete, id, owner)


async def _stop(services: Services, id: str, owner: str) -> None:
    live = services.live_responses.find(id, owner)
    if live is not None:
        live.stop()
        await live.finished()


async def _stored(services: Services, id: str, owner: str) -> StoredResponse:
    return await services.pools.store.run(owner, services.store.responses.get, id, owner)
