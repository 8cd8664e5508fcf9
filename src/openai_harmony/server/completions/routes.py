"""``POST /v1/completions``: the model as it is, for prompts that are harmony already."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from ..answers.disconnect import while_connected
from ..answers.event_stream import Event, EventStream, whole_or_stream
from ..answers.json_answer import JsonAnswer
from ..identifiers import new_id, system_fingerprint
from ..keys.caller import Caller, KnownCaller
from ..services import Services, services_of
from ..turns.events import Usage
from .answer import CompletionAnswer, completion_choice, completions_usage
from .body import CompletionBody
from .choices import ChoicePlan, choice_plans, sampled_choices
from .text import CompletionPiece

__all__ = ["router"]

router = APIRouter(tags=["Completions"])


@router.post(
    "/v1/completions",
    response_model=None,
    responses=whole_or_stream(CompletionAnswer),
)
async def create_completion(
    body: CompletionBody, request: Request, caller: KnownCaller
) -> Response:
    """Go on with one or several prompts, which are texts or token ids.

    A text is encoded with the special tokens that it spells. ``<|return|>`` and ``<|call|>`` end
    the completion, and are its last token; with `skip_special_tokens` false they, too, are in the
    text.
    """
    services = services_of(request)
    head: dict[str, Any] = {
        "id": new_id("cmpl-"),
        "object": "text_completion",
        "created": int(time.time()),
        "model": services.check_model(body.model),
        "system_fingerprint": system_fingerprint(services.engine),
    }
    if body.stream:
        return EventStream(_chunks(services, caller, body, head), ending="[DONE]")
    work = _completion(services, caller, body, head)
    return JsonAnswer(await while_connected(request.receive, work))


async def _completion(
    services: Services, caller: Caller, body: CompletionBody, head: dict[str, Any]
) -> dict[str, Any]:
    plans = await asyncio.to_thread(choice_plans, body)
    pieces: list[list[CompletionPiece]] = [[] for _ in plans]
    async with aclosing(sampled_choices(services, caller, body, plans)) as sampled:
        async for index, piece in sampled:
            pieces[index].append(piece)
    choices = [
        completion_choice(body, plan, known, is_start=True)
        for plan, known in zip(plans, pieces, strict=True)
    ]
    counts = [len(known) for known in pieces]
    cached = [known[-1].cached_tokens for known in pieces]
    return {**head, "choices": choices, "usage": _usage(body, plans, counts, cached)}


async def _chunks(
    services: Services, caller: Caller, body: CompletionBody, head: dict[str, Any]
) -> AsyncGenerator[Event, None]:
    includes_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
    nothing = {"usage": None} if includes_usage else {}
    plans = await asyncio.to_thread(choice_plans, body)
    counts, cached = [0] * len(plans), [0] * len(plans)
    async with aclosing(sampled_choices(services, caller, body, plans)) as sampled:
        async for index, piece in sampled:
            is_start = not counts[index]
            counts[index] += 1
            cached[index] = piece.cached_tokens
            choice = completion_choice(body, plans[index], [piece], is_start=is_start)
            if is_start or _says_something(choice):
                yield None, {**head, "choices": [choice], **nothing}
    if includes_usage:
        yield None, {**head, "choices": [], "usage": _usage(body, plans, counts, cached)}


def _says_something(choice: dict[str, Any]) -> bool:
    fields = ("text", "logprobs", "token_ids", "finish_reason")
    return any(choice.get(field) for field in fields)


def _usage(
    body: CompletionBody, plans: list[ChoicePlan], counts: list[int], cached: list[int]
) -> Any:
    usages = [
        Usage(len(plan.prompt), known, count)
        for plan, known, count in zip(plans, cached, counts, strict=True)
    ]
    width = body.n or 1
    return completions_usage(
        [usages[start : start + width] for start in range(0, len(usages), width)]
    )
