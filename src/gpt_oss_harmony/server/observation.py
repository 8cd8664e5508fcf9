"""The records of each request: its id, its count, its line in the log, its span."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .http.errors import speaks_messages
from .logs import CURRENT_REQUEST, LoggedRequest, request_id_of
from .unknown_fields import IGNORED_FIELDS, IGNORED_HEADER

if TYPE_CHECKING:
    from .services import Services

_LOG = logging.getLogger(__name__)

_METHODS = {"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"}  # clients invent others
_SWITCHED = 101
_CANCELLED = 499  # of those that nobody awaits any more
_FAILED = 500
_STARTS = {"http.response.start", "websocket.http.response.start", "websocket.accept"}
_PROBES = {"/health", "/ready", "/metrics"}  # requested every few seconds


class RequestObserver:
    """Middleware that gives each request an id and records its response.

    The id comes from the client's ``X-Request-Id``, or is a new one; the response has it, too. A
    WebSocket is one request, which ends when it is closed. Unknown routes are ``other``. Health
    checks are logged at the level ``DEBUG`` and have no span.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and record its response."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        services: Services = scope["app"].state.services
        is_socket = scope["type"] == "websocket"
        method = "GET" if is_socket else scope["method"]
        method = method if method in _METHODS else "other"
        headers = Headers(scope=scope)
        request_id = request_id_of(headers.get("x-request-id"))
        # Nothing resets it: outer middleware answers an unexpected error, in the same task.
        CURRENT_REQUEST.set(LoggedRequest(request_id))
        scope[IGNORED_FIELDS] = []
        status: int | None = None
        begun = time.perf_counter()

        async def observed_send(message: Message) -> None:
            nonlocal status
            kind = message["type"]
            if kind == "websocket.close" and status != _SWITCHED:
                status = 403  # what uvicorn answers where nothing was accepted
            elif kind in _STARTS:
                status = message.get("status", _SWITCHED)  # accepted WebSockets have none
                sent = MutableHeaders(scope=message)
                sent.update(_own_headers(scope, request_id, sent.get(IGNORED_HEADER)))
            await send(message)

        is_probe = scope["path"] in _PROBES
        telemetry = None if is_probe else services.telemetry
        opened = nullcontext() if telemetry is None else telemetry.request(method, scope, headers)
        with opened as span:
            if span is not None:
                CURRENT_REQUEST.set(LoggedRequest(request_id, span.trace_id))
            try:
                await self._app(scope, receive, observed_send)
            except asyncio.CancelledError:  # such as a request of a batch that was cancelled
                status = status or _CANCELLED
                raise
            finally:
                status = status or _FAILED  # an error was raised
                route = getattr(scope.get("route"), "path", "other")
                seconds = time.perf_counter() - begun
                if not is_socket:
                    services.metrics.requests.labels(method, route, status).inc()
                if span is not None:
                    span.answered(route, status, seconds)
                level = logging.DEBUG if is_probe else logging.INFO
                if _LOG.isEnabledFor(level):
                    fields = {"method": method, "route": route, "status": status}
                    fields["seconds"] = round(seconds, 6)
                    _LOG.log(level, "request", extra={"fields": fields})


def _own_headers(scope: Scope, request_id: str, inside: str | None) -> dict[str, str]:
    headers = {"X-Request-Id": request_id}
    if speaks_messages(scope):
        headers["Request-Id"] = request_id  # the name in Anthropic's API
    if ignored := scope[IGNORED_FIELDS]:
        headers[IGNORED_HEADER] = ", ".join([*ignored, *filter(None, [inside])])
    return headers
