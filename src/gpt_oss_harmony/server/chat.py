"""Chat Completions: ``POST /v1/chat/completions``, and the stored completions."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Annotated, Any, cast

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ..apis.chat.fold import ChatFold
from ..apis.chat.request import ChatRequest, turn_of_chat
from ..apis.chat.writer import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatHead,
    ChatWriter,
    replayed_completion,
)
from ..apis.request_body import MetadataUpdate
from ..apis.wire_events import Event
from .answer import Api, SampledAnswer, answer_events, respond, sampled_turns
from .auth.api_keys import AuthenticatedCaller, Caller
from .http.json import list_json
from .http.server_sent_events import json_or_stream
from .limited_route import LimitedRoute, written
from .logs import ANSWER_IDS
from .preparation import constraint_headers, prepared_turn
from .repeated_requests import IdempotencyKey, RequestKey, check_same, request_in_progress
from .services import Services, services_of
from .store import ClaimedError, NotFoundError, Order, StoredCompletion, new_id

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


# Stored completions: the routes that list, read, change and delete them

stored_router = APIRouter(
    prefix="/v1/chat/completions", tags=["Chat Completions"], route_class=LimitedRoute
)

_METADATA = re.compile(r"metadata\[(.*)\]", re.DOTALL)


async def store_completion(
    services: Services, caller: Caller, request: ChatRequest, completion: ChatCompletion
) -> None:
    """Store a completion; it is kept as long as responses are."""
    created = completion["created"]
    stored = StoredCompletion(
        id=completion["id"],
        owner=caller.owner,
        model=completion["model"],
        created_at=created,
        expires_at=services.settings.expires_at(created),
        metadata=dict(request.metadata or {}),
        completion=completion,
        messages=request.messages,
    )
    await services.store.completions.add(stored)


@asynccontextmanager
async def claimed_completion(
    services: Services, owner: str, key: RequestKey, request: ChatRequest, id: str
) -> AsyncGenerator[ChatCompletion | None, None]:
    """Claim the key of a request that stores its completion under `id`, and free it if that fails.

    Yields the stored completion of an earlier request with the same key, or None. Raises `ApiError`
    with the status 409 if that request has not ended.
    """
    claims, completions = services.store.claims, services.store.completions
    wanted = await services.pools.encoding.run(owner, key.claims, request)
    try:
        await claims.take(wanted, owner, id, services.settings.expires_at(int(time.time())))
    except ClaimedError as claimed:
        check_same(claimed)
        try:
            earlier = await completions.get(claimed.made_id, owner)
        except NotFoundError:
            problem = "the same request has not ended; wait for its end, or send a new key"
            raise request_in_progress(problem) from None
        yield cast("ChatCompletion", earlier.completion)
        return
    try:
        yield None
    except BaseException:  # also a client that disconnects
        try:
            await completions.get(id, owner)  # it may be stored, but not sent yet
        except NotFoundError:
            await claims.release(id, owner)
        raise


@stored_router.get("")
async def list_completions(
    request: Request,
    caller: AuthenticatedCaller,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Order = "asc",
    model: str | None = None,
) -> Response:
    """List stored completions; ``metadata[KEY]=VALUE`` selects those with this metadata."""
    services, owner = services_of(request), caller.owner
    metadata = {
        match[1]: value
        for name, value in request.query_params.items()
        if (match := _METADATA.fullmatch(name))
    }
    page = await services.store.completions.page(
        owner, after=after, limit=limit, order=order, model=model, metadata=metadata
    )
    completions = [_completion_json(item) for item in page.items]
    return await written(request, owner, list_json(completions, has_more=page.has_more))


@stored_router.get("/{completion_id}")
async def retrieve(completion_id: str, request: Request, caller: AuthenticatedCaller) -> Response:
    """Read a stored completion."""
    services, owner = services_of(request), caller.owner
    stored = await services.store.completions.get(completion_id, owner)
    return await written(request, owner, _completion_json(stored))


@stored_router.post("/{completion_id}")
async def update(
    completion_id: str, body: MetadataUpdate, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Replace the metadata."""
    services, owner = services_of(request), caller.owner
    changed = await services.store.completions.update(completion_id, owner, body.metadata or {})
    return await written(request, owner, _completion_json(changed))


@stored_router.delete("/{completion_id}")
async def delete(
    completion_id: str, request: Request, caller: AuthenticatedCaller
) -> dict[str, Any]:
    """Delete a stored completion."""
    services = services_of(request)
    await services.store.completions.delete(completion_id, caller.owner)
    return {"id": completion_id, "object": "chat.completion.deleted", "deleted": True}


@stored_router.get("/{completion_id}/messages")
async def list_messages(
    completion_id: str,
    request: Request,
    caller: AuthenticatedCaller,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Order = "asc",
) -> Response:
    """List the messages of the request."""
    services, owner = services_of(request), caller.owner
    stored = await services.store.completions.get(completion_id, owner)
    messages = [
        {**message, "id": f"{completion_id}-{index}"}
        for index, message in enumerate(stored.messages)
    ]
    if order == "desc":
        messages.reverse()
    ids = [message["id"] for message in messages]
    if after is not None:
        if after not in ids:
            raise NotFoundError("message", after)
        messages = messages[ids.index(after) + 1 :]
    listed = list_json(messages[:limit], has_more=len(messages) > limit)
    return await written(request, owner, listed)


def _completion_json(stored: StoredCompletion) -> dict[str, Any]:
    return {**stored.completion, "metadata": stored.metadata}
