"""``POST /v1/messages`` and ``/v1/messages/count_tokens``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response
from typing_extensions import TypedDict  # pydantic needs that of Python 3.12

from ...apis.messages_input import chat_parts, turn_of_messages
from ...apis.messages_request import MessagesRequest
from ...apis.turn_request import TurnRequest
from ..auth.api_keys import AuthenticatedCaller, Caller
from ..encryption import OwnerCipher
from ..generation.events import TurnEnded
from ..generation.preparation import constraint_headers, prepare_turn
from ..generation.sampling import prepared_turn, sample_choices, sample_turn
from ..http.errors import MESSAGES_ERRORS
from ..http.json import JsonResponse
from ..http.requests import while_connected
from ..http.server_sent_events import Event, EventStream, event_of, json_or_stream
from ..limited_route import LimitedRoute
from ..services import Services, services_of
from ..store import new_id
from .answer import (
    PING,
    MessageAnswer,
    MessageEvent,
    MessageEvents,
    unanswered,
    whole_message,
)

__all__ = ["router"]

router = APIRouter(tags=["Messages"], route_class=LimitedRoute)


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
    results of calls.
    """
    services = services_of(request)
    model = services.check_model(body.model)
    headers: dict[str, str] = {}
    events = _events(services, caller, body, model, headers)
    if body.stream:
        return EventStream(
            _named(events),
            error_event=lambda error: _named_event(error.messages_body()),
            ping=_named_event(PING),
            headers=headers,
        )
    message = await while_connected(request.receive, _whole(events))
    return JsonResponse(message, headers=headers)


class TokenCount(TypedDict):
    """The number of tokens of a prompt."""

    input_tokens: int


@router.post("/v1/messages/count_tokens", responses=MESSAGES_ERRORS)
async def count_message_tokens(
    body: MessagesRequest, request: Request, caller: AuthenticatedCaller
) -> TokenCount:
    """Count the tokens of a request's prompt; nothing is sampled."""
    services = services_of(request)
    services.check_model(body.model)
    read = await _reading(services, caller, body)

    def count() -> int:
        return len(prepare_turn(read()).prompt)

    tokens = await services.pools.encoding.run(caller.owner, count)
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


async def _events(
    services: Services, caller: Caller, body: MessagesRequest, model: str, headers: dict[str, str]
) -> AsyncGenerator[dict[str, Any], None]:
    await services.admission.admit(caller.owner)
    read = await _reading(services, caller, body)
    turn, prepared = await prepared_turn(services, caller.owner, body, read)
    headers.update(constraint_headers(prepared))
    writer = MessageEvents(
        model,
        len(prepared.prompt),
        display=body.reasoning_display,
        seal=OwnerCipher(services.cipher, caller.owner).encrypt_reasoning,
        new_id=new_id,
    )
    sampled = sample_turn(services, caller, turn, prepared)
    async with aclosing(sample_choices([sampled], prompt_field="messages")) as turn_events:
        async for _, turn_event in turn_events:
            if body.max_tokens == 0:
                if not isinstance(turn_event, TurnEnded):
                    continue
                turn_event = unanswered(turn_event)
            for event in writer.take(turn_event):
                yield event


async def _whole(events: AsyncGenerator[dict[str, Any], None]) -> dict[str, Any]:
    async with aclosing(events):
        return whole_message([event async for event in events])


async def _named(
    events: AsyncGenerator[dict[str, Any], None],
) -> AsyncGenerator[Event, None]:
    async with aclosing(events):
        async for event in events:
            yield _named_event(event)


def _named_event(event: dict[str, Any]) -> Event:
    return event_of(event, event["type"])
