"""Containers, in which the code of responses runs, and their files.

Each conversation has its own container, whose id answers cite. A client may also make a container,
put files into it, and name it in requests.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, UploadFile
from starlette.responses import Response

from ..apis.files import (
    ContainedFile,
    Container,
    ContainerRequest,
    DeletedContainedFile,
    DeletedContainer,
    plain_name,
)
from .auth.api_keys import AuthenticatedCaller
from .files import CONTENT, download
from .http.errors import ApiError
from .http.json import ListPage, list_json
from .limited_route import LimitedRoute
from .repeated_requests import IdempotencyKey, stored_once
from .services import services_of
from .store import ContainerFile, Order, Store, StoredContainer, UploadedFile, new_id

router = APIRouter(prefix="/v1/containers", tags=["Containers"], route_class=LimitedRoute)

_FOLDER = "/mnt/data/"
_MOST_BYTES = 64 << 20  # of the files that a client puts into a container


@router.post("")
async def create(
    body: ContainerRequest, request: Request, caller: AuthenticatedCaller, key: IdempotencyKey
) -> Container:
    """Make a container, with copies of files."""
    services, owner = services_of(request), caller.owner
    now = int(time.time())
    minutes = None if body.expires_after is None else body.expires_after.minutes
    container = StoredContainer(
        id=new_id("cntr"),
        owner=owner,
        name=body.name,
        created_at=now,
        last_active_at=now,
        idle_minutes=minutes,
        expires_at=services.settings.expires_at(now) if minutes is None else now + 60 * minutes,
    )
    copies = {id: new_id("cfile") for id in body.file_ids or ()}

    def store(rows: Store) -> StoredContainer:
        _check_room(sum(rows.uploads.get(id, owner).size for id in copies))
        rows.containers.add(container, copies)
        return container

    def find(rows: Store, id: str) -> StoredContainer:
        return rows.containers.get(id, owner)

    claims = partial(key.claims, body)
    return _container_json(await stored_once(services, owner, claims, container.id, store, find))


@router.get("")
async def list_containers(
    request: Request,
    caller: AuthenticatedCaller,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Order = "desc",
    name: str | None = None,
) -> ListPage[Container]:
    """List the containers that clients made or put files into."""
    containers = services_of(request).store.containers
    page = await containers.page(caller.owner, after=after, limit=limit, order=order, name=name)
    data = [_container_json(container) for container in page.items]
    return list_json(data, has_more=page.has_more)


@router.get("/{container_id}")
async def retrieve(container_id: str, request: Request, caller: AuthenticatedCaller) -> Container:
    """Describe a container."""
    containers = services_of(request).store.containers
    return _container_json(await containers.get(container_id, caller.owner))


@router.delete("/{container_id}")
async def delete(
    container_id: str, request: Request, caller: AuthenticatedCaller
) -> DeletedContainer:
    """Delete a container with its files."""
    await services_of(request).store.containers.delete(container_id, caller.owner)
    return {"id": container_id, "object": "container.deleted", "deleted": True}


@router.post("/{container_id}/files")
async def create_file(
    container_id: str,
    request: Request,
    caller: AuthenticatedCaller,
    key: IdempotencyKey,
    file: UploadFile | None = None,
    file_id: Annotated[str | None, Form()] = None,
) -> ContainedFile:
    """Put a file into a container, either one that is sent or a copy of an uploaded one.

    Code finds the file the next time that the container is used.
    """
    services, owner = services_of(request), caller.owner
    if (file is None) == (file_id is None):
        problem = "send either a file, as multipart/form-data, or a file_id"
        raise ApiError(400, problem, param="file", code="invalid_value")
    id = new_id("cfile")
    data = b"" if file is None else await file.read()
    name = "" if file is None else plain_name(file.filename)

    def store(rows: Store) -> ContainerFile:
        size = len(data) if file_id is None else rows.uploads.get(file_id, owner).size
        _check_room(size + sum(other.size for other in rows.containers.files(container_id, owner)))
        if file_id is not None:
            rows.containers.copy_file(container_id, owner, file_id, id)
        else:
            now = int(time.time())
            added = UploadedFile(id, owner, container_id, "", name, size, now, None)
            rows.containers.add_file(added, data)
        return rows.files.get(container_id, id, owner)

    def find(rows: Store, id: str) -> ContainerFile:
        return rows.files.get(container_id, id, owner)

    claims = partial(key.claims, file_id, name, data)
    return _file_json(await stored_once(services, owner, claims, id, store, find))


@router.get("/{container_id}/files")
async def list_files(
    container_id: str,
    request: Request,
    caller: AuthenticatedCaller,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Order = "desc",
) -> ListPage[ContainedFile]:
    """List the files of the code and of the client, except those of deleted responses."""
    store, owner = services_of(request).store, caller.owner
    page = await store.files.page(container_id, owner, after=after, limit=limit, order=order)
    if not page.items:  # of a container without files, not of another key's
        await store.containers.get(container_id, owner)
    return list_json([_file_json(file) for file in page.items], has_more=page.has_more)


@router.get("/{container_id}/files/{file_id}")
async def retrieve_file(
    container_id: str, file_id: str, request: Request, caller: AuthenticatedCaller
) -> ContainedFile:
    """Describe a file."""
    files = services_of(request).store.files
    return _file_json(await files.get(container_id, file_id, caller.owner))


@router.delete("/{container_id}/files/{file_id}")
async def delete_file(
    container_id: str, file_id: str, request: Request, caller: AuthenticatedCaller
) -> DeletedContainedFile:
    """Delete a file. Code that ran in the container keeps the copy in its folder."""
    containers = services_of(request).store.containers
    await containers.delete_file(container_id, caller.owner, file_id)
    return {"id": file_id, "object": "container.file.deleted", "deleted": True}


@router.get("/{container_id}/files/{file_id}/content", response_class=Response, responses=CONTENT)
async def content(
    container_id: str, file_id: str, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Download a file."""
    files, owner = services_of(request).store.files, caller.owner
    file = await files.get(container_id, file_id, owner)
    data = await files.data(container_id, file_id, owner)
    return download(file.path.rpartition("/")[2], data)


def _check_room(size: int) -> None:
    if size > _MOST_BYTES:
        problem = f"a container has room for {_MOST_BYTES:,} bytes of files; put in fewer"
        raise ApiError(400, problem, param="file", code="container_full")


def _container_json(container: StoredContainer) -> Container:
    minutes = container.idle_minutes
    return {
        "id": container.id,
        "object": "container",
        "created_at": container.created_at,
        "last_active_at": container.last_active_at,
        "name": container.name,
        "status": "running",
        "expires_after": (
            None if minutes is None else {"anchor": "last_active_at", "minutes": minutes}
        ),
    }


def _file_json(file: ContainerFile) -> ContainedFile:
    return {
        "id": file.id,
        "object": "container.file",
        "container_id": file.container_id,
        "created_at": file.created_at,
        "bytes": file.size,
        "path": f"{_FOLDER}{file.path}",
        "source": file.source,
    }
