"""The server as an ASGI application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from ..engines.engine import Engine
from ..tools.tool import Tool
from .admission import shutting_down
from .answers.disconnect import cancel_all
from .answers.errors import ERROR_ANSWERS, add_error_answers
from .chat.routes import router as chat_router
from .completions.routes import router as completions_router
from .containers.routes import router as containers_router
from .conversations.routes import router as conversations_router
from .health_routes import router as health_router
from .inspector_page import inspector_page
from .models_routes import router as models_router
from .request_counter import RequestCounter
from .request_size import RequestSizeLimit
from .responses.routes import router as responses_router
from .responses.websocket import router as websocket_router
from .sealed_reasoning import ReasoningSeal
from .services import Services
from .settings import Settings
from .store import Store, StoreError
from .tokens.routes import router as tokens_router

__all__ = ["create_app"]

_LOG = logging.getLogger(__name__)

_UPKEEP = 60  # seconds


def create_app(
    engine: Engine, settings: Settings | None = None, tools: Sequence[Tool[Any]] = ()
) -> FastAPI:
    """Make the application; engine and tools stay the caller's, to be closed after it.

    Of the tools, `browser`, `python` and those of MCP servers are run for the requests that want
    them.
    """
    settings = settings or Settings()
    own = {tool.namespace.name: tool for tool in tools}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
        with await asyncio.to_thread(Store, settings.database) as store:
            await asyncio.to_thread(store.start_serving)
            services = app.state.services = Services(engine, settings, store, _seal(settings), own)
            upkeep = asyncio.ensure_future(_maintain(store))
            yield
            await services.runs.end_all(shutting_down())
            await cancel_all(upkeep)

    app = FastAPI(title="Harmony", lifespan=lifespan, responses=ERROR_ANSWERS)
    app.add_middleware(RequestSizeLimit, limit=settings.max_request_bytes)
    add_error_answers(app)
    app.add_middleware(RequestCounter)
    app.include_router(chat_router)
    app.include_router(completions_router)
    app.include_router(tokens_router)
    app.include_router(models_router)
    app.include_router(health_router)
    app.include_router(responses_router)
    app.include_router(websocket_router)
    app.include_router(conversations_router)
    app.include_router(containers_router)
    if settings.inspector:
        app.router.routes.extend(inspector_page())
    return app


def _seal(settings: Settings) -> ReasoningSeal:
    path = settings.key_file
    return ReasoningSeal.with_new_key() if path is None else ReasoningSeal.from_file(path)


async def _maintain(store: Store) -> None:
    """Do what the store needs now and then."""
    while True:
        await asyncio.sleep(_UPKEEP)
        try:
            await asyncio.to_thread(store.maintain)
        except StoreError:
            _LOG.exception("the upkeep of the store failed; it is tried again")
