"""``POST /v1/completions``: completions of prompts that are already in the harmony format."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Literal

from fastapi import APIRouter, Request
from starlette.responses import Response
from typing_extensions import NotRequired, TypedDict  # pydantic needs that of Python 3.12

from ...grammar import GrammarError, Matcher
from ..auth.api_keys import AuthenticatedCaller, Caller
from ..chat.completion import ChatUsage, chat_usage
from ..generation.events import Usage
from ..http.json import JsonResponse
from ..http.requests import while_connected
from ..http.server_sent_events import Event, EventStream, event_of, json_or_stream
from ..limited_route import LimitedRoute
from ..services import Services, services_of
from ..store import new_id
from .choices import (
    ChoicePlan,
    CompletionBody,
    CompletionPiece,
    choice_plans,
    joined_logprobs,
    sampled_choices,
)

__all__ = ["router"]


class LogprobLists(TypedDict):
    """Lists of the same length: an entry for each token.

    With `echo`, the tokens of the prompt come first; the first of all has no log-probability.
    """

    text_offset: list[int]
    token_logprobs: list[float | None]
    tokens: list[str]
    top_logprobs: list[dict[str, float] | None]


class CompletionChoice(TypedDict):
    """A choice, or the part in a chunk; `finish_reason` is null in all chunks but the last."""

    index: int
    text: str
    logprobs: LogprobLists | None
    finish_reason: Literal["stop", "length"] | None
    stop_reason: NotRequired[Literal["repetition"]]
    prompt_token_ids: NotRequired[list[int]]
    token_ids: NotRequired[list[int]]


class CompletionAnswer(TypedDict):
    """A completion, or a chunk of it."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    usage: NotRequired[ChatUsage | None]


def completion_choice(
    body: CompletionBody, plan: ChoicePlan, pieces: Sequence[CompletionPiece], *, is_start: bool
) -> dict[str, Any]:
    """Write a choice from these pieces; the echo of the prompt comes first."""
    finish = pieces[-1].finish
    choice: dict[str, Any] = {
        "index": plan.position,
        "text": (plan.echo if is_start else "") + "".join(piece.text for piece in pieces),
        "logprobs": joined_logprobs(piece.logprobs for piece in pieces),
        "finish_reason": None if finish is None else finish.value,
    }
    if pieces[-1].is_repetition:
        choice["stop_reason"] = "repetition"
    if body.return_token_ids:
        if is_start:
            choice["prompt_token_ids"] = plan.prompt
        choice["token_ids"] = [piece.token for piece in pieces if piece.token is not None]
    return choice


router = APIRouter(tags=["Completions"], route_class=LimitedRoute)

_CHUNK_FIELDS = (
    "text",
    "logprobs",
    "token_ids",
    "finish_reason",
)  # a chunk without text is left out


@router.post(
    "/v1/completions",
    response_model=None,
    responses=json_or_stream(CompletionAnswer, CompletionAnswer),
)
async def create_completion(
    body: CompletionBody, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Continue one or several prompts, which are texts or token ids.

    A text is encoded with the special tokens that it spells. ``<|return|>`` and ``<|call|>`` end
    the completion and are its last token; with `skip_special_tokens` false, the text has them, too.
    """
    services = services_of(request)
    head: dict[str, Any] = {
        "id": new_id("cmpl-"),
        "object": "text_completion",
        "created": int(time.time()),
        "model": services.check_model(body.model),
        "system_fingerprint": services.system_fingerprint,
    }
    if body.stream:
        return EventStream(_chunks(services, caller, body, head), ending="[DONE]")
    work = _completion(services, caller, body, head)
    return JsonResponse(await while_connected(request.receive, work))


async def _plans(services: Services, caller: Caller, body: CompletionBody) -> list[ChoicePlan]:
    await services.admission.admit(caller.owner)
    plans = await services.pools.encoding.run(caller.owner, choice_plans, body)
    grammar = body.sampling().grammar
    if grammar is not None:
        try:
            await services.pools.grammar.run(caller.owner, Matcher, grammar)  # compiled and shared
        except GrammarError as error:
            services.note_refusal(error)
            raise
    return plans


async def _completion(
    services: Services, caller: Caller, body: CompletionBody, head: dict[str, Any]
) -> dict[str, Any]:
    plans = await _plans(services, caller, body)
    pieces: list[list[CompletionPiece]] = [[] for _ in plans]
    async with aclosing(sampled_choices(services, caller, body, plans)) as sampled:
        async for index, piece in sampled:
            pieces[index].append(piece)
    choices = [
        completion_choice(body, plan, own, is_start=True)
        for plan, own in zip(plans, pieces, strict=True)
    ]
    counts = [sum(piece.token is not None for piece in own) for own in pieces]
    cached = [own[-1].cached_tokens for own in pieces]
    return {**head, "choices": choices, "usage": _usage(body, plans, counts, cached)}


async def _chunks(
    services: Services, caller: Caller, body: CompletionBody, head: dict[str, Any]
) -> AsyncGenerator[Event, None]:
    includes_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
    nothing = {"usage": None} if includes_usage else {}
    plans = await _plans(services, caller, body)
    counts, cached = [0] * len(plans), [0] * len(plans)
    begun = set[int]()
    async with aclosing(sampled_choices(services, caller, body, plans)) as sampled:
        async for index, piece in sampled:
            is_start = index not in begun
            begun.add(index)
            counts[index] += piece.token is not None
            cached[index] = piece.cached_tokens
            choice = completion_choice(body, plans[index], [piece], is_start=is_start)
            if is_start or any(choice.get(field) for field in _CHUNK_FIELDS):
                yield event_of({**head, "choices": [choice], **nothing})
    if includes_usage:
        usage = _usage(body, plans, counts, cached)
        yield event_of({**head, "choices": [], "usage": usage})


def _usage(
    body: CompletionBody, plans: Sequence[ChoicePlan], counts: Sequence[int], cached: Sequence[int]
) -> ChatUsage:
    """Count the tokens of all choices, and those of each prompt once."""
    width = body.n or 1
    prompts = range(0, len(plans), width)
    total = Usage(
        input_tokens=sum(len(plans[first].prompt) for first in prompts),
        cached_tokens=sum(min(cached[first : first + width]) for first in prompts),
        output_tokens=sum(counts),
    )
    return chat_usage([total])
