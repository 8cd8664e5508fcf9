"""The inspector over HTTP: the page at ``/``, its files and its API below ``/inspector``."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import resources
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from .. import __version__
from ..apis.request_body import RequestBody, read_body
from ..errors import HarmonyError
from ..web import RequestGuard
from .allowed import allowed
from .append import appended
from .comparison import comparison
from .export import exported
from .parse import parsing
from .rendering import rendering
from .wire import AllowedBody, AppendBody, ExportBody, InspectorError, ParseBody, RenderBody

__all__ = [
    "Admit",
    "Endpoint",
    "LiveModel",
    "Run",
    "admit_all",
    "create_inspector",
    "inspector_routes",
    "json_endpoint",
    "json_response",
    "page_file",
    "start_page",
]

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
    """Send the page."""
    return _file(request, "index.html")


async def page_file(request: Request) -> Response:
    """Send the file that the path names."""
    return _file(request, request.path_params["file"])


def _file(request: Request, name: str) -> Response:
    media_type = _MEDIA_TYPES.get(name.rpartition(".")[2])
    # Only listed names are opened, so that no path leads out of the folder.
    files = {file.name: file for file in _FOLDER.iterdir()} if media_type else {}
    if name not in files:
        return PlainTextResponse(f"the page has no file {name}\n", 404)
    content = files[name].read_bytes()
    headers = {**_HEADERS, "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'}
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)


MAX_BYTES = 16 * 1024 * 1024
MAX_VALUES = 500_000

_Body = TypeVar("_Body", bound=RequestBody)

Run: TypeAlias = "Callable[[Callable[[], Response]], Awaitable[Response]]"
"""Calls a function in a thread."""

Admit: TypeAlias = "Callable[[Request], AbstractAsyncContextManager[Run]]"
"""Lets a request in and out, and says where its work runs. Raises an error for a request that is
not allowed; the server that runs it handles the error."""

Endpoint: TypeAlias = "Callable[[Request], Awaitable[Response]]"


def json_endpoint(
    body: type[_Body], work: Callable[[_Body], Mapping[str, Any]], admit: Admit
) -> Endpoint:
    """Make an endpoint of a function, which runs in a thread and raises `HarmonyError`."""

    def respond(raw: bytes) -> Response:
        try:
            return json_response(work(read_body(body, _parsed(raw))))
        except HarmonyError as error:
            return _refused(InspectorError.of(error))

    async def endpoint(request: Request) -> Response:
        async with admit(request) as run:
            try:
                raw = await _received(request)
            except InspectorError as problem:
                return _refused(problem)
            except ClientDisconnect:  # nobody reads the answer
                return Response(status_code=499)
            return await run(lambda: respond(raw))

    return endpoint


def json_response(content: Mapping[str, Any], status: int = 200) -> Response:
    r"""Write JSON in ASCII, because texts may contain lone surrogates.

    >>> json_response({"text": chr(0xD83D)}).body
    b'{"text":"\\ud83d"}'
    """
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return Response(text, status, media_type="application/json")


def _refused(problem: InspectorError) -> Response:
    return json_response(problem.body(), problem.status)


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


def _parsed(raw: bytes) -> Any:
    def refuse(name: str) -> NoReturn:
        raise ValueError(f"there is no {name} in JSON")

    def finite(digits: str) -> float:
        number = float(digits)
        if math.isinf(number):
            raise ValueError(f"the number {digits:.20} is too large")
        return number

    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > MAX_VALUES:
        # No other thread runs while Python reads them: not in a second, where there are millions.
        raise InspectorError(413, f"the request holds more than {MAX_VALUES:,} values; send less")
    try:
        return json.loads(raw.decode(), parse_constant=refuse, parse_float=finite)
    except RecursionError:
        raise InspectorError(400, "the JSON is nested too deeply to be read; flatten it") from None
    except ValueError as error:  # not UTF-8, not JSON, or a number of too many digits
        raise InspectorError(400, f"the body is no JSON: {error}") from error


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
async def admit_all(request: Request) -> AsyncGenerator[Run, None]:
    """Let every request in; work runs in the threads of asyncio."""
    yield asyncio.to_thread


def inspector_routes(
    admit: Admit = admit_all, live: Callable[[Request], Awaitable[LiveModel]] | None = None
) -> list[BaseRoute]:
    """Return the routes of the inspector.

    `admit` lets the requests to the API in. `live` returns the model if the server also has the
    Completions API.
    """

    async def settings(request: Request) -> Response:
        model = None if live is None else await live(request)
        return json_response(
            {
                "version": __version__,
                "live": model is not None,
                "needs_key": model is not None and model.needs_key,
                "model": None if model is None else model.name,
            }
        )

    calls = {
        "render": json_endpoint(RenderBody, rendering, admit),
        "append": json_endpoint(AppendBody, appended, admit),
        "compare": json_endpoint(RenderBody, comparison, admit),
        "parse": json_endpoint(ParseBody, parsing, admit),
        "allowed": json_endpoint(AllowedBody, allowed, admit),
        "export": json_endpoint(ExportBody, exported, admit),
    }
    return [
        _Route("/", start_page),
        _Route("/inspector/api/settings", settings),
        *(_Route(f"/inspector/api/{name}", call, methods=["POST"]) for name, call in calls.items()),
        _Route("/inspector/{file}", page_file),
    ]


def create_inspector() -> Starlette:
    """Make the application; it answers this machine, and no pages of other sites."""
    guard = Middleware(
        RequestGuard,
        respond=lambda refusal, _: json_response(
            InspectorError(refusal.status, refusal.problem).body(), refusal.status
        ),
    )
    return Starlette(routes=inspector_routes(), middleware=[guard])
