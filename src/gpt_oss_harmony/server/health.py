"""``GET /health``, ``/ready`` and ``/metrics``, for operators; they need no key."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response
from typing_extensions import TypedDict  # pydantic needs that of Python 3.12

from .http.errors import ApiError, database_unavailable, shutting_down, without_addresses
from .services import services_of

__all__ = ["router"]

router = APIRouter(tags=["Operation"])


class HealthAnswer(TypedDict):
    """The health of the server, and how busy it is."""

    status: str
    model: str
    running: int
    waiting: int


async def _health(request: Request) -> HealthAnswer:
    services = services_of(request)
    health = await services.engine.health()
    if not health.ready:
        detail = without_addresses(health.detail) or "it gives no reason"
        problem = f"the engine is not ready: {detail}"
        raise ApiError(503, problem, kind="server_error", code="engine_unavailable", retry_after=1)
    return {
        "status": "ok",
        "model": services.model_names[0],
        "running": services.admission.running,
        "waiting": services.admission.waiting,
    }


@router.get("/health")
async def health(request: Request) -> HealthAnswer:
    """Return the health of the process and the engine; 503 if the engine is not ready."""
    return await _health(request)


@router.get("/ready")
async def ready(request: Request) -> HealthAnswer:
    """Return whether the server takes requests; 503 also during shutdown, or without database."""
    services = services_of(request)
    if services.admission.is_closed:
        raise shutting_down()
    if services.store.blocking.problem is not None:
        raise database_unavailable()
    return await _health(request)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Return the metrics, in the text format of Prometheus."""
    return Response(services_of(request).metrics.text(), media_type=CONTENT_TYPE_LATEST)
