"""``GET /health``, ``/ready`` and ``/metrics``, for whoever runs the server; they need no key."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response
from typing_extensions import TypedDict  # of Python 3.12, which tells pydantic more

from .admission import shutting_down
from .api_error import ApiError
from .services import Services, services_of

__all__ = ["router"]

router = APIRouter(tags=["Operation"])


class HealthAnswer(TypedDict):
    """That the server is well, and how busy it is."""

    status: str
    model: str
    running: int
    waiting: int


@router.get("/health")
async def health(request: Request) -> HealthAnswer:
    """Tell that the process and the engine answer; 503 where the engine does not."""
    return await _health(services_of(request))


@router.get("/ready")
async def ready(request: Request) -> HealthAnswer:
    """Tell that requests are welcome; 503 also when the server is shutting down."""
    services = services_of(request)
    if services.admission.is_closed:
        raise shutting_down()
    return await _health(services)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Tell what was counted and measured, in the text format of Prometheus."""
    return Response(services_of(request).metrics.text(), media_type=CONTENT_TYPE_LATEST)


async def _health(services: Services) -> HealthAnswer:
    found = await services.engine.health()
    if not found.ready:
        problem = f"the engine is not ready: {found.detail or 'it says no reason'}"
        raise ApiError(503, problem, kind="server_error", code="engine_unavailable", retry_after=1)
    admission = services.admission
    return {
        "status": "ok",
        "model": services.model_names[0],
        "running": admission.running,
        "waiting": admission.waiting,
    }
