"""Files that clients upload: for their requests, and for the containers of code.

Clients that send ``anthropic-version`` get them in the form of Anthropic's API.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone
from functools import partial
from mimetypes import guess_type
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Request, UploadFile
from starlette.responses import Response
from typing_extensions import TypedDict  # pydantic needs that of Python 3.12

from .auth.api_keys import AuthenticatedCaller
from .http.errors import ApiError, speaks_messages
from .http.json import ListPage, list_json
from .limited_route import LimitedRoute
from .repeated_requests import IdempotencyKey, stored_once
from .services import services_of
from .store import Order, Store, UploadedFile, new_id

__all__ = ["CONTENT", "download", "plain_name", "router"]

router = APIRouter(prefix="/v1/files", tags=["Files"], route_class=LimitedRoute)

CONTENT: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    }
}
"""A file in the OpenAPI document."""

_MOST = 10_000  # of one page
_LONGEST_NAME = 255

Purpose: TypeAlias = Literal["assistants", "batch", "evals", "fine-tune", "user_data", "vision"]


class File(TypedDict):
    """A file; times in seconds since 1970, `bytes` its size."""

    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: Literal["processed"]


class DeletedFile(TypedDict):
    """The id of a deleted file."""

    id: str
    object: Literal["file"]
    deleted: Literal[True]


class MessagesFile(TypedDict):
    """A file in Anthropic's form."""

    id: str
    type: Literal["file"]
    filename: str
    mime_type: str
    size_bytes: int
    created_at: str
    expires_at: str | None
    downloadable: bool


class DeletedMessagesFile(TypedDict):
    """The id of a deleted file in Anthropic's form."""

    id: str
    type: Literal["file_deleted"]


class MessagesFiles(TypedDict):
    """A page of files in Anthropic's form."""

    data: list[MessagesFile]
    has_more: bool
    next_page: str | None


@router.post("")
async def create(
    request: Request,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    file: UploadFile,
    purpose: Annotated[Purpose | None, Form()] = None,
    anchor: Annotated[Literal["created_at"] | None, Form(alias="expires_after[anchor]")] = None,
    seconds: Annotated[
        int | None, Form(alias="expires_after[seconds]", ge=3600, le=2_592_000)
    ] = None,
    expires_in_seconds: Annotated[int | None, Form(ge=3600, le=2_592_000)] = None,
) -> File | MessagesFile:
    """Upload a file. Without `expires_after`, it is kept as long as responses are."""
    services, owner = services_of(request), caller.owner
    if purpose is None and not speaks_messages(request.scope):
        problem = "purpose: Field required; send user_data"
        raise ApiError(400, problem, param="purpose", code="missing_required_parameter")
    purpose = purpose or "user_data"
    if (anchor is None) != (seconds is None):
        problem = "expires_after needs an anchor and seconds; send both, or leave both out"
        raise ApiError(400, problem, param="expires_after", code="invalid_value")
    seconds = expires_in_seconds if seconds is None else seconds  # the name in Anthropic's API
    now = int(time.time())
    data = await file.read()
    uploaded = UploadedFile(
        id=new_id("file-"),
        owner=owner,
        container_id=None,
        purpose=purpose,
        filename=plain_name(file.filename),
        size=len(data),
        created_at=now,
        expires_at=services.settings.expires_at(now) if seconds is None else now + seconds,
    )
    claims = partial(key.claims, uploaded.filename, purpose, seconds, data)

    def store(rows: Store) -> UploadedFile:
        rows.uploads.add(uploaded, data)
        return uploaded

    def find(rows: Store, id: str) -> UploadedFile:
        return rows.uploads.get(id, owner)

    stored = await stored_once(services, owner, claims, uploaded.id, store, find)
    return _file_json(stored, request)


@router.get("")
async def list_files(
    request: Request,
    caller: AuthenticatedCaller,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=_MOST)] = _MOST,
    order: Order = "desc",
    purpose: str | None = None,
    page: str | None = None,
) -> ListPage[File] | MessagesFiles:
    """List the files, except those of containers. `page` is Anthropic's name for `after`."""
    services, owner = services_of(request), caller.owner
    uploads, after = services.store.uploads, after or page
    found = await uploads.page(owner, after=after, limit=limit, order=order, purpose=purpose)
    if speaks_messages(request.scope):
        files = [_messages_file(file) for file in found.items]
        following = files[-1]["id"] if found.has_more else None
        return {"data": files, "has_more": found.has_more, "next_page": following}
    return list_json([_openai_file(file) for file in found.items], has_more=found.has_more)


@router.get("/{file_id}")
async def retrieve(
    file_id: str, request: Request, caller: AuthenticatedCaller
) -> File | MessagesFile:
    """Describe a file."""
    file = await services_of(request).store.uploads.get(file_id, caller.owner)
    return _file_json(file, request)


@router.delete("/{file_id}")
async def delete(
    file_id: str, request: Request, caller: AuthenticatedCaller
) -> DeletedFile | DeletedMessagesFile:
    """Delete a file; copies in containers and the text in stored requests stay."""
    await services_of(request).store.uploads.delete(file_id, caller.owner)
    if speaks_messages(request.scope):
        return {"id": file_id, "type": "file_deleted"}
    return {"id": file_id, "object": "file", "deleted": True}


@router.get("/{file_id}/content", response_class=Response, responses=CONTENT)
async def content(file_id: str, request: Request, caller: AuthenticatedCaller) -> Response:
    """Download a file."""
    uploads, owner = services_of(request).store.uploads, caller.owner
    file = await uploads.get(file_id, owner)
    return download(file.filename, await uploads.data(file_id, owner))


def download(name: str, data: bytes) -> Response:
    """Send a file without its type, so that no browser shows it in the origin of the page."""
    return Response(
        data,
        media_type="application/octet-stream",
        headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}",
            "X-Content-Type-Options": "nosniff",
        },
    )


def plain_name(name: str | None) -> str:
    """Return the last part of a path that a client sent as the name of a file.

    >>> plain_name("C:\\\\data\\\\sales.csv")
    'sales.csv'
    """
    plain = (name or "").replace("\\", "/").rpartition("/")[2]
    if not plain or plain in (".", "..") or not plain.isprintable() or len(plain) > _LONGEST_NAME:
        problem = f"a file needs a name of up to {_LONGEST_NAME} printable characters"
        raise ApiError(400, problem, param="file", code="invalid_value")
    return plain


def _file_json(file: UploadedFile, request: Request) -> File | MessagesFile:
    return _messages_file(file) if speaks_messages(request.scope) else _openai_file(file)


def _messages_file(file: UploadedFile) -> MessagesFile:
    return {
        "id": file.id,
        "type": "file",
        "filename": file.filename,
        "mime_type": guess_type(file.filename)[0] or "application/octet-stream",
        "size_bytes": file.size,
        "created_at": _date_of(file.created_at),
        "expires_at": None if file.expires_at is None else _date_of(file.expires_at),
        "downloadable": True,
    }


def _date_of(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()


def _openai_file(file: UploadedFile) -> File:
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size,
        "created_at": file.created_at,
        "expires_at": file.expires_at,
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
    }
