"""The inspector as an application of its own."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from .routes import inspector_routes

__all__ = ["LOOPBACK_NAMES", "create_inspector"]

LOOPBACK_NAMES = ("127.0.0.1", "localhost")
"""What the header Host may say: a site that has its name point here does not come through."""


def create_inspector() -> Starlette:
    """Make the application; it answers requests to this machine's own names alone."""
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=LOOPBACK_NAMES, www_redirect=False)
    return Starlette(routes=inspector_routes(), middleware=[hosts])
