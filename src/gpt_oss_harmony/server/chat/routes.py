"""``POST /v1/chat/completions``."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from itertools import count
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from ...apis.requests import ChatRequest
from ...apis.turn_request import TurnRequest, turn_of_chat
from ..auth.api_keys import AuthenticatedCaller, Caller
from ..generation.events import TurnEnded, TurnEvent, Usage
from ..generation.preparation import constraint_headers
from ..generation.sampling import choice_sampling, prepared_turn, sample_choices, sample_turn
from ..http.event_log import Event
from ..http.json import JsonResponse
from ..http.requests import while_connected
from ..http.server_sent_events import EventStream, event_of, json_or_stream
from ..identifiers import new_id
from ..limited_route import LimitedRoute
from ..repeated_requests import IdempotencyKey, RequestKey
from ..services import Services, services_of
from .completion import (
    ChatChoice,
    ChatCompletion,
    ChatCompletionChunk,
    ChatHead,
    ChatUsage,
    ChunkChoice,
    StreamedChoice,
    WholeChoice,
    chat_usage,
    whole_chunk,
)
from .stored import claimed_completion, store_completion

__all__ = ["router"]

router = APIRouter(tags=["Chat Completions"], route_class=LimitedRoute)


@router.post(
    "/v1/chat/completions",
    response_model=None,
    responses=json_or_stream(ChatCompletion, ChatCompletionChunk),
)
async def create_chat_completion(
    body: ChatRequest, request: Request, caller: AuthenticatedCaller, key: IdempotencyKey
) -> Response:
    """Respond to a conversation.

    With `stream`, the completion is sent as server-sent events: chunks, then ``[DONE]``. An error
    during the stream is a chunk with the field `error`. Reasoning is in `reasoning` and
    `reasoning_content`. The content has the preambles before tool calls, and the answer.

    With `store`, a repetition with the same ``Idempotency-Key`` gets the stored completion.
    """
    services = services_of(request)
    head: ChatHead = {
        "id": new_id("chatcmpl-"),
        "created": int(time.time()),
        "model": services.check_model(body.model),
        "service_tier": None,
        "system_fingerprint": services.system_fingerprint,
    }
    headers: dict[str, str] = {}
    if body.stream:
        chunks = _chunks(services, caller, body, head, headers)
        if body.store and key.is_given:
            chunks = _chunks_once(services, caller, body, key, head, chunks)
        return EventStream(chunks, ending="[DONE]", headers=headers)
    work = _completion(services, caller, body, key, head, headers)
    completion = await while_connected(request.receive, work)
    return JsonResponse(completion, headers=headers)


async def _turn(services: Services, caller: Caller, body: ChatRequest) -> TurnRequest:
    await services.admission.admit(caller.owner)
    date = services.current_date()
    body = await services.file_texts.of_chat(caller.owner, body)
    return await services.pools.encoding.run(caller.owner, turn_of_chat, body, date=date)


async def _completion(
    services: Services,
    caller: Caller,
    body: ChatRequest,
    key: RequestKey,
    head: ChatHead,
    headers: dict[str, str],
) -> ChatCompletion:
    async with claimed_completion(services, caller.owner, key, body, head["id"]) as earlier:
        if earlier is not None:
            return earlier
        turn = await _turn(services, caller, body)
        choices = [WholeChoice(turn) for _ in range(body.n or 1)]
        usages: list[Usage] = []
        sampling = _choice_events(services, caller, turn, len(choices), headers)
        async with aclosing(sampling) as events:
            async for index, event in events:
                choices[index].take(event)
                if isinstance(event, TurnEnded):
                    usages.append(event.usage)
        completion = _whole(head, map(WholeChoice.as_json, choices, count()), usages)
        if body.store:
            await store_completion(services, caller, body, completion)
        return completion


def _whole(
    head: ChatHead, choices: Iterable[ChatChoice], usages: Sequence[Usage]
) -> ChatCompletion:
    return {
        **head,
        "object": "chat.completion",
        "choices": list(choices),
        "usage": chat_usage(usages),
    }


async def _chunks_once(
    services: Services,
    caller: Caller,
    body: ChatRequest,
    key: RequestKey,
    head: ChatHead,
    chunks: AsyncGenerator[Event, None],
) -> AsyncGenerator[Event, None]:
    """Yield the chunks, or those of the stored completion if the request is a repetition."""
    claimed = claimed_completion(services, caller.owner, key, body, head["id"])
    async with aclosing(chunks), claimed as earlier:
        if earlier is None:
            async for chunk in chunks:
                yield chunk
            return
        first: Any = {name: earlier[name] for name in head}  # type: ignore[literal-required]
        for choice in map(whole_chunk, earlier["choices"]):
            yield event_of(_chunk(body, first, choice))
        if body.includes_usage:
            yield event_of(_chunk(body, first, None, earlier["usage"]))


async def _chunks(
    services: Services,
    caller: Caller,
    body: ChatRequest,
    head: ChatHead,
    headers: dict[str, str],
) -> AsyncGenerator[Event, None]:
    turn = await _turn(services, caller, body)
    choices = [StreamedChoice(turn, index) for index in range(body.n or 1)]
    whole = [WholeChoice(turn) for _ in choices]
    usages: list[Usage] = []
    async with aclosing(_choice_events(services, caller, turn, len(choices), headers)) as events:
        async for index, event in events:
            if body.store:
                whole[index].take(event)
            if isinstance(event, TurnEnded):
                usages.append(event.usage)
                if body.store and len(usages) == len(choices):  # stored before the final event
                    ids = [choice.call_ids for choice in choices]
                    stored = _whole(head, map(WholeChoice.as_json, whole, count(), ids), usages)
                    await store_completion(services, caller, body, stored)
            for choice in choices[index].take(event):
                yield event_of(_chunk(body, head, choice))
    if body.includes_usage:
        yield event_of(_chunk(body, head, None, chat_usage(usages)))


def _chunk(
    body: ChatRequest, head: ChatHead, choice: ChunkChoice | None, usage: ChatUsage | None = None
) -> dict[str, Any]:
    """Write a chunk; if usage is requested, all chunks have the field, null except in the last."""
    return {
        **head,
        "object": "chat.completion.chunk",
        "choices": [] if choice is None else [choice],
        **({"usage": usage} if body.includes_usage else {}),
    }


async def _choice_events(
    services: Services, caller: Caller, turn: TurnRequest, count: int, headers: dict[str, str]
) -> AsyncGenerator[tuple[int, TurnEvent], None]:
    """Sample `count` choices at once; yield their events, with the index of the choice.

    The prompt and the grammar are the same for all. Each choice has its own slot at the engine,
    because it is as much work as another request. A request is refused as a whole or not at all.
    """
    prepared = await prepared_turn(services, caller.owner, turn)
    headers.update(constraint_headers(prepared))
    choices = [
        sample_turn(
            services,
            caller,
            turn,
            prepared._replace(sampling=choice_sampling(prepared.sampling, index)),
            is_first=index == 0,
        )
        for index in range(count)
    ]
    async with aclosing(sample_choices(choices, prompt_field="messages")) as events:
        async for event in events:
            yield event
