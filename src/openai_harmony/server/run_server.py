"""The application on a socket, until a signal ends it."""

from __future__ import annotations

import asyncio
import socket

import uvicorn
from fastapi import FastAPI

from .settings import Settings

__all__ = ["make_server", "run_server"]

_LAST_WORDS = 5  # seconds for clients to read that their request was cancelled
_GLANCE = 0.1  # seconds between looks for a second signal


async def run_server(app: FastAPI, settings: Settings, listener: socket.socket) -> None:
    """Answer on `listener` until SIGINT or SIGTERM.

    Requests under way then have `Settings.shutdown_seconds` to end; the rest is cancelled and says
    so. A second SIGINT ends at once. Raises `HarmonyError` where the application cannot begin, as
    with a database that cannot be used.
    """
    await make_server(app, settings).serve(sockets=[listener])


def make_server(app: FastAPI, settings: Settings) -> uvicorn.Server:
    """Return what serves the application; it ends in order once its `should_exit` is true."""
    config = uvicorn.Config(
        app,
        lifespan="off",  # the server begins and ends it, so that its errors reach the caller
        log_level="warning",
        timeout_graceful_shutdown=round(settings.shutdown_seconds) + _LAST_WORDS,
        server_header=False,
    )
    return _Server(config, app)


class _Server(uvicorn.Server):
    """Tells the application that the end has begun: the framework tells it when all is over."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._app = app

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve within the application's life; raises what keeps that from beginning."""
        async with self._app.router.lifespan_context(self._app):
            await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Let what is written be sent at once, on all connections: they inherit it.

        The event loop does so by itself only for sockets that were made with the protocol's number;
        else the end of an answer waits some 40 ms until the client has confirmed its beginning.
        """
        for listener in sockets or ():
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let requests under way end, for a while, before connections are closed.

        The framework closes WebSockets at once, and would leave their clients without a word.
        """
        for server in self.servers:
            server.close()
        ending = asyncio.ensure_future(self._app.state.services.shut_down())
        while not ending.done() and not self.force_exit:
            await asyncio.wait({ending}, timeout=_GLANCE)
        if ending.done():
            ending.result()
        else:
            ending.cancel()
        await super().shutdown(sockets)
