"""The routes of the Responses API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ...apis.response import Response as ResponseResource
from ...apis.responses_request import ResponsesRequest
from ..answers.disconnect import while_connected
from ..answers.event_stream import Event, EventStream, whole_or_stream
from ..answers.json_answer import JsonAnswer
from ..keys.caller import KnownCaller
from ..services import services_of
from ..store import Order
from .compaction import CompactionRequest, compact
from .log import WireEvent
from .lookup import (
    cancelled_response,
    delete_response,
    events_after,
    found_response,
)
from .plan import planned_prompt
from .records import page_json
from .run import ResponseRun
from .start import start_response

__all__ = ["router"]

router = APIRouter(prefix="/v1/responses", tags=["Responses"])

_DONE = "[DONE]"

_RESPONSE: dict[int | str, dict[str, Any]] = {200: {"model": ResponseResource}}
_RESPONSE_OR_STREAM = whole_or_stream(ResponseResource)


@router.post("", responses=_RESPONSE_OR_STREAM)
async def create(body: ResponsesRequest, request: Request, caller: KnownCaller) -> Response:
    """Answer a request: at once, as a stream, or in the background."""
    run = await start_response(services_of(request), caller, body)
    if body.stream:
        return EventStream(_named(_followed(run)), ending=_DONE)
    if body.background:
        return JsonAnswer(run.response)
    try:
        return JsonAnswer(await while_connected(request.receive, run.ended()))
    finally:
        run.stop()


@router.post("/input_tokens")
async def count_input_tokens(
    body: ResponsesRequest, request: Request, caller: KnownCaller
) -> dict[str, Any]:
    """Count the tokens of the prompt that a request would make."""
    services = services_of(request)
    prompt = await asyncio.to_thread(planned_prompt, services, caller.owner, body)
    return {"object": "response.input_tokens", "input_tokens": len(prompt)}


@router.post("/compact")
async def compact_conversation(
    body: CompactionRequest, request: Request, caller: KnownCaller
) -> Response:
    """Make one item of a conversation, to be sent in its place."""
    services = services_of(request)
    return JsonAnswer(await asyncio.to_thread(compact, services, caller.owner, body))


@router.get("/{response_id}", responses=_RESPONSE_OR_STREAM)
async def retrieve(
    response_id: str,
    request: Request,
    caller: KnownCaller,
    stream: bool = False,
    starting_after: int | None = None,
) -> Response:
    """Read a response as it is, or its events: those that have been, and those to come."""
    services = services_of(request)
    if not stream:
        return JsonAnswer(await found_response(services, response_id, caller.owner))
    after = -1 if starting_after is None else starting_after
    events = await events_after(services, response_id, caller.owner, after)
    return EventStream(_named(events), ending=_DONE)


@router.delete("/{response_id}")
async def delete(response_id: str, request: Request, caller: KnownCaller) -> dict[str, Any]:
    """Delete a response; one that is under way is cancelled before."""
    await delete_response(services_of(request), response_id, caller.owner)
    return {"id": response_id, "object": "response", "deleted": True}


@router.post("/{response_id}/cancel", responses=_RESPONSE)
async def cancel(response_id: str, request: Request, caller: KnownCaller) -> Response:
    """End a response that is under way."""
    return JsonAnswer(await cancelled_response(services_of(request), response_id, caller.owner))


@router.get("/{response_id}/input_items")
async def list_input_items(
    response_id: str,
    request: Request,
    caller: KnownCaller,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Order = "desc",
) -> Response:
    """List the items of the request, without those of earlier responses."""
    page = await asyncio.to_thread(
        services_of(request).store.responses.input_items,
        response_id,
        caller.owner,
        after=after,
        limit=limit,
        order=order,
    )
    return JsonAnswer(page_json(page))


async def _followed(run: ResponseRun) -> AsyncGenerator[WireEvent, None]:
    """Yield the events of a run, which ends with the client unless it is in the background."""
    try:
        async with aclosing(run.events()) as events:
            async for event in events:
                yield event
    finally:
        if not run.plan.is_background:
            run.stop()


async def _named(events: AsyncGenerator[WireEvent, None]) -> AsyncGenerator[Event, None]:
    async with aclosing(events):
        async for event in events:
            yield event["type"], event
