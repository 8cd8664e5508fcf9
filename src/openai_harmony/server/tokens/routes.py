"""``POST /v1/tokens/render`` and ``/v1/tokens/parse``: what the model reads, what it meant."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from starlette.responses import Response

from ...apis.chat_request import ChatRequest
from ...apis.request_body import read_body
from ...apis.responses_request import ResponsesRequest
from ...apis.turns import turn_of_chat
from ..answers.json_answer import JsonAnswer
from ..keys.caller import KnownCaller
from ..responses.plan import planned_turn
from ..services import Services, services_of
from .parse import ParsedTokens, ParseRequest, parsed_tokens
from .render import RenderedTurn, rendered_turn

__all__ = ["router"]

router = APIRouter(prefix="/v1/tokens", tags=["Tokens"])

_REQUEST = "A request as Chat Completions (with `messages`) or Responses has it (with `input`)."


@router.post("/render", response_model=None, responses={200: {"model": RenderedTurn}})
async def render(
    body: Annotated[dict[str, Any], Body(description=_REQUEST)],
    request: Request,
    caller: KnownCaller,
) -> Response:
    """Render a request to the text and the tokens that the model reads; nothing is sampled."""
    services = services_of(request)
    return JsonAnswer(await asyncio.to_thread(_rendered, services, caller.owner, body))


@router.post("/parse", response_model=None, responses={200: {"model": ParsedTokens}})
async def parse(body: ParseRequest, _: KnownCaller) -> Response:
    """Parse tokens, or marked-up text, to messages."""
    return JsonAnswer(await asyncio.to_thread(parsed_tokens, body))


def _rendered(services: Services, owner: str, body: dict[str, Any]) -> RenderedTurn:
    if "messages" in body:
        chat = read_body(ChatRequest, body)
        services.check_model(chat.model)
        return rendered_turn(turn_of_chat(chat, date=services.current_date()))
    response = read_body(ResponsesRequest, body)
    services.check_model(response.model)
    return rendered_turn(planned_turn(services, owner, response))
