"""``harmony mcp``: the built-in tools as a server of the Model Context Protocol."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..installation import needing_extra
from .command import Command
from .input import UsageError
from .listening import listen
from .options import (
    add_api_keys,
    add_built_in_tools,
    add_port,
    api_keys,
    open_tools,
    tool_options_given,
)

if TYPE_CHECKING:
    from mcp.server import Server

    from ..tools.tool import Tool

_GRACE = 3  # seconds for running calls, when the server ends


class _Mcp(Command):
    name = "mcp"
    purpose = "run a model"
    summary = "serve the tools browser and python by the MCP protocol"
    examples = """\
  harmony mcp --browser docs --python
  harmony mcp --browser searxng:http://localhost:8888 --port 8765
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_built_in_tools(parser)
        add_port(
            parser,
            "serve HTTP at this port, under /mcp; 0 takes a free port (default: serve standard "
            "input and output)",
            None,
        )
        parser.add_argument(
            "--host", default="127.0.0.1", help="listen at this address (default: %(default)s)"
        )
        add_api_keys(parser)

    def run(self, arguments: argparse.Namespace) -> None:
        if not tool_options_given(arguments):
            raise UsageError("name a tool to serve: --browser BACKEND, --python, or both")
        if arguments.port is None and (arguments.api_key or arguments.api_key_file):
            raise UsageError("--api-key is for HTTP; add --port")
        arguments.api_key = api_keys(arguments)
        with needing_extra("the MCP server needs", "tools"):
            from ..tools.mcp import make_server
            from ..web import is_loopback
        if arguments.port is not None and not (is_loopback(arguments.host) or arguments.api_key):
            raise UsageError(
                f"everyone who reaches {arguments.host} could use the tools; add --api-key-file"
            )
        asyncio.run(_serve(arguments, make_server))


MCP = _Mcp()


async def _serve(arguments: argparse.Namespace, make_server: Any) -> None:
    if arguments.port is None:
        tools = await open_tools(arguments)
        try:
            await _serve_streams(make_server(tools), tools)
        finally:
            await _close(tools)
        return
    # The server raises the signal again when it has stopped; then the tools must still be closed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with listen(arguments.host, arguments.port) as listener:
        tools = await open_tools(arguments)
        try:
            await _serve_http(make_server(tools), arguments, listener)
        finally:
            await _close(tools)


async def _serve_streams(server: Server[Any], tools: Sequence[Tool[Any]]) -> None:
    """Serve until standard input ends, or a signal comes."""

    async def answer() -> None:
        from mcp import stdio_server

        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    serving, over = asyncio.ensure_future(answer()), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # on Windows
            loop.add_signal_handler(number, over.set)
    stopping = asyncio.ensure_future(over.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        await _close(tools)
        os._exit(0)  # nothing else ends the thread that waits for the next line
    stopping.cancel()
    serving.result()


async def _serve_http(
    server: Server[Any], arguments: argparse.Namespace, listener: socket.socket
) -> None:
    import uvicorn
    from starlette.responses import JSONResponse

    from ..tools.mcp import KeyGate, make_http_app
    from ..web import HttpConfig, Refusal, RequestGuard

    def refused(refusal: Refusal, _: object) -> JSONResponse:
        return JSONResponse({"error": refusal.problem}, refusal.status)

    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    app: Any = make_http_app(server, arguments.host)
    if arguments.api_key:
        app = KeyGate(app, arguments.api_key)
    else:
        app = RequestGuard(app, respond=refused)

    class AnnouncedServer(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                print(f"serving tools at http://{shown}:{port}/mcp", file=sys.stderr, flush=True)

    config = HttpConfig(app, timeout_graceful_shutdown=_GRACE)
    await AnnouncedServer(config).serve(sockets=[listener])


async def _close(tools: Sequence[Tool[Any]]) -> None:
    for tool in tools:
        await tool.close()
