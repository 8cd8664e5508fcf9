"""``POST /v1/chat/completions``."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from ...apis.chat_request import ChatRequest
from ..answers.disconnect import while_connected
from ..answers.event_stream import Event, EventStream, whole_or_stream
from ..answers.json_answer import JsonAnswer
from ..identifiers import new_id, system_fingerprint
from ..keys.caller import Caller, KnownCaller
from ..services import Services, services_of
from ..turns.events import TurnEnded, Usage
from .answer import ChatCompletion, ChatHead, ChatUsage, ChunkChoice, chat_usage
from .choice import StreamedChoice, WholeChoice
from .turn import chat_turn, choice_events

__all__ = ["router"]

router = APIRouter(tags=["Chat Completions"])


@router.post(
    "/v1/chat/completions",
    response_model=None,
    responses=whole_or_stream(ChatCompletion),
)
async def create_chat_completion(
    body: ChatRequest, request: Request, caller: KnownCaller
) -> Response:
    """Answer a conversation.

    With `stream` the answer comes as server-sent events: chunks, and ``[DONE]`` at the end; an
    error within is a chunk with the field `error`. Reasoning stands under `reasoning` and
    `reasoning_content`. Preambles before calls of tools are content, and so is the answer.
    """
    services = services_of(request)
    head: ChatHead = {
        "id": new_id("chatcmpl-"),
        "created": int(time.time()),
        "model": services.check_model(body.model),
        "service_tier": None,
        "system_fingerprint": system_fingerprint(services.engine),
    }
    if body.stream:
        return EventStream(_chunks(services, caller, body, head), ending="[DONE]")
    work = _completion(services, caller, body, head)
    return JsonAnswer(await while_connected(request.receive, work))


async def _completion(
    services: Services, caller: Caller, body: ChatRequest, head: ChatHead
) -> ChatCompletion:
    turn = await chat_turn(services, body)
    choices = [WholeChoice(turn) for _ in range(body.n or 1)]
    usages: list[Usage] = []
    async with aclosing(choice_events(services, caller, turn, len(choices))) as events:
        async for index, event in events:
            choices[index].take(event)
            if isinstance(event, TurnEnded):
                usages.append(event.usage)
    return {
        **head,
        "object": "chat.completion",
        "choices": [choice.as_json(index) for index, choice in enumerate(choices)],
        "usage": chat_usage(usages),
    }


async def _chunks(
    services: Services, caller: Caller, body: ChatRequest, head: ChatHead
) -> AsyncGenerator[Event, None]:
    turn = await chat_turn(services, body)
    choices = [StreamedChoice(turn, index) for index in range(body.n or 1)]
    usages: list[Usage] = []
    async with aclosing(choice_events(services, caller, turn, len(choices))) as events:
        async for index, event in events:
            for choice in choices[index].take(event):
                yield None, _chunk(body, head, choice)
            if isinstance(event, TurnEnded):
                usages.append(event.usage)
    if body.includes_usage:
        yield None, _chunk(body, head, None, chat_usage(usages))


def _chunk(
    body: ChatRequest, head: ChatHead, choice: ChunkChoice | None, usage: ChatUsage | None = None
) -> dict[str, Any]:
    """Write a chunk; where the usage is asked for all have it, null but in the last."""
    return {
        **head,
        "object": "chat.completion.chunk",
        "choices": [] if choice is None else [choice],
        **({"usage": usage} if body.includes_usage else {}),
    }
