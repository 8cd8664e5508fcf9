"""Files that clients upload, whole or in parts, for their requests and for containers of code.

Clients that send ``anthropic-version`` get them in the form of Anthropic's API.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Request, UploadFile
from starlette.responses import Response

from ..apis.files import (
    CompleteUpload,
    DeletedFile,
    DeletedMessagesFile,
    File,
    MessagesFile,
    MessagesFiles,
    PartialUpload,
    Purpose,
    UploadBody,
    messages_file,
    openai_file,
    plain_name,
    upload_json,
)
from .auth.api_keys import AuthenticatedCaller
from .http.errors import ApiError, speaks_messages
from .http.json import ListPage, list_json
from .limited_route import LimitedRoute
from .repeated_requests import IdempotencyKey, stored_once
from .services import services_of
from .store import Order, Store, UploadedFile, new_id

router = APIRouter(prefix="/v1/files", tags=["Files"], route_class=LimitedRoute)

uploads_router = APIRouter(prefix="/v1/uploads", tags=["Files"], route_class=LimitedRoute)

CONTENT: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    }
}
"""A file in the OpenAPI document."""

# OpenAI's limit, and its default as well.
_MOST = 10_000  # of one page


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
        problem = "purpose: the field is missing; send user_data"
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
        files = [messages_file(file) for file in found.items]
        following = files[-1]["id"] if found.has_more else None
        return {"data": files, "has_more": found.has_more, "next_page": following}
    return list_json([openai_file(file) for file in found.items], has_more=found.has_more)


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


def _file_json(file: UploadedFile, request: Request) -> File | MessagesFile:
    return messages_file(file) if speaks_messages(request.scope) else openai_file(file)


# Uploads in parts

# OpenAI's API gives the same time.
_HOUR = 60 * 60  # in which an upload must be completed


@uploads_router.post("")
async def create_upload(
    body: UploadBody, request: Request, caller: AuthenticatedCaller
) -> dict[str, Any]:
    """Begin to upload a file in parts, for an hour."""
    services, now = services_of(request), int(time.time())
    name, expiry = plain_name(body.filename, "filename"), body.expires_after
    file = {
        "id": new_id("file-"),
        "purpose": body.purpose,
        "filename": name,
        "size": body.bytes,
        "created_at": now,
        "expires_at": services.settings.expires_at(now) if expiry is None else now + expiry.seconds,
    }
    upload = PartialUpload(new_id("upload"), caller.owner, now, now + _HOUR, "pending", file)
    await services.store.partial_uploads.add(upload)
    return upload_json(upload)


@uploads_router.post("/{upload_id}/parts")
async def add_part(
    upload_id: str, request: Request, caller: AuthenticatedCaller, data: UploadFile
) -> dict[str, Any]:
    """Upload a part; parts may come in any order, also at the same time."""
    owner, now, part = caller.owner, int(time.time()), await data.read()

    id, store = new_id("part"), services_of(request).store
    await store.partial_uploads.add_part(upload_id, owner, id, now, part)
    return {"id": id, "object": "upload.part", "created_at": now, "upload_id": upload_id}


@uploads_router.post("/{upload_id}/complete")
async def complete_upload(
    upload_id: str, body: CompleteUpload, request: Request, caller: AuthenticatedCaller
) -> dict[str, Any]:
    """Make the file of the parts; once it is made, return it again."""
    uploads = services_of(request).store.partial_uploads
    return upload_json(*await uploads.complete(upload_id, caller.owner, body.part_ids, body.md5))


@uploads_router.post("/{upload_id}/cancel")
async def cancel_upload(
    upload_id: str, request: Request, caller: AuthenticatedCaller
) -> dict[str, Any]:
    """End an upload without a file."""
    uploads = services_of(request).store.partial_uploads
    return upload_json(await uploads.end(upload_id, caller.owner))
