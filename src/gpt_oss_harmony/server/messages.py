"""``POST /v1/messages`` and ``/v1/messages/count_tokens``."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from ..apis.messages.fold import MessagesFold
from ..apis.messages.input import chat_parts, turn_of_messages
from ..apis.messages.request import MessagesRequest
from ..apis.messages.writer import PING, MessageAnswer, MessageEvent, MessagesWriter, TokenCount
from ..apis.turn import TurnRequest
from ..apis.wire_events import event_of
from .answer import Api, SampledAnswer, answer_events, respond, sampled_turns
from .auth.api_keys import AuthenticatedCaller, Caller
from .encryption import OwnerCipher
from .http.errors import MESSAGES_ERRORS, ApiError
from .http.server_sent_events import json_or_stream
from .limited_route import LimitedRoute
from .logs import ANSWER_IDS
from .preparation import constraint_headers, counted_turn, prepared_turn
from .services import Services, services_of
from .store import MessageThread, NotFoundError, new_id

router = APIRouter(tags=["Messages"], route_class=LimitedRoute)

_API = Api(
    MessagesFold,
    prompt_field="messages",
    error_event=lambda error: event_of(error.messages_body(), "error"),
    ending=None,
    ping=PING,
)


@router.post(
    "/v1/messages",
    response_model=None,
    responses=json_or_stream(MessageAnswer, MessageEvent) | MESSAGES_ERRORS,
)
async def create_message(
    body: MessagesRequest, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Respond to a conversation, in the form of Anthropic's Messages API.

    With `stream`, the message is sent as server-sent events. An error during the stream is the
    event `error`. The reasoning is in blocks of the type `thinking`; send them back with the
    results of calls. With `thread`, the server keeps the messages, and the next request sends only
    new ones.
    """
    services, owner = services_of(request), caller.owner
    model = services.check_model(body.model)
    headers: dict[str, str] = {}
    streams = bool(body.stream)

    async def answer() -> SampledAnswer:
        services.admission.check(owner)
        whole = await _with_thread(services, owner, body)
        read = await _reading(services, caller, whole)
        turn, prepared = await prepared_turn(services, owner, whole, read)
        headers.update(constraint_headers(prepared))
        writer = MessagesWriter(
            model,
            len(prepared.prompt),
            display=body.reasoning_display,
            seal=OwnerCipher(services.cipher, owner).encrypt_reasoning,
            new_id=new_id,
            reads_only=body.max_tokens == 0,
        )
        ANSWER_IDS.set({"gen_ai.response.id": writer.id})
        choices = sampled_turns(
            services, caller, turn, prepared, streams=streams, id_prefix="toolu"
        )
        keeps = None if body.thread is None else partial(_keep_thread, services, owner, whole)
        return SampledAnswer(choices, lambda event, _: writer.take(event), keeps)

    events = answer_events(_API, answer)
    return await respond(_API, request, events, streams=streams, headers=headers)


async def _with_thread(services: Services, owner: str, body: MessagesRequest) -> MessagesRequest:
    """Put the messages of the thread that a request continues before its own.

    Raises `ApiError` with the code after which Anthropic's SDKs send the whole thread again.
    """
    id = None if body.thread is None else body.thread.previous_message_id
    if id is None:
        return body
    try:
        thread = await services.store.threads.get(id, owner)
    except NotFoundError as error:
        raise ApiError(
            404,
            f"{error}; it has expired, or was continued before: send all messages",
            param="thread.previous_message_id",
            details={"error_code": "thread_not_found"},
        ) from None
    for name, own in thread.settings.items():
        if getattr(body, name) not in (None, own):
            problem = f"{name}: the thread was created with another value; leave it out"
            raise ApiError(400, problem, param=name, code="invalid_value")
    messages = [*thread.messages, *body.messages]
    return body.model_copy(update={**thread.settings, "messages": messages})


async def _keep_thread(
    services: Services, owner: str, request: MessagesRequest, answer: MessageAnswer
) -> None:
    created = int(time.time())
    said = {"role": "assistant", "content": answer["content"]}
    thread = MessageThread(
        id=answer["id"],
        owner=owner,
        created_at=created,
        expires_at=services.settings.expires_at(created),
        settings={name: getattr(request, name) for name in _OF_THREAD},
        messages=[*request.messages, said],
    )
    previous = None if request.thread is None else request.thread.previous_message_id
    await services.store.threads.add(thread, previous)


_OF_THREAD = ("system", "tools")
"""The fields that a request which continues a thread takes from the one that created it."""


@router.post("/v1/messages/count_tokens", responses=MESSAGES_ERRORS)
async def count_message_tokens(
    body: MessagesRequest, request: Request, response: Response, caller: AuthenticatedCaller
) -> TokenCount:
    """Count the tokens of a request's prompt; nothing is sampled."""
    services = services_of(request)
    services.check_model(body.model)
    read = await _reading(services, caller, body)

    def count() -> tuple[int, dict[str, str]]:
        turn = read()
        services.unknown_fields.check_turn(MessagesRequest, turn, caller.owner)
        return counted_turn(turn)

    pool = services.pools.encoding
    tokens, headers = count() if body.is_short_chat else await pool.run(caller.owner, count)
    response.headers.update(headers)
    caller.usage.tokens += tokens
    return {"input_tokens": tokens}


async def _reading(
    services: Services, caller: Caller, body: MessagesRequest
) -> Callable[[], TurnRequest]:
    """Return what reads the turn of a request, which blocks."""
    date = services.current_date()
    parts = chat_parts(body)
    messages = await services.file_texts.in_items(caller.owner, parts, "messages")
    body = body.model_copy(update={"messages": messages or parts})
    decrypt = OwnerCipher(services.cipher, caller.owner).decrypt
    return partial(turn_of_messages, body, date=date, decrypt=decrypt)
