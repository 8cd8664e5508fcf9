"""Containers: the files that code has written in responses, by the ids that answers cite."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response
from typing_extensions import TypedDict  # of Python 3.12, which tells pydantic more

from .auth.api_keys import AuthenticatedCaller
from .limited_route import LimitedRoute
from .services import services_of
from .store import ContainerFile, Order

__all__ = ["router"]

router = APIRouter(prefix="/v1/containers", tags=["Containers"], route_class=LimitedRoute)

_FOLDER = "/mnt/data/"

_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    }
}


class File(TypedDict):
    """A file; `created_at` in seconds since 1970, `bytes` its size."""

    id: str
    object: Literal["container.file"]
    container_id: str
    created_at: int
    bytes: int
    path: str
    source: Literal["assistant"]


class FileList(TypedDict):
    """A page of files; `first_id` and `last_id` are those of `data`."""

    object: Literal["list"]
    data: list[File]
    first_id: str | None
    last_id: str | None
    has_more: bool


@router.get("/{container_id}/files")
async def list_files(
    container_id: str,
    request: Request,
    caller: AuthenticatedCaller,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Order = "desc",
) -> FileList:
    """List the files that code has written; those of deleted responses are gone."""
    services, owner = services_of(request), caller.owner
    page = await services.pools.store.run(
        owner,
        services.store.files.page,
        container_id,
        owner,
        after=after,
        limit=limit,
        order=order,
    )
    data = [_file_json(file) for file in page.files]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": page.has_more,
    }


@router.get("/{container_id}/files/{file_id}")
async def retrieve(
    container_id: str, file_id: str, request: Request, caller: AuthenticatedCaller
) -> File:
    """Read about a file."""
    services, owner = services_of(request), caller.owner
    get = services.store.files.get
    return _file_json(await services.pools.store.run(owner, get, container_id, file_id, owner))


@router.get("/{container_id}/files/{file_id}/content", response_class=Response, responses=_CONTENT)
async def content(
    container_id: str, file_id: str, request: Request, caller: AuthenticatedCaller
) -> Response:
    """Read a file. Its type is left out, so that no browser shows a file of a model."""
    services, owner = services_of(request), caller.owner
    files, pool = services.store.files, services.pools.store
    file = await pool.run(owner, files.get, container_id, file_id, owner)
    data = await pool.run(owner, files.data, container_id, file_id, owner)
    name = quote(file.path.rpartition("/")[2])
    return Response(
        data,
        media_type="application/octet-stream",
        headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
            "X-Content-Type-Options": "nosniff",
        },
    )


def _file_json(file: ContainerFile) -> File:
    return {
        "id": file.id,
        "object": "container.file",
        "container_id": file.container_id,
        "created_at": file.created_at,
        "bytes": file.size,
        "path": f"{_FOLDER}{file.path}",
        "source": "assistant",
    }
