"""The files of the page, as they stand in the package."""

from __future__ import annotations

import hashlib
from importlib import resources

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

__all__ = ["page_file", "start_page"]

_FOLDER = resources.files(__package__) / "page"

_MEDIA_TYPES = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}

_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


async def start_page(request: Request) -> Response:
    """Answer with the page."""
    return _answer(request, "index.html")


async def page_file(request: Request) -> Response:
    """Answer with the file that the path names."""
    return _answer(request, request.path_params["file"])


def _answer(request: Request, name: str) -> Response:
    media_type = _MEDIA_TYPES.get(name.rpartition(".")[2])
    # Only names that the folder lists are opened: a path that leads elsewhere is none of them.
    found = {file.name: file for file in _FOLDER.iterdir()} if media_type else {}
    if name not in found:
        return PlainTextResponse(f"the page has no file {name}\n", 404)
    content = found[name].read_bytes()
    headers = {**_HEADERS, "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'}
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)
