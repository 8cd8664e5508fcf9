"""Starts the response to a request."""

from __future__ import annotations

import asyncio
from functools import partial

from ...apis.responses_request import ResponsesRequest
from ..identifiers import new_id
from ..keys.caller import Caller
from ..services import Services
from .past import Past
from .plan import ResponsePlan, plan_response
from .records import begin_record
from .run import ResponseRun
from .stream import ResponseStream

__all__ = ["start_response"]


async def start_response(
    services: Services,
    caller: Caller,
    request: ResponsesRequest,
    *,
    past: Past | None = None,
    is_generated: bool = True,
) -> ResponseRun:
    """Plan a response, keep that it begins, and run it; the arguments are those of the plan.

    Raises what `plan_response` raises, and `ApiError` where there is no place for another.
    """
    services.admission.check()

    def plan() -> ResponsePlan:
        planned = plan_response(services, caller, request, past=past, is_generated=is_generated)
        if planned.is_stored:
            begin_record(services, planned)
        return planned

    async def start() -> ResponseRun:
        planned = await asyncio.to_thread(plan)
        run = ResponseRun(services, planned, _stream(services, planned), services.runs.discard)
        services.runs.add(run)
        return run

    starting = asyncio.ensure_future(start())
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_stop)
        raise


def _stop(starting: asyncio.Future[ResponseRun]) -> None:
    """Stop what nobody waits for any more."""
    if not starting.cancelled() and starting.exception() is None:
        starting.result().stop()


def _stream(services: Services, plan: ResponsePlan) -> ResponseStream:
    return ResponseStream(
        plan.response,
        new_id=new_id,
        custom_tools=plan.turn.custom_tools,
        namespaces={tool.partition(".")[0] for tool in plan.turn.tools},
        built_in_tools=plan.tools.names,
        container_id=plan.tools.container_id,
        listings=plan.listings,
        mcp_names=plan.tools.mcp_names,
        cited_answer=partial(
            plan.tools.cited_answer, keeps_marks=plan.turn.response_format is not None
        ),
        event_names=services.settings.event_names,
    )
