"""Responses by their ids: those under way here, and those in the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from ..api_error import ApiError
from ..services import Services
from ..store import StoredResponse
from .log import EventLog, WireEvent
from .records import response_json

__all__ = ["cancelled_response", "delete_response", "events_after", "found_response"]


async def found_response(services: Services, id: str, owner: str) -> dict[str, Any]:
    """Read a response as it is now. Raises `NotFoundError`, as all of these do."""
    run = services.runs.find(id, owner)
    return response_json(await _stored(services, id, owner)) if run is None else run.response


async def events_after(
    services: Services, id: str, owner: str, after: int
) -> AsyncGenerator[WireEvent, None]:
    """Find the events with a number above `after`, those to come included."""
    run = services.runs.find(id, owner)
    if run is not None:
        return run.events(after)
    stored = await _stored(services, id, owner)
    if stored.is_running:
        raise ApiError(
            409,
            f"the response {id!r} runs at another server, which has its events; "
            "retrieve it without stream until it has ended",
            param="stream",
            code="response_runs_elsewhere",
        )
    events = await asyncio.to_thread(services.store.responses.events, id, owner)
    log = EventLog(events or [_last_event(stored, after)])
    log.close()
    return log.read(after if events else -1)


async def cancelled_response(services: Services, id: str, owner: str) -> dict[str, Any]:
    """End a response that is under way; what was sampled of it stays."""
    run = services.runs.find(id, owner)
    if run is not None:
        run.stop()
        await run.finished()
    stored = await _stored(services, id, owner)
    if stored.is_running:  # at another server, which finds out when it has sampled all
        body = {**stored.body, "status": "cancelled"}
        finish = services.store.responses.finish
        await asyncio.to_thread(finish, id, status="cancelled", body=body)
        stored = await _stored(services, id, owner)
    if stored.status != "cancelled":
        raise ApiError(
            400,
            f"the response {id!r} cannot be cancelled any more: it is {stored.status}",
            code="response_already_ended",
        )
    return response_json(stored)


async def delete_response(services: Services, id: str, owner: str) -> None:
    """Delete a response; one that is under way is cancelled before."""
    run = services.runs.find(id, owner)
    if run is not None:
        run.stop()
        await run.finished()
    await asyncio.to_thread(services.store.responses.delete, id, owner)


async def _stored(services: Services, id: str, owner: str) -> StoredResponse:
    return await asyncio.to_thread(services.store.responses.get, id, owner)


def _last_event(stored: StoredResponse, after: int) -> WireEvent:
    """Tell the end of a response whose events are lost with the server that ran it."""
    what = "incomplete" if stored.status == "cancelled" else stored.status
    return {
        "type": f"response.{what}",
        "sequence_number": after + 1,
        "response": response_json(stored),
    }
