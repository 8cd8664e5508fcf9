"""Starts responses; retrieves, cancels and deletes them, wherever they run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from ...apis.responses.request import ResponsesRequest
from ...apis.wire_events import Event, event_of
from ..auth.api_keys import Caller
from ..http.errors import ApiError
from ..http.server_sent_events import EventLog
from ..peers import PeerError
from ..preparation import with_grammar
from ..repeated_requests import RequestKey, check_same, request_in_progress
from ..services import Services
from ..store import Claim, ClaimedError, NotFoundError, Store, StoredResponse
from .effects import run_response, store_beginning
from .history import History, response_json
from .plan import ResponsePlan, named_container, plan_response
from .run import ResponseRun

_TRIES = 5  # to reach the server that runs a response
_RETRY_SECONDS = 0.1


class StartedResponse(NamedTuple):
    """A response that runs, and its plan."""

    plan: ResponsePlan
    run: ResponseRun


async def start_response(
    services: Services,
    caller: Caller,
    request: ResponsesRequest,
    *,
    history: History | None = None,
    is_generated: bool = True,
    key: RequestKey | None = None,
) -> StartedResponse:
    """Plan a response, store its beginning, and run it; the arguments are those of `plan_response`.

    Raises what `plan_response` raises, `ApiError` if the queue is full, and `ClaimedError` for the
    repetition of an earlier request.
    """
    services.admission.check(caller.owner)
    owner, pools = caller.owner, services.pools
    claims: Sequence[Claim] = ()
    if key is not None and key.is_given:
        claims = await pools.encoding.run(owner, key.claims, request)
    request = await services.file_texts.of_response(owner, request)
    with ExitStack() as held:
        earlier: Sequence[asyncio.Event] = ()
        if container := named_container(request):
            turns = services.live_responses.in_container(f"{owner} {container}")
            earlier = held.enter_context(turns)
        planning = partial(
            plan_response, services, caller, request, history=history, is_generated=is_generated
        )
        with services.metrics.preparation.time():
            # A short chat takes less than a millisecond, for which the event loop can wait.
            is_quick = request.is_short_chat and history is None
            plan = planning() if is_quick else await pools.encoding.run(owner, planning)
            prepared = await with_grammar(services, owner, plan.turn, plan.prepared)
            if claims or earlier or prepared is not plan.prepared:
                claims = [*claims, *plan.claims]
                plan = replace(plan, prepared=prepared, claims=claims, earlier=earlier)
        if not (plan.request.is_stored or plan.claims):
            return StartedResponse(plan, run_response(services, plan, held))
        # The request runs until its beginning is stored, even if its client has gone before.
        held.enter_context(caller.usage.held())
        running = held.pop_all()

    async def begin() -> ResponseRun:
        with running, services.live_responses.beginning(plan.id):
            await store_beginning(services, plan)
            return run_response(services, plan, running)

    def stop(begun: asyncio.Future[ResponseRun]) -> None:
        if not begun.cancelled() and begun.exception() is None:
            begun.result().stop()

    beginning = asyncio.ensure_future(begin())
    try:
        # A write that runs in a thread cannot be stopped, so the beginning is stored in any case.
        return StartedResponse(plan, await asyncio.shield(beginning))
    except asyncio.CancelledError:  # the client has disconnected; the stored beginning is deleted
        beginning.add_done_callback(stop)
        raise


async def repeated_response(services: Services, owner: str, claimed: ClaimedError) -> str:
    """Return the id of the ended response that a repeated request gets again.

    Raises `ApiError` with the status 409 if there is none.
    """
    check_same(claimed)
    id = claimed.made_id
    try:
        stored = await services.store.responses.get(id, owner)
    except NotFoundError:
        raise ApiError.of(claimed) from None
    if stored.is_running:
        raise request_in_progress(
            f"the same request runs as the response {id!r}; wait for its end, or retrieve it"
        )
    return id


async def retrieve_response(services: Services, id: str, owner: str) -> dict[str, Any]:
    """Read the current state of a response. Raises `NotFoundError`, like all these functions."""
    live = services.live_responses.find(id, owner)
    if live is not None:
        return live.response
    stored = await services.store.responses.get(id, owner)
    if stored.is_running:
        with suppress(PeerError):
            async with aclosing(_ask_its_server(services, stored, "read")) as parts:
                async for response in parts:
                    return dict(response)
        stored = await services.store.responses.get(id, owner)  # it has just ended
    return response_json(stored)


class FollowedResponse(NamedTuple):
    """The log of a response: send its events with an index above `after`.

    Call `end` when nobody reads them any more.
    """

    log: EventLog
    after: int
    end: Callable[[], object] = lambda: None


async def response_events(services: Services, id: str, owner: str, after: int) -> FollowedResponse:
    """Return the events with a number above `after`, also future ones."""
    live = services.live_responses.find(id, owner)
    if live is not None:
        return FollowedResponse(live.log, after)
    stored = await services.store.responses.get(id, owner)
    if stored.is_running:
        log = EventLog(forgets=True)
        mirroring = asyncio.ensure_future(_mirror(services, stored, after, log))
        return FollowedResponse(log, -1, mirroring.cancel)
    log = EventLog(await _stored_events(services, stored, after))
    log.close()
    return FollowedResponse(log, -1)


async def _mirror(services: Services, stored: StoredResponse, after: int, log: EventLog) -> None:
    """Copy the events above `after` of a response that another server runs, until its end."""
    try:
        while stored.is_running:
            following = _ask_its_server(services, stored, "follow", after=after)
            with suppress(PeerError):
                async with aclosing(following) as parts:
                    async for part in parts:
                        for name, data in part:
                            log.add(Event(name, data))
                            after += 1
            stored = await services.store.responses.get(stored.id, stored.owner)
            if stored.is_running:  # it is just starting, or its server cannot be reached
                await asyncio.sleep(_RETRY_SECONDS)
        for event in await _stored_events(services, stored, after):
            log.add(event)
    except Exception as error:  # noqa: BLE001 - it is sent to the client
        log.close(error)
    else:
        log.close()


async def _stored_events(services: Services, stored: StoredResponse, after: int) -> list[Event]:
    """Read the events above `after` of a response that has ended."""
    events = await services.store.responses.events(stored.id, stored.owner)
    if events:
        return [event_of(event, event["type"]) for event in events[after + 1 :]]
    # The events were lost with the server that ran it; only the end is left.
    # As in `ResponseWriter.end`: the API has no event for a cancelled response.
    outcome = "incomplete" if stored.status == "cancelled" else stored.status
    name = f"response.{outcome}"
    last = {"type": name, "sequence_number": after + 1, "response": response_json(stored)}
    return [event_of(last, name)]


async def cancel_response(services: Services, id: str, owner: str) -> dict[str, Any]:
    """Cancel a running response; its items stay.

    A background response that has already ended is returned unchanged.
    """
    stored = await _stop(services, id, owner)
    if stored.status != "cancelled" and not stored.background:
        raise ApiError(
            400,
            f"the response {id!r} cannot be cancelled: it is {stored.status}",
            code="response_already_ended",
        )
    return response_json(stored)


async def delete_response(services: Services, id: str, owner: str) -> None:
    """Delete a response; a running one is cancelled first."""
    await _stop(services, id, owner)
    await services.store.responses.delete(id, owner)


async def _stop(services: Services, id: str, owner: str) -> StoredResponse:
    """End a running response at any server; return the stored response."""
    live = services.live_responses.find(id, owner)
    if live is not None:
        live.stop()
        await live.finished()
    stored = await services.store.responses.get(id, owner)
    for _ in range(_TRIES):
        if not stored.is_running:
            return stored
        is_silent = False
        try:
            async with aclosing(_ask_its_server(services, stored, "stop")) as parts:
                async for _ in parts:
                    pass
        except PeerError:
            is_silent = True
        stored = await services.store.responses.get(id, owner)
        if is_silent:  # to ask it again would take as long
            break
        if stored.is_running:  # it begins at this moment
            await asyncio.sleep(_RETRY_SECONDS)
    if not stored.is_running:
        return stored
    # Its server lives but does not answer; when it has sampled everything, it finds the end stored.
    body = {**stored.body, "status": "cancelled"}
    await services.store.responses.finish(owner, id, status="cancelled", body=body)
    return await services.store.responses.get(id, owner)


async def _ask_its_server(
    services: Services, stored: StoredResponse, action: str, **fields: Any
) -> AsyncGenerator[Any, None]:
    """Send a request to the server of a response; if it is dead, mark its responses as failed.

    Raises `PeerError` if the server does not answer, dead or not.
    """
    request = {"action": action, "id": stored.id, "owner": stored.owner, **fields}
    try:
        async with aclosing(services.peers.ask(stored.server_id or "", request)) as parts:
            async for part in parts:
                yield part
    except PeerError:
        await services.store.run(stored.owner, Store.start_serving)
        raise
