"""``POST /v1/chat/completions``."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from ...apis.chat.fold import ChatFold
from ...apis.chat.request import ChatRequest, turn_of_chat
from ...apis.chat.writer import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatHead,
    ChatWriter,
    replayed_completion,
)
from ...apis.wire_events import Event
from ..answer import Api, SampledAnswer, answer_events, respond, sampled_turns
from ..auth.api_keys import AuthenticatedCaller
from ..http.server_sent_events import json_or_stream
from ..limited_route import LimitedRoute
from ..logs import ANSWER_IDS
from ..preparation import constraint_headers, prepared_turn
from ..repeated_requests import IdempotencyKey
from ..services import services_of
from ..store import new_id
from .stored import claimed_completion, store_completion

router = APIRouter(tags=["Chat Completions"], route_class=LimitedRoute)

_API = Api(ChatFold, prompt_field="messages")


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
    services, owner = services_of(request), caller.owner
    head: ChatHead = {
        "id": new_id("chatcmpl-"),
        "created": int(time.time()),
        "model": services.check_model(body.model),
        "service_tier": None,
        "system_fingerprint": services.system_fingerprint,
    }
    headers: dict[str, str] = {}
    streams = bool(body.stream)
    includes_usage = body.includes_usage or not streams

    async def answer() -> SampledAnswer:
        services.admission.check(owner)
        filled = await services.file_texts.of_chat(owner, body)
        read = partial(turn_of_chat, filled, date=services.current_date())
        turn, prepared = await prepared_turn(services, owner, filled, read)
        ANSWER_IDS.set({"gen_ai.response.id": head["id"]})
        headers.update(constraint_headers(prepared))
        count = body.n or 1
        choices = sampled_turns(services, caller, turn, prepared, streams=streams, count=count)
        writer = ChatWriter(
            head,
            choices=count,
            includes_usage=includes_usage,
            has_logprobs=turn.sampling.logprobs is not None,
        )

        async def store(whole: ChatCompletion) -> None:
            await store_completion(services, caller, body, {**whole, "usage": writer.usage()})

        return SampledAnswer(choices, writer.take, store if body.store else None)

    async def events() -> AsyncGenerator[Event, None]:
        """Yield the chunks, or those of the stored completion if the request is a repetition."""
        new = answer_events(_API, answer)
        claimed = claimed_completion(services, owner, key, body, head["id"])
        async with aclosing(new), claimed as earlier:
            if earlier is None:
                async for chunk in new:
                    yield chunk
            else:
                for chunk in replayed_completion(earlier, includes_usage=includes_usage):
                    yield chunk

    once = events() if body.store and key.is_given else answer_events(_API, answer)
    return await respond(_API, request, once, streams=streams, headers=headers)
