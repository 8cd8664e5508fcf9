"""The state of the server for operators, who need no key, and what an API key has stored."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response
from typing_extensions import TypedDict  # pydantic needs that of Python 3.12

from .auth.api_keys import AuthenticatedCaller
from .http.errors import ApiError, database_unavailable, shutting_down, without_addresses
from .limited_route import LimitedRoute, PlainRoute
from .services import services_of

router = APIRouter(tags=["Operation"], route_class=PlainRoute)
usage_router = APIRouter(prefix="/v1/usage", tags=["Usage"], route_class=LimitedRoute)


class HealthAnswer(TypedDict):
    """The health of the server, and how busy it is."""

    status: str
    model: str
    running: int
    waiting: int


@router.get("/health")
async def health(request: Request) -> HealthAnswer:
    """Return the health of the process and the engine; 503 if the engine is not ready."""
    services = services_of(request)
    found = await services.engine.health()
    if not found.ready:
        detail = without_addresses(found.detail) or "it gives no reason"
        problem = f"the engine is not ready: {detail}"
        raise ApiError(503, problem, kind="server_error", code="engine_unavailable", retry_after=1)
    return {
        "status": "ok",
        "model": services.model_names[0],
        "running": services.admission.running,
        "waiting": services.admission.waiting,
    }


@router.get("/ready")
async def ready(request: Request) -> HealthAnswer:
    """Return whether the server takes requests; 503 also during shutdown, or without database."""
    services = services_of(request)
    if services.admission.is_closed:
        raise shutting_down()
    if services.store.blocking.problem is not None:
        raise database_unavailable()
    return await health(request)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Return the metrics, in the text format of Prometheus."""
    return Response(services_of(request).metrics.text(), media_type=CONTENT_TYPE_LATEST)


_KINDS = {
    "batches": "batches",
    "batch_results": "batches",
    "contents": "files",
    "files": "files",
    "uploads": "files",
    "container_files": "files",
    "containers": "files",
    "chat_completions": "chat_completions",
    "message_threads": "message_threads",
    "conversations": "conversations",
    "conversation_items": "conversations",
    "conversation_sessions": "conversations",
}


class StoredUsage(TypedDict):
    """The bytes of each kind; a response counts with its items and the state of its tools."""

    batches: int
    chat_completions: int
    conversations: int
    files: int
    message_threads: int
    responses: int


class Usage(TypedDict):
    """The stored bytes, their limit (null for none), and the bytes of each kind."""

    object: Literal["usage"]
    stored_bytes: int
    max_stored_bytes: int | None
    stored: StoredUsage


@usage_router.get("")
async def retrieve(request: Request, caller: AuthenticatedCaller) -> Usage:
    """Measure what the key has stored; the content of a file counts once."""
    services, owner = services_of(request), caller.owner
    tables = await services.store.run(owner, lambda store: store.quota.used(owner))
    stored: StoredUsage = dict.fromkeys(StoredUsage.__annotations__, 0)  # type: ignore[assignment]
    for table, size in tables.items():
        stored[_KINDS.get(table, "responses")] += size  # type: ignore[literal-required]
    return {
        "object": "usage",
        "stored_bytes": sum(tables.values()),
        "max_stored_bytes": services.settings.max_stored_bytes,
        "stored": stored,
    }
