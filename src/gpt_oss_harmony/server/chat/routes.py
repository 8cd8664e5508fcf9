"""``POST /v1/chat/completions``."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

from ...apis.requests import ChatRequest
from ...apis.turn_request import turn_of_chat
from ..auth.api_keys import AuthenticatedCaller, Caller
from ..generation.events import TurnEnded, TurnEvent, Usage
from ..generation.preparation import constraint_headers
from ..generation.sampling import choice_sampling, prepared_turn, sample_choices, sample_turn
from ..http.json import JsonResponse
from ..http.requests import while_connected
from ..http.server_sent_events import Event, EventStream, event_of, json_or_stream
from ..json_text import PLACEHOLDER, json_around, json_text
from ..limited_route import LimitedRoute
from ..repeated_requests import IdempotencyKey, RequestKey
from ..services import Services, services_of
from ..store import new_id
from .completion import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatHead,
    ChatUsage,
    ChunkChoice,
    SampledChoice,
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
    chat = _Chat(services, caller, body, head, {})
    if body.stream:
        chunks = _chunks(chat)
        if body.store and key.is_given:
            chunks = _chunks_once(chat, key, chunks)
        return EventStream(chunks, ending="[DONE]", headers=chat.headers)
    completion = await while_connected(request.receive, _completion(chat, key))
    return JsonResponse(completion, headers=chat.headers)


class _Chat(NamedTuple):
    """A request while it is answered; `headers` are filled before the response begins."""

    services: Services
    caller: Caller
    body: ChatRequest
    head: ChatHead
    headers: dict[str, str]


class _Step(NamedTuple):
    """An event of a choice.

    The last of all has the usages, and the completion if that is stored or sent.
    """

    choice: SampledChoice
    event: TurnEvent
    usages: Sequence[Usage] = ()
    completion: ChatCompletion | None = None


async def _steps(chat: _Chat) -> AsyncGenerator[_Step, None]:
    """Sample the choices at once; a completion with `store` is stored before the last step.

    The prompt and the grammar are the same for all. Each choice has its own slot at the engine,
    because it is as much work as another request. A request is refused as a whole or not at all.
    """
    services, caller, body, head, headers = chat
    owner = caller.owner
    await services.admission.admit(owner)
    filled = await services.file_texts.of_chat(owner, body)
    read = partial(turn_of_chat, filled, date=services.current_date())
    turn, prepared = await prepared_turn(services, owner, filled, read)
    headers.update(constraint_headers(prepared))
    is_whole = not body.stream or bool(body.store)
    choices = [SampledChoice(turn, index, is_whole=is_whole) for index in range(body.n or 1)]
    sampling = [
        sample_turn(
            services,
            caller,
            turn,
            prepared._replace(sampling=choice_sampling(prepared.sampling, index)),
            is_first=index == 0,
        )
        for index in range(len(choices))
    ]
    usages: list[Usage] = []
    async with aclosing(sample_choices(sampling, prompt_field="messages")) as events:
        async for index, event in events:
            choice = choices[index]
            choice.take(event)
            if isinstance(event, TurnEnded):
                usages.append(event.usage)
            if len(usages) < len(choices):
                yield _Step(choice, event)
    # The engine is free by now: a slow database keeps no one from it.
    completion = None
    if is_whole:
        completion = ChatCompletion(
            **head,
            object="chat.completion",
            choices=[choice.as_json() for choice in choices],
            usage=chat_usage(usages),
        )
    if body.store and completion is not None:
        await store_completion(services, caller, body, completion)
    yield _Step(choice, event, usages, completion)


async def _completion(chat: _Chat, key: RequestKey) -> ChatCompletion:
    owner, head = chat.caller.owner, chat.head
    claimed = claimed_completion(chat.services, owner, key, chat.body, head["id"])
    async with claimed as completion:
        if completion is None:
            async with aclosing(_steps(chat)) as steps:
                async for step in steps:
                    completion = step.completion
        assert completion is not None
        return completion


async def _chunks_once(
    chat: _Chat, key: RequestKey, chunks: AsyncGenerator[Event, None]
) -> AsyncGenerator[Event, None]:
    """Yield the chunks, or those of the stored completion if the request is a repetition."""
    owner, head, includes_usage = chat.caller.owner, chat.head, chat.body.includes_usage
    claimed = claimed_completion(chat.services, owner, key, chat.body, head["id"])
    async with aclosing(chunks), claimed as earlier:
        if earlier is None:
            async for chunk in chunks:
                yield chunk
            return
        first: Any = {name: earlier[name] for name in head}  # type: ignore[literal-required]
        written = _Chunks(first, includes_usage=includes_usage)
        for choice in map(whole_chunk, earlier["choices"]):
            yield written.of_choice(choice)
        if includes_usage:
            yield written.of_usage(earlier["usage"])


async def _chunks(chat: _Chat) -> AsyncGenerator[Event, None]:
    written = _Chunks(chat.head, includes_usage=chat.body.includes_usage)
    async with aclosing(_steps(chat)) as steps:
        async for choice, event, usages, _ in steps:
            for chunk in choice.chunks(event):
                yield written.of_choice(chunk)
            if usages and chat.body.includes_usage:
                yield written.of_usage(chat_usage(usages))


_TEXTS = (("content",), ("reasoning", "reasoning_content"))  # the names of a text's deltas


class _Chunks:
    """Writes the chunks of a stream; if it includes usage, all have the field, null until the last.

    Chunks with text differ only in it, so the rest of their JSON is written once.
    """

    def __init__(self, head: ChatHead, *, includes_usage: bool) -> None:
        self._head = head
        self._includes_usage = includes_usage
        self._around: dict[tuple[int, tuple[str, ...]], list[str]] = {}

    def of_choice(self, choice: ChunkChoice) -> Event:
        """Write the chunk of a choice."""
        delta = choice["delta"]
        names = tuple(delta)
        if names not in _TEXTS or choice["logprobs"] or choice["finish_reason"]:
            return event_of(self._chunk([choice]))
        key = choice["index"], names
        around = self._around.get(key)
        if around is None:
            empty: Any = {**choice, "delta": dict.fromkeys(names, PLACEHOLDER)}
            around = self._around[key] = json_around(self._chunk([empty]))
        return Event(None, json_text(delta[names[0]]).join(around))

    def of_usage(self, usage: ChatUsage) -> Event:
        """Write the last chunk, which has the usage and no choice."""
        return event_of(self._chunk([], usage))

    def _chunk(
        self, choices: Sequence[ChunkChoice], usage: ChatUsage | None = None
    ) -> dict[str, Any]:
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": choices}
        return {**chunk, "usage": usage} if self._includes_usage else chunk
