"""What an API key has stored on this server, and its limit."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from typing_extensions import TypedDict  # pydantic needs that of Python 3.12

from .auth.api_keys import AuthenticatedCaller
from .limited_route import LimitedRoute
from .services import services_of

__all__ = ["router"]

router = APIRouter(prefix="/v1/usage", tags=["Usage"], route_class=LimitedRoute)

_KINDS = {
    "contents": "files",
    "files": "files",
    "container_files": "files",
    "containers": "files",
    "chat_completions": "chat_completions",
    "conversations": "conversations",
    "conversation_items": "conversations",
    "conversation_sessions": "conversations",
}


class StoredUsage(TypedDict):
    """The bytes of each kind; a response counts with its items and the state of its tools."""

    chat_completions: int
    conversations: int
    files: int
    responses: int


class Usage(TypedDict):
    """The stored bytes, their limit (null for none), and the bytes of each kind."""

    object: Literal["usage"]
    stored_bytes: int
    max_stored_bytes: int | None
    stored: StoredUsage


@router.get("")
async def retrieve(request: Request, caller: AuthenticatedCaller) -> Usage:
    """Measure what the key has stored; the content of a file counts once."""
    services, owner = services_of(request), caller.owner
    tables = await services.store.run(owner, lambda store: store.quota.used(owner))
    stored: StoredUsage = {"chat_completions": 0, "conversations": 0, "files": 0, "responses": 0}
    for table, size in tables.items():
        stored[_KINDS.get(table, "responses")] += size  # type: ignore[literal-required]
    return {
        "object": "usage",
        "stored_bytes": sum(tables.values()),
        "max_stored_bytes": services.settings.max_stored_bytes,
        "stored": stored,
    }
