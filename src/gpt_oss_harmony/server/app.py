"""The server as an ASGI application, and a loop that serves it until a signal ends it."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import gc
import logging
import socket
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import APIRouter, FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope

from ..encoding import load_harmony_encoding
from ..engines.engine import Engine
from ..grammar.token_table import build_tables
from ..inspector import LiveModel, Run, inspector_routes
from ..tools.tool import Tool
from ..web import HttpConfig, Refusal, RequestGuard, RequestTimes, cors_options
from .admission import Admission
from .auth.api_keys import RECHECK_SECONDS, ApiKeys
from .auth.limits import KeyLimiter, Quota, SharedKeyLimiter
from .batches import BatchRunner
from .batches import messages_router as messages_batches_router
from .batches import router as batches_router
from .chat import router as chat_router
from .chat import stored_router as stored_chat_router
from .completions import router as completions_router
from .containers import router as containers_router
from .conversations import router as conversations_router
from .encryption import ItemCipher
from .fair_turns import FairSemaphore, Pools
from .file_texts import FileTexts
from .files import router as files_router
from .files import uploads_router
from .http.errors import (
    ERROR_RESPONSES,
    ApiError,
    add_error_handlers,
    error_response,
    shutting_down,
)
from .http.requests import DecodedBodies, RequestSizeLimit, cancel_all
from .limited_route import counted_body, in_pool
from .live_responses import LiveResponses, answer_peer
from .messages import router as messages_router
from .metrics import Metrics
from .models import router as models_router
from .observation import RequestObserver
from .ollama import router as ollama_router
from .peers import Peers, PostgresChannel
from .responses.routes import router as responses_router
from .responses.websocket import router as websocket_router
from .services import Services, services_of
from .settings import Settings
from .status import router as status_router
from .status import usage_router
from .store import CHECK_SECONDS, Store, StoreError
from .stored import AsyncStore
from .tokens import plain_router as plain_tokens_router
from .tokens import router as tokens_router
from .unknown_fields import UnknownFields

if TYPE_CHECKING:
    from .telemetry import Telemetry

_LOG = logging.getLogger(__name__)

_C_LIBRARY = ctypes.CDLL(None) if sys.platform == "linux" else None
_MAINTENANCE_INTERVAL = 60  # seconds
_UPKEEP_PATIENCE = 5  # seconds, at the end
_CLOSING_SECONDS = 5  # in which clients can read that their request was cancelled
_SWITCH_INTERVAL = 0.001  # seconds that a thread may keep the event loop waiting
# Python collects after 5,000 new objects; after four times that, it also looks at those that were
# left, and by itself it never looks at all objects. It stops all threads, for some 0.5 ms for each
# thousand objects, and a chat of 20,000 messages has a million. With Python's own 700 objects,
# collecting took a tenth of a stream's time.
_GARBAGE = (5_000, 4, 2**31 - 1)
_LONG_COLLECTION = 0.1  # seconds, after which the next collections of all objects are left out
_LEFT_OUT = 9
_LARGE_REQUESTS = 8  # of the largest size that one key may have at a time
_DECODED_REQUESTS = 2  # of the largest size, which cost their client almost nothing
_LARGE_ANSWERS = 32  # of the largest size of a request, which clients of a key have not read
_SOCKETS = 256  # the most open WebSockets of one key
_LARGE_MESSAGES = 4  # of WebSockets, which are read at a time, each of another key
_BACKLOG = 2048  # connections that wait to be accepted
_SIGNAL_INTERVAL = 0.1  # seconds between checks for a second signal


def check_storage(settings: Settings) -> bool:
    """Check that the database and the keys can be used; return whether there is an API key.

    Raises `HarmonyError` if they cannot be used, for example if another server has the database.
    """
    with Store(settings.database) as store:
        store.start_serving()
        if settings.key_file is not None:
            ItemCipher.from_file(settings.key_file)
        return ApiKeys(store.keys, settings.api_keys).are_needed


def create_app(
    engine: Engine,
    settings: Settings | None = None,
    tools: Sequence[Tool[Any]] = (),
    *,
    telemetry: Telemetry | None = None,
) -> FastAPI:
    """Make the ASGI application.

    The server runs the `tools` (`browser`, `python` and those of MCP servers) for requests that
    name them. The caller closes the engine and the tools after the application.
    """
    settings = settings or Settings()
    by_name = {tool.namespace.name: tool for tool in tools}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
        limit = settings.max_stored_bytes
        opening = asyncio.to_thread(Store, settings.database, max_stored_bytes=limit)
        with await opening as store:
            await asyncio.to_thread(store.start_serving)
            path = settings.key_file
            cipher = ItemCipher.with_new_key() if path is None else ItemCipher.from_file(path)
            services = _services(engine, settings, store, cipher, by_name, telemetry)
            app.state.services = services
            store.quota.on_refusal = services.metrics.storage_refusals.inc
            await asyncio.to_thread(_prepare_tables, grammar=settings.grammar)
            await asyncio.to_thread(_measure_database, services)
            await services.peers.open()
            upkeep = [
                asyncio.ensure_future(_repeat(partial(_maintain, services), _MAINTENANCE_INTERVAL)),
                asyncio.ensure_future(_repeat(MemoryKeeper().keep, _MAINTENANCE_INTERVAL)),
                asyncio.ensure_future(_repeat(partial(_serve_on, services), CHECK_SECONDS)),
                asyncio.ensure_future(_repeat(services.keys.check_recent, RECHECK_SECONDS)),
                asyncio.ensure_future(BatchRunner(app, services).run()),
            ]
            yield
            # Another ASGI server does not call `Services.shut_down` before this.
            await services.live_responses.end_all(shutting_down())
            await services.peers.close()
            await cancel_all(*upkeep)
            await asyncio.to_thread(services.pools.close)

    app = FastAPI(
        title="Harmony",
        lifespan=lifespan,
        responses=ERROR_RESPONSES,
        # These pages would run scripts of another site in an origin whose page stores API keys.
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(DecodedBodies, limit=settings.max_request_bytes)
    app.add_middleware(RequestSizeLimit, limit=settings.max_request_bytes)
    add_error_handlers(app)
    if settings.allowed_origins:
        app.add_middleware(CORSMiddleware, **cors_options(settings.allowed_origins))
    app.add_middleware(
        RequestGuard,
        respond=_refused,
        needs_key=_needs_key,
        allowed_hosts=settings.allowed_hosts,
        allowed_origins=settings.allowed_origins,
        is_open=settings.open_to_everyone,
    )
    # What is added last runs first, so it also observes the requests that the others refuse.
    app.add_middleware(RequestObserver)
    app.router.routes.extend(_api_routes())
    # Newer releases of FastAPI show no paths of included routers.
    app.state.paths = [getattr(one, "path", "") for each in _ROUTERS for one in each.routes]
    if settings.inspector:
        # The page itself needs no key; its API needs the same key as all others.
        app.router.routes.extend(inspector_routes(_admit, _live_model))
    return app


def _services(
    engine: Engine,
    settings: Settings,
    store: Store,
    cipher: ItemCipher,
    tools: Mapping[str, Tool[Any]],
    telemetry: Telemetry | None,
) -> Services:
    """Make what the routes share."""
    names = settings.model_names or (engine.model,)
    metrics = Metrics(names[0] if settings.vllm_metrics else None)
    pools, live_responses = Pools(), LiveResponses()
    url = store.postgres_url
    channel = None if url is None else PostgresChannel(url, store.server_id)
    # Through a channel are other servers, which may get requests with the same keys.
    shared = channel is not None
    async_store = AsyncStore(store, pools.store)
    return Services(
        engine=engine,
        settings=settings,
        store=async_store,
        cipher=cipher,
        tools=tools,
        keys=ApiKeys(store.keys, settings.api_keys),
        pools=pools,
        limiter=SharedKeyLimiter(store.key_requests, pools.keys) if shared else KeyLimiter(),
        admission=Admission(settings.max_running, settings.max_waiting),
        live_responses=live_responses,
        file_texts=FileTexts(
            async_store, pools.encoding, refuses_others=settings.attachments == "refuse"
        ),
        peers=Peers(store.server_id, channel, partial(answer_peer, live_responses)),
        metrics=metrics,
        unknown_fields=UnknownFields(
            metrics,
            settings.unknown_fields,
            refuses_tools=settings.missing_tools == "refuse",
        ),
        request_bytes=Quota(_LARGE_REQUESTS * settings.max_request_bytes, "bytes of requests"),
        decoded_bytes=Quota(
            _DECODED_REQUESTS * settings.max_request_bytes, "bytes of compressed requests, unpacked"
        ),
        answer_bytes=Quota(
            _LARGE_ANSWERS * settings.max_request_bytes, "bytes of answers that are not read"
        ),
        sockets=Quota(_SOCKETS, "WebSockets"),
        large_messages=FairSemaphore(_LARGE_MESSAGES, lambda owner: 1),
        telemetry=telemetry,
    )


_ROUTERS = (  # the first are found fastest
    chat_router,
    completions_router,
    messages_router,
    responses_router,
    websocket_router,
    stored_chat_router,
    tokens_router,
    plain_tokens_router,
    models_router,
    ollama_router,
    status_router,
    conversations_router,
    containers_router,
    files_router,
    uploads_router,
    batches_router,
    messages_batches_router,
    usage_router,
)


@functools.cache
def _api_routes() -> list[BaseRoute]:
    """Return the routes of the APIs; their models are built once for all applications."""
    api = APIRouter(responses=ERROR_RESPONSES)
    for router in _ROUTERS:
        api.include_router(router)
    return api.routes


def _prepare_tables(*, grammar: bool) -> None:
    """Build tables that take long; during a request, this would block all threads."""
    if grammar:
        build_tables()
    else:
        load_harmony_encoding("HarmonyGptOss").encode("é")


def _maintain(services: Services) -> None:
    services.store.blocking.maintain()
    _measure_database(services)


def _measure_database(services: Services) -> None:
    services.metrics.database_bytes.set(services.store.blocking.size())


def _serve_on(services: Services) -> None:
    """Keep the lease, and end in the database what ended while it was away."""
    store = services.store.blocking
    store.start_serving()
    services.live_responses.reconcile(store.responses)


async def _repeat(upkeep: Callable[[], object], seconds: float) -> None:
    """Maintain the store periodically; when this is cancelled, wait a while for what runs.

    A thread that went on would use the database after it was closed, by a connection of its own.
    """
    while True:
        await asyncio.sleep(seconds)
        work = asyncio.ensure_future(asyncio.to_thread(upkeep))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait({work}, timeout=_UPKEEP_PATIENCE)
            raise
        except StoreError:
            _LOG.debug("the maintenance of the store failed; it will be tried again")
        except Exception:  # noqa: BLE001 - it is logged
            # Without it, nothing would end that ended while the database was away.
            _LOG.exception("the maintenance of the server failed; it will be tried again")


class MemoryKeeper:
    """Collects garbage among all objects, and returns freed memory to the system."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._left_out = 0  # collections

    def keep(self) -> None:
        """Collect where `run_server` keeps Python from it; after a long collection, leave some out.

        It takes long if the server is in the midst of large requests.
        """
        if self._left_out:
            self._left_out -= 1
        elif gc.get_threshold() == _GARBAGE:
            began = self._clock()
            gc.collect()
            self._left_out = _LEFT_OUT if self._clock() - began > _LONG_COLLECTION else 0
        # The C library keeps what its threads have freed: some 100 MiB after a hundred streams.
        trim = getattr(_C_LIBRARY, "malloc_trim", None)  # of glibc
        if trim is not None:
            trim(0)


