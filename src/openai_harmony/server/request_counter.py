"""Counts answers, by route and status."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .services import Services

__all__ = ["RequestCounter"]


class RequestCounter:
    """Stands around the application. Places that do not exist are counted as ``other``."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and count its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500  # of what is raised, which is answered further out

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            services: Services = scope["app"].state.services
            route = getattr(scope.get("route"), "path", "other")
            services.metrics.requests.labels(_method(scope), route, status).inc()


def _method(scope: Scope) -> str:
    """Name a method; others than these are whatever clients make up."""
    method: str = scope["method"]
    return method if method in _METHODS else "other"


_METHODS = {"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"}
