"""The names that requests may use: ``GET /v1/models``, and a route for ``transformers chat``."""

from __future__ import annotations

import json
from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import Response
from typing_extensions import TypedDict  # pydantic needs that of Python 3.12

from .auth.api_keys import AuthenticatedCaller
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


@router.get("/v1/models")
async def list_models(request: Request, _: AuthenticatedCaller) -> ModelList:
    """List the names of the model; the server has one model, under one or several names."""
    services = services_of(request)
    return {"object": "list", "data": [_model(services, name) for name in services.model_names]}


@router.get("/v1/models/{name:path}")
async def retrieve_model(name: str, request: Request, _: AuthenticatedCaller) -> Model:
    """Describe one name; it may contain slashes, like names on the Hugging Face hub."""
    services = services_of(request)
    return _model(services, services.check_model(name))


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