def _refused(refusal: Refusal, scope: Scope) -> Response:
    return error_response(ApiError(refusal.status, refusal.problem, code=refusal.code), scope)


async def _needs_key(scope: Scope) -> bool:
    services: Services = scope["app"].state.services
    return await services.pools.keys.run("", lambda: services.keys.are_needed)


@asynccontextmanager
async def _admit(request: Request) -> AsyncGenerator[tuple[Run, Receive], None]:
    """Admit a request to the inspector's API, under the limits of its key."""
    async with counted_body(request) as (caller, receive):
        pool = services_of(request).pools.encoding
        yield lambda function: in_pool(request, pool, caller.owner, function), receive


async def _live_model(request: Request) -> LiveModel:
    """Describe the model to the inspector's page."""
    services = services_of(request)
    return LiveModel(services.model_names[0], await _needs_key(request.scope))


async def run_server(
    app: FastAPI,
    settings: Settings,
    listener: socket.socket,
    on_start: Callable[[], None] = lambda: None,
) -> None:
    """Serve on `listener` until SIGINT or SIGTERM; call `on_start` once the server answers.

    After the signal, running requests have `Settings.shutdown_seconds` to end. The others are
    cancelled, and their clients get an error. A second SIGINT ends the server at once. Raises
    `HarmonyError` if the application cannot start, for example if the database cannot be used.

    Call this in a process that does nothing else: until the end, the garbage collector ignores the
    objects that exist when the server begins to answer. Looking at them would stop all threads for
    about 100 ms. By itself it looks at new objects only; at all once a minute, or every ten minutes
    where that takes longer than a tenth of a second.
    """
    threshold = gc.get_threshold()

    def begun() -> None:
        gc.freeze()
        gc.set_threshold(*_GARBAGE)
        on_start()

    try:
        await make_server(app, settings, begun).serve(sockets=[listener])
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()


