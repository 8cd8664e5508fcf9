"""The names that requests may use: ``GET /v1/models``, and a route for ``transformers chat``.

Clients that send ``anthropic-version`` get the list in the form of Anthropic's API.
"""

from __future__ import annotations

import json

from fastapi import APIRouter, Request
from starlette.responses import Response

from ..apis.models import (
    Model,
    ModelInfo,
    ModelList,
    ModelPage,
    ModelToLoad,
    model_info,
    model_json,
)
from .auth.api_keys import AuthenticatedCaller
from .http.errors import speaks_messages
from .limited_route import LimitedRoute
from .services import services_of

router = APIRouter(tags=["Models"], route_class=LimitedRoute)


@router.get("/v1/models")
async def list_models(request: Request, _: AuthenticatedCaller) -> ModelList | ModelPage:
    """List the names of the model; the server has one model, under one or several names."""
    services = services_of(request)
    names = services.model_names
    if speaks_messages(request.scope):
        data = [model_info(name, int(services.started), services.context_length) for name in names]
        return {"data": data, "first_id": names[0], "last_id": names[-1], "has_more": False}
    return {
        "object": "list",
        "data": [
            model_json(name, int(services.started), services.context_length) for name in names
        ],
    }


@router.get("/v1/models/{name:path}")
async def retrieve_model(name: str, request: Request, _: AuthenticatedCaller) -> Model | ModelInfo:
    """Describe one name; it may contain slashes, like names on the Hugging Face hub."""
    services = services_of(request)
    name = services.check_model(name)
    if speaks_messages(request.scope):
        return model_info(name, int(services.started), services.context_length)
    return model_json(name, int(services.started), services.context_length)


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
