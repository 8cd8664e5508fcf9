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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import without_secrets
from ..installation import needing_extra
from .command import Command
from .input import STANDARD_INPUT, InputError, named_in_errors, read_json
from .listening import listen
from .load_model import open_watched
from .options import add_port

if TYPE_CHECKING:
    import socket

_HOST = "127.0.0.1"

_LONGEST_FRAGMENT = 100_000
"""Characters; on Linux, one argument of a command cannot have many more."""


class _Inspect(Command):
    name = "inspect"
    purpose = "see the format"
    summary = "see conversations and their tokens in the browser"
    extras = "inspect, for demo also serve, and for another MODEL also serve and transformers"
    examples = """\
  harmony inspect
  harmony inspect chat.json
  harmony inspect demo
  harmony inspect demo chat.json
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "model",
            metavar="MODEL",
            nargs="?",
            help="a model to run on the page: demo, a folder, a name on the Hugging Face hub, or "
            "the URL of a vLLM, SGLang or llama.cpp server; nothing is stored (default: none)",
        )
        parser.add_argument(
            "file",
            metavar="FILE",
            nargs="?",
            help="a conversation or a request to open, as JSON; - means standard input "
            "(default: none)",
        )
        add_port(parser, "the port of the page (default: a free one)", 0)
        parser.add_argument(
            "--open",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="open the page in a browser (default: on; off prints the address)",
        )

    def run(self, arguments: argparse.Namespace) -> None:
        file = arguments.file
        if file is None and arguments.model is not None and _is_file(arguments.model):
            arguments.model, file = None, arguments.model
        fragment = ""
        if file is not None:
            raw, _ = read_json(file)
            with named_in_errors(file):
                fragment = page_fragment(raw)
        # The server raises the signal again when it has stopped; an engine is still to be closed.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        with listen(_HOST, arguments.port) as listener:
            url = f"http://{_HOST}:{listener.getsockname()[1]}/{fragment}"
            serve = _serve_page if arguments.model is None else _serve_model
            asyncio.run(serve(arguments, listener, url))


INSPECT = _Inspect()


def _is_file(name: str) -> bool:
    """Return whether the only argument is a FILE and not a MODEL."""
    return name == STANDARD_INPUT or name.endswith(".json") or Path(name).is_file()


def page_fragment(source: Any) -> str:
    """Return the URL fragment with which the page opens a conversation or a request.

    Raises `InputError` for other input, or if it is too long for a URL.
    """
    if isinstance(source, list):
        source = {"messages": source}
    if not isinstance(source, dict) or not source.keys() & {"messages", "input"}:
        raise InputError(
            "expected a conversation or a request: an object with messages or an input, "
            "or a list of messages"
        )
    text = json.dumps({"source": source}, separators=(",", ":")).encode()
    packer = zlib.compressobj(9, wbits=-15)  # without a header: "deflate-raw" in browsers
    packed = base64.urlsafe_b64encode(packer.compress(text) + packer.flush())
    fragment = "#c=" + packed.decode().rstrip("=")
    if len(fragment) > _LONGEST_FRAGMENT:
        raise InputError("this is too long for an address; run without FILE and paste it")
    return fragment


async def _serve_page(arguments: argparse.Namespace, listener: socket.socket, url: str) -> None:
    with needing_extra("this needs", "inspect"):
        import uvicorn

        from ..inspector import create_inspector
        from ..web import HttpConfig
    config = HttpConfig(create_inspector(), lifespan="off")
    _announce(url, opens=arguments.open)
    await uvicorn.Server(config).serve(sockets=[listener])


async def _serve_model(arguments: argparse.Namespace, listener: socket.socket, url: str) -> None:
    """Serve the same as 'harmony serve', only to this machine, and store nothing on disk."""
    from ..server import Settings, create_app, run_server

    if not sys.stderr.isatty():  # where `open_watched` is silent
        print(f"loading {without_secrets(arguments.model)} ...", file=sys.stderr, flush=True)
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
