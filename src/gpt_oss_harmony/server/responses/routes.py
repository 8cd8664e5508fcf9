"""The routes of the Responses API."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ...apis.responses.request import CompactionRequest, ResponsesRequest
from ...apis.responses.resource import Response as ResponseResource
from ...apis.responses.writer import ResponseEvent
from ..auth.api_keys import AuthenticatedCaller
from ..http.json import JsonResponse
from ..http.requests import while_connected
from ..http.server_sent_events import EventStream, json_or_stream
from ..limited_route import LimitedRoute, in_pool, written
from ..preparation import constraint_headers, counted_turn
from ..repeated_requests import IdempotencyKey
from ..services import services_of
from ..store import ClaimedError, Order
from .compaction import compact
from .history import page_json
from .lifecycle import (
    StartedResponse,
    cancel_response,
    delete_response,
    repeated_response,
    response_events,
    retrieve_response,
    start_response,
)
from .plan import planned_turn

router = APIRouter(prefix="/v1/responses", tags=["Responses"], route_class=LimitedRoute)

_DONE = "[DONE]"
_RESPONSE: dict[int | str, dict[str, Any]] = {200: {"model": ResponseResource}}
_RESPONSE_OR_STREAM = json_or_stream(ResponseResource, ResponseEvent)


@router.post("", responses=_RESPONSE_OR_STREAM)
async def create(
    body: ResponsesRequest,
    request: Request,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
) -> Response:
    """Respond to a request: at once, as a stream, or in the background.

    A repetition of a request gets the response that the first one made, or 409 while that runs: if
    it approves the same calls, or has the same ``Idempotency-Key``.
    """
    services = services_of(request)

    async def begun() -> tuple[StartedResponse, dict[str, Any]]:
        started = await start_response(services, caller, body, key=key)
        return started, started.run.response

    try:
        (plan, run), beginning = await while_connected(request.receive, begun())
    except ClaimedError as claimed:
        id = await repeated_response(services, caller.owner, claimed)
        if body.stream:
            log, after, _ = await response_events(services, id, caller.owner, -1)
            return EventStream(log, after=after, ending=_DONE)
        return JsonResponse(await retrieve_response(services, id, caller.owner))
    headers = constraint_headers(plan.prepared)
    if body.stream:
        if body.background:
            return EventStream(run.log, ending=_DONE, headers=headers)
        return EventStream(run.log, ending=_DONE, headers=headers, on_end=run.stop)
    if body.background:
        return JsonResponse(beginning, headers=headers)
    try:
        return JsonResponse(await while_connected(request.receive, run.ended()), headers=headers)
    finally:
        run.stop()


@router.post("/input_tokens")
async def count_input_tokens(
    body: ResponsesRequest, request: Request, response: Response, caller: AuthenticatedCaller
) -> dict[str, Any]:
    """Count the tokens of the prompt for a request."""
    services = services_of(request)
    body = await services.file_texts.of_response(caller.owner, body)

    def count() -> tuple[int, dict[str, str]]:
        return counted_turn(planned_turn(services, caller.owner, body))

    pool = services.pools.encoding
    is_quick = body.is_short_chat
    tokens, headers = count() if is_quick else await in_pool(request, pool, caller.owner, count)
    response.headers.update(headers)
    caller.usage.tokens += tokens
    return {"object": "response.input_tokens", "input_tokens": tokens}


@router.post("/compact")
async def compact_conversation(
    body: CompactionRequest, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Compact a conversation into one item, which replaces it in later requests."""
    compacting = compact(services_of(request), caller, body)
    return JsonResponse(await while_connected(request.receive, compacting))


@router.get("/{response_id}", responses=_RESPONSE_OR_STREAM)
async def retrieve(
    response_id: str,
    request: Request,
    caller: AuthenticatedCaller,
    stream: bool = False,
    starting_after: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
) -> Response:
    """Read the current state of a response, or its events, past and future."""
    services = services_of(request)
    if not stream:
        return JsonResponse(await retrieve_response(services, response_id, caller.owner))
    after = -1 if starting_after is None else starting_after
    log, after, end = await response_events(services, response_id, caller.owner, after)
    return EventStream(log, after=after, ending=_DONE, on_end=end)


@router.delete("/{response_id}")
async def delete(response_id: str, request: Request, caller: AuthenticatedCaller) -> dict[str, Any]:
    """Delete a response; a running one is cancelled first."""
    await delete_response(services_of(request), response_id, caller.owner)
    return {"id": response_id, "object": "response", "deleted": True}


@router.post("/{response_id}/cancel", responses=_RESPONSE)
async def cancel(response_id: str, request: Request, caller: AuthenticatedCaller) -> Response:
    """Cancel a running response."""
    return JsonResponse(await cancel_response(services_of(request), response_id, caller.owner))


@router.get("/{response_id}/input_items")
async def list_input_items(
    response_id: str,
    request: Request,
    caller: AuthenticatedCaller,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Order = "desc",
) -> Response:
    """List the items of the request, without those of earlier responses."""
    page = await services_of(request).store.responses.input_items(
        response_id, caller.owner, after=after, limit=limit, order=order
    )
    return await written(request, caller.owner, page_json(page))
