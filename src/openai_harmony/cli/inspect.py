"""``harmony inspect``: the inspector, a page that shows conversations and their tokens."""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import signal
import sys
import threading
import webbrowser
import zlib
from typing import TYPE_CHECKING, Any

from ..installation import missing_package
from .input import InputError, read_json
from .options import Command
from .runtime import listen, open_watched

if TYPE_CHECKING:
    import socket


__all__ = ["INSPECT", "page_fragment"]

_HOST = "127.0.0.1"

_LONGEST_FRAGMENT = 100_000
"""Characters; on Linux, one argument of a command cannot have many more."""


class _Inspect(Command):
    name = "inspect"
    summary = "look at conversations and tokens on a page in the browser"
    examples = """\
  harmony inspect
  harmony inspect --file chat.json
  harmony inspect demo
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "model",
            metavar="MODEL",
            nargs="?",
            help="a model to chat with on the page, as for 'harmony serve'; nothing is stored",
        )
        parser.add_argument(
            "--file",
            metavar="FILE",
            help="a conversation or a request to open, as JSON; - for stdin",
        )
        parser.add_argument("--port", type=int, default=0, help="the port; a free one by default")
        parser.add_argument(
            "--no-open",
            dest="open",
            action="store_false",
            help="print the address, open no browser",
        )

    def run(self, arguments: argparse.Namespace) -> None:
        fragment = "" if arguments.file is None else page_fragment(read_json(arguments.file)[0])
        # The server raises the signal again when it has stopped; an engine is still to be closed.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        with listen(_HOST, arguments.port) as listener:
            url = f"http://{_HOST}:{listener.getsockname()[1]}/{fragment}"
            serve = _serve_page if arguments.model is None else _serve_model
            asyncio.run(serve(arguments, listener, url))


INSPECT = _Inspect()


def page_fragment(source: Any) -> str:
    """Return the URL fragment with which the page opens a conversation or a request.

    Raises `InputError` for other input, or if it is too long for a URL.
    """
    if isinstance(source, list):
        source = {"messages": source}
    if not isinstance(source, dict):
        raise InputError("expected a conversation or a request: an object, or a list of messages")
    text = json.dumps({"source": source}, separators=(",", ":")).encode()
    packer = zlib.compressobj(9, wbits=-15)  # without a header: "deflate-raw" in browsers
    packed = base64.urlsafe_b64encode(packer.compress(text) + packer.flush())
    fragment = "#c=" + packed.decode().rstrip("=")
    if len(fragment) > _LONGEST_FRAGMENT:
        raise InputError("this is too long for an address; run without --file and paste it")
    return fragment


async def _serve_page(arguments: argparse.Namespace, listener: socket.socket, url: str) -> None:
    try:
        import uvicorn

        from ..inspector import create_inspector
        from ..web import HttpConfig
    except ModuleNotFoundError as error:
        raise InputError(missing_package("this needs", error, "inspect")) from error
    config = HttpConfig(create_inspector(), lifespan="off")
    _announce(url, opens=arguments.open)
    await uvicorn.Server(config).serve(sockets=[listener])


async def _serve_model(arguments: argparse.Namespace, listener: socket.socket, url: str) -> None:
    """Serve the same as 'harmony serve', only to this machine, and store nothing on disk."""
    try:
        from ..server import Settings, create_app, run_server
    except ModuleNotFoundError as error:
        raise InputError(missing_package("this needs", error, "serve")) from error
    engine = await open_watched(arguments.model)
    async with engine:
        settings = Settings()
        app = create_app(engine, settings)
        _announce(url, opens=arguments.open)
        await run_server(app, settings, listener)


def _announce(url: str, *, opens: bool) -> None:
    """Print the address of the page, and open it; the socket already accepts connections."""
    print(f"inspect at {url}", file=sys.stderr, flush=True)
    if opens:
        # In a thread: a browser in the terminal returns only when the user quits it.
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