def make_server(
    app: FastAPI, settings: Settings, on_start: Callable[[], None] = lambda: None
) -> uvicorn.Server:
    """Make the server of an application; set its `should_exit` to end it gracefully."""
    config = HttpConfig(
        app,
        RequestTimes(settings.head_seconds, settings.body_seconds),
        log_config=None,  # its records go to the same place as those of the library
        lifespan="off",  # `serve` runs the lifespan, so that its errors reach the caller
        timeout_graceful_shutdown=round(settings.shutdown_seconds) + _CLOSING_SECONDS,
        # Longer than clients keep idle connections (httpx: 5 s), or a request would now and then
        # meet its connection's end.
        timeout_keep_alive=max(1, round(settings.head_seconds)),
        ws_max_size=settings.max_request_bytes,
        ws_per_message_deflate=False,  # a few bytes could become a message of this size
        backlog=_BACKLOG,
    )
    return _Server(config, app, on_start)


class _Server(uvicorn.Server):
    """Shuts down the application first; the framework would first close all connections."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._app = app
        self._on_start = on_start

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve within the application's lifespan; raise the error of a failed start."""
        interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL)
        try:
            async with self._app.router.lifespan_context(self._app):
                await super().serve(sockets)
        finally:
            sys.setswitchinterval(interval)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Call `on_start` once the server answers."""
        await super().startup(sockets)
        if self.started:
            self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait for running requests, up to a limit, before connections are closed.

        Until then the server listens, so that ``/ready`` can say why it takes no requests. The
        framework would stop listening, and close WebSockets without an error for their clients.
        """
        ending = asyncio.ensure_future(self._app.state.services.shut_down())
        while not ending.done() and not self.force_exit:
            await asyncio.wait({ending}, timeout=_SIGNAL_INTERVAL)
        if ending.done():
            ending.result()
        else:
            ending.cancel()
        await super().shutdown(sockets)
