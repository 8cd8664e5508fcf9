"""The inspector at ``/``: the page needs no key, and its API the same as all others."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import BaseRoute

from ..inspector import LiveModel, inspector_routes
from .keys.caller import known_caller
from .services import services_of

__all__ = ["inspector_page"]


def inspector_page() -> list[BaseRoute]:
    """Return the routes of the page and of its API."""
    return inspector_routes(known_caller, _live_model)


def _live_model(request: Request) -> LiveModel:
    services = services_of(request)
    return LiveModel(services.model_names[0], services.keys.are_needed)
