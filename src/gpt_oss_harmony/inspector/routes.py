"""The inspector over HTTP: the page at ``/``, its files and its API below ``/inspector``."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import resources
from typing import NamedTuple, TypeAlias

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope

from ..web import RequestGuard
from .calls import (
    CALLS,
    MADE_FILES,
    MAX_BYTES,
    answer,
    json_text,
    settings,
)
from .wire import InspectorError

_FOLDER = resources.files(__package__) / "page"

_MEDIA_TYPES = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "json": "application/json",
    "svg": "image/svg+xml",
}

_HEADERS = {
    # Browsers ask each time, and the ETag saves the transfer: a new version is seen at once.
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


async def start_page(request: Request) -> Response:
    """Send the page."""
    return _file(request, "index.html")


async def page_file(request: Request) -> Response:
    """Send the file that the path names."""
    return _file(request, request.path_params["file"])


def _file(request: Request, name: str) -> Response:
    media_type = _MEDIA_TYPES.get(name.rpartition(".")[2])
    # Only listed names are opened, so that no path leads out of the folder.
    files = {file.name: file for file in _FOLDER.iterdir()} if media_type else {}
    if name in MADE_FILES:
        content = MADE_FILES[name]().encode()
    elif name in files:
        content = files[name].read_bytes()
    else:
        return PlainTextResponse(f"the page has no file {name}\n", 404)
    headers = {**_HEADERS, "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'}
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)


Run: TypeAlias = "Callable[[Callable[[], Response]], Awaitable[Response]]"
"""Calls a function in a thread."""

Admit: TypeAlias = "Callable[[Request], AbstractAsyncContextManager[tuple[Run, Receive]]]"
"""Lets a request in and out, and says where its work runs and what receives its body. Raises an
error for a request that is not allowed; the server that runs it handles the error."""

Endpoint: TypeAlias = "Callable[[Request], Awaitable[Response]]"


def call_endpoint(name: str, admit: Admit) -> Endpoint:
    """Make an endpoint of a call, which runs in a thread."""

    async def endpoint(request: Request) -> Response:
        async with admit(request) as (run, receive):
            try:
                raw = await _received(Request(request.scope, receive))
            except InspectorError as problem:
                return _refused(problem)
            except ClientDisconnect:  # nobody reads the answer
                return Response(status_code=499)
            return await run(lambda: _json_response(*answer(name, raw)))

    return endpoint


def _json_response(status: int, text: str) -> Response:
    return Response(text, status, media_type="application/json")


def _refused(problem: InspectorError) -> Response:
    return _json_response(problem.status, json_text(problem.body()))


async def _received(request: Request) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # Pages of other sites can send all other types without permission.
        raise InspectorError(415, "send JSON, with the header Content-Type: application/json")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BYTES:
            raise InspectorError(413, f"the request is larger than {MAX_BYTES:,} bytes; send less")
    return bytes(body)


class LiveModel(NamedTuple):
    """The model of the same server; `needs_key` says whether its API needs a key."""

    name: str
    needs_key: bool


class _Route(Route):
    """A route that FastAPI can name: its router does so only for its own routes."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match as every route does, and add this route to the scope."""
        match, child_scope = super().matches(scope)
        return match, {**child_scope, "route": self}


@asynccontextmanager
async def admit_all(request: Request) -> AsyncGenerator[tuple[Run, Receive], None]:
    """Let every request in; work runs in the threads of asyncio."""
    yield asyncio.to_thread, request.receive


def inspector_routes(
    admit: Admit = admit_all, live: Callable[[Request], Awaitable[LiveModel]] | None = None
) -> list[BaseRoute]:
    """Return the routes of the inspector.

    `admit` lets the requests to the API in. `live` returns the model if the server also has the
    Completions API.
    """

    async def settings_of(request: Request) -> Response:
        model = None if live is None else await live(request)
        described = settings() if model is None else settings(model.name, needs_key=model.needs_key)
        return _json_response(200, json_text(described))

    calls = {name: call_endpoint(name, admit) for name in CALLS}
    return [
        _Route("/", start_page),
        _Route("/inspector/api/settings", settings_of),
        *(_Route(f"/inspector/api/{name}", call, methods=["POST"]) for name, call in calls.items()),
        _Route("/inspector/{file}", page_file),
    ]


def create_inspector() -> Starlette:
    """Make the application; it answers this machine, and no pages of other sites."""
    guard = Middleware(
        RequestGuard,
        respond=lambda refusal, _: _refused(InspectorError(refusal.status, refusal.problem)),
    )
    return Starlette(routes=inspector_routes(), middleware=[guard])
