"""Ollama's API, for clients that speak nothing else: ``/api/chat``, ``/api/generate``, ..."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .. import __version__
from ..apis.chat.request import turn_of_chat
from ..apis.ollama.fold import OllamaFold
from ..apis.ollama.request import OllamaChatRequest, OllamaGenerateRequest, OllamaRequest
from ..apis.ollama.writer import OllamaWriter
from ..apis.request_body import RequestBody
from ..apis.wire_events import Event, event_of
from .answer import Api, SampledAnswer, answer_events, respond, sampled_turns
from .auth.api_keys import AuthenticatedCaller, Caller
from .http.errors import OLLAMA_ERRORS
from .limited_route import LimitedRoute
from .preparation import constraint_headers, prepared_turn
from .services import Services, services_of

_CURLS_DEFAULT = (b"content-type", b"application/x-www-form-urlencoded")


class OllamaRoute(LimitedRoute):
    """Reads JSON that curl calls a form, because Ollama's examples name no content type.

    Pages of other sites can send such a request as well; their `Origin` is refused before.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Correct the content type."""
        scope["headers"] = [
            (name, b"application/json" if (name, value) == _CURLS_DEFAULT else value)
            for name, value in scope["headers"]
        ]
        await super().handle(scope, receive, send)


router = APIRouter(prefix="/api", tags=["Ollama"], route_class=OllamaRoute, responses=OLLAMA_ERRORS)


def _lines(events: Iterable[Event]) -> bytes:
    return "".join(f"{event.data}\n" for event in events).encode()


_API = Api(
    OllamaFold,
    prompt_field="messages",
    error_event=lambda error: event_of({"error": error.text}),
    ending=None,
    encode=_lines,
    media_type="application/x-ndjson",
)

_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {}, "application/x-ndjson": {}}}
}


@router.post("/chat", response_model=None, responses=_ANSWER)
async def chat(body: OllamaChatRequest, request: Request, caller: AuthenticatedCaller) -> Response:
    """Respond to a conversation, line by line unless `stream` is false."""
    return await _respond(body, request, caller, is_chat=True)


@router.post("/generate", response_model=None, responses=_ANSWER)
async def generate(
    body: OllamaGenerateRequest, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Respond to a prompt, which is a question by the user."""
    return await _respond(body, request, caller, is_chat=False)


async def _respond(
    body: OllamaRequest, request: Request, caller: Caller, *, is_chat: bool
) -> Response:
    services = services_of(request)
    model = services.check_model(body.model)
    headers: dict[str, str] = {}

    async def answer() -> SampledAnswer:
        services.admission.check(caller.owner)
        asked = body.chat()
        read = partial(turn_of_chat, asked, date=services.current_date())
        turn, prepared = await prepared_turn(services, caller.owner, asked, read)
        headers.update(constraint_headers(prepared))
        writer = OllamaWriter(model, now=time.time_ns, is_chat=is_chat)
        choices = sampled_turns(services, caller, turn, prepared, streams=body.streams)
        return SampledAnswer(choices, lambda event, _: writer.take(event))

    events = answer_events(_API, answer)
    return await respond(_API, request, events, streams=body.streams, headers=headers)


# The models


class ModelName(RequestBody):
    """The name of a model; `name` is the older name of the field."""

    model: str | None = None
    name: str | None = None


_DETAILS = {"parent_model": "", "format": "", "family": "gptoss", "families": ["gptoss"]}


def _model(services: Services, name: str) -> dict[str, Any]:
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(services.started))
    details = {**_DETAILS, "parameter_size": "", "quantization_level": ""}
    known = {"name": name, "model": name, "size": 0, "digest": services.system_fingerprint}
    return {**known, "modified_at": began, "details": details}


@router.get("/tags")
async def list_tags(request: Request, _: AuthenticatedCaller) -> dict[str, Any]:
    """List the names of the model."""
    services = services_of(request)
    return {"models": [_model(services, name) for name in services.model_names]}


@router.get("/ps")
async def list_running(request: Request, caller: AuthenticatedCaller) -> dict[str, Any]:
    """List the same names: the model is always loaded."""
    return await list_tags(request, caller)


@router.post("/show")
async def show(body: ModelName, request: Request, _: AuthenticatedCaller) -> dict[str, Any]:
    """Describe a name: the context, and what the model can do."""
    services = services_of(request)
    name = services.check_model(body.model or body.name)
    described = _model(services, name)
    info = {"general.architecture": "gptoss", "gptoss.context_length": services.context_length}
    return {
        "details": described["details"],
        "modified_at": described["modified_at"],
        "model_info": info,
        "capabilities": ["completion", "tools", "thinking"],
    }


@router.get("/version")
async def version() -> dict[str, str]:
    """Name the version of this server; clients compare it with Ollama's."""
    return {"version": __version__}
