"""The names that requests may use: ``GET /v1/models``, and a route for ``transformers chat``.

Clients that send ``anthropic-version`` get the list in the form of Anthropic's API.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import Response
from typing_extensions import TypedDict  # pydantic needs that of Python 3.12

from .auth.api_keys import AuthenticatedCaller
from .http.errors import speaks_messages
from .limited_route import LimitedRoute
from .services import Services, services_of

__all__ = ["router"]

router = APIRouter(tags=["Models"], route_class=LimitedRoute)


class Model(TypedDict):
    """A model's name and creation time; `max_model_len` is the length of its context in tokens."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int


class ModelToLoad(BaseModel):
    """The name of a model."""

    model: str


class ModelList(TypedDict):
    """All names."""

    object: Literal["list"]
    data: list[Model]


def _model(services: Services, name: str) -> Model:
    return {
        "id": name,
        "object": "model",
        "created": int(services.started),
        "owned_by": "gpt-oss-harmony",
        "max_model_len": services.context_length,
    }


class ModelInfo(TypedDict):
    """A model as Anthropic's API describes it; `capabilities` names what the model can do."""

    type: Literal["model"]
    id: str
    display_name: str
    created_at: str
    lifecycle: Literal["active"]
    max_input_tokens: int
    max_tokens: int
    capabilities: dict[str, Any]


class ModelPage(TypedDict):
    """All names; there is always one page."""

    data: list[ModelInfo]
    first_id: str
    last_id: str
    has_more: bool


def _supported(*names: str, **others: bool) -> dict[str, Any]:
    supports = dict.fromkeys(names, True) | others
    return {name: {"supported": supported} for name, supported in supports.items()}


_CAPABILITIES: dict[str, Any] = {
    **_supported(
        "structured_outputs",
        batch=False,
        citations=False,
        code_execution=False,
        image_input=False,
        pdf_input=True,
    ),
    "context_management": {"supported": False},
    "effort": {"supported": True, **_supported("low", "medium", "high", "max", "xhigh")},
    "server_tools": {"supported": False, **_supported(code_execution=False, web_search=False)},
    "thinking": {
        "supported": True,
        "types": _supported("adaptive", "between_tools", "disabled", "enabled"),
    },
}


def _model_info(services: Services, name: str) -> ModelInfo:
    created = datetime.fromtimestamp(int(services.started), timezone.utc)
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "max_input_tokens": services.context_length,
        "max_tokens": services.context_length,
        "capabilities": _CAPABILITIES,
    }


@router.get("/v1/models")
async def list_models(request: Request, _: AuthenticatedCaller) -> ModelList | ModelPage:
    """List the names of the model; the server has one model, under one or several names."""
    services = services_of(request)
    names = services.model_names
    if speaks_messages(request.scope):
        data = [_model_info(services, name) for name in names]
        return {"data": data, "first_id": names[0], "last_id": names[-1], "has_more": False}
    return {"object": "list", "data": [_model(services, name) for name in names]}


@router.get("/v1/models/{name:path}")
async def retrieve_model(name: str, request: Request, _: AuthenticatedCaller) -> Model | ModelInfo:
    """Describe one name; it may contain slashes, like names on the Hugging Face hub."""
    services = services_of(request)
    name = services.check_model(name)
    if speaks_messages(request.scope):
        return _model_info(services, name)
    return _model(services, name)


@router.post(
    "/load_model",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {}}}},
)
async def load_model(body: ModelToLoad, request: Request, _: AuthenticatedCaller) -> Response:
    """Report that the model is loaded, with one event, as ``transformers serve`` does."""
    name = services_of(request).check_model(body.model)
    event = {"status": "ready", "model": name, "cached": True}
    return Response(f"data: {json.dumps(event)}\n\n", media_type="text/event-stream")
