"""The inspector as routes: the page at ``/``, its files and its API below ``/inspector``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from .. import __version__
from .allowed import allowed
from .compare import comparison
from .export import exported
from .json_endpoint import Guard, json_answer, json_endpoint
from .page_files import page_file, start_page
from .parse import parsing
from .render import rendering
from .wire import AllowedBody, ExportBody, ParseBody, RenderBody

__all__ = ["LiveModel", "inspector_routes"]


class LiveModel(NamedTuple):
    """The model that the same server samples from, and whether its API wants a key."""

    name: str
    needs_key: bool


class _Route(Route):
    """A route that says that it was taken: FastAPI's router says so only of its own."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match as every route does, and leave itself in the scope."""
        match, found = super().matches(scope)
        return match, {**found, "route": self}


def inspector_routes(
    guard: Guard | None = None, live: Callable[[Request], LiveModel] | None = None
) -> list[BaseRoute]:
    """Return the routes of the inspector.

    `guard` is given each request to the API, and raises where the caller is unknown. `live` tells
    of the model where the server has the Completions API, too; it is called in a thread.
    """

    async def settings(request: Request) -> Response:
        model = None if live is None else await asyncio.to_thread(live, request)
        return json_answer(
            {
                "version": __version__,
                "live": model is not None,
                "needs_key": model is not None and model.needs_key,
                "model": None if model is None else model.name,
            }
        )

    calls = {
        "render": json_endpoint(RenderBody, rendering, guard),
        "compare": json_endpoint(RenderBody, comparison, guard),
        "parse": json_endpoint(ParseBody, parsing, guard),
        "allowed": json_endpoint(AllowedBody, allowed, guard),
        "export": json_endpoint(ExportBody, exported, guard),
    }
    return [
        _Route("/", start_page),
        _Route("/inspector/api/settings", settings),
        *(_Route(f"/inspector/api/{name}", call, methods=["POST"]) for name, call in calls.items()),
        _Route("/inspector/{file}", page_file),
    ]
