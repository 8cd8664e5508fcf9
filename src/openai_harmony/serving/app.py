"""The server as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from ..engines.engine import Engine
from .error_answers import add_error_answers
from .request_size import RequestSizeLimit
from .services import Services
from .settings import Settings

__all__ = ["create_app"]


def create_app(engine: Engine, settings: Settings | None = None) -> FastAPI:
    """Make the application; the engine stays the caller's, to be closed after it."""
    settings = settings or Settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
        app.state.services = Services(engine, settings)
        yield

    app = FastAPI(title="Harmony", lifespan=lifespan)
    app.add_middleware(RequestSizeLimit, limit=settings.max_request_bytes)
    add_error_answers(app)
    return app
