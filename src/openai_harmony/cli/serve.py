"""``harmony serve``: a model behind the Responses and Chat Completions APIs."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ..installation import missing_package
from .command import Command
from .listener import listen
from .request import iso_date
from .source import InputError
from .tool_options import add_built_in_tools, add_mcp, open_tools

if TYPE_CHECKING:
    from ..server import Settings

__all__ = ["SERVE", "add_database", "database_url"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="demo, a folder, a name on the Hugging Face hub, or the URL of an engine's server",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="the address to listen at (%(default)s)"
    )
    parser.add_argument(
        "--port", type=int, default=8000, help="the port (%(default)s); 0 for any that is free"
    )
    parser.add_argument(
        "--served-model-name",
        metavar="NAME",
        nargs="+",
        default=[],
        help="the names that requests may use; the model's own unless given",
    )
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        action="append",
        default=[],
        help="a key that requests must have; may be given several times; see also 'harmony keys'",
    )
    add_database(parser)
    parser.add_argument(
        "--no-grammar",
        dest="grammar",
        action="store_false",
        help="let the model write calls and JSON answers freely, and hope",
    )
    parser.add_argument(
        "--no-inspector",
        dest="inspector",
        action="store_false",
        help="leave out the page at /, which shows what conversations become",
    )
    parser.add_argument(
        "--date",
        type=lambda text: text if text in ("today", "none") else iso_date(text),
        metavar="YYYY-MM-DD",
        default="today",
        help="the current date as the model shall read it; today (UTC) unless given, or none",
    )
    parser.add_argument(
        "--event-names",
        choices=("openai", "open-responses"),
        default="openai",
        help="how events of reasoning are called (%(default)s)",
    )
    parser.add_argument(
        "--context-length",
        type=int,
        metavar="N",
        help="tokens of prompt and answer together, at most; the engine's own unless given",
    )
    parser.add_argument(
        "--max-running",
        type=int,
        metavar="N",
        default=16,
        help="requests at the engine at once (%(default)s)",
    )
    parser.add_argument(
        "--max-waiting",
        type=int,
        metavar="N",
        default=64,
        help="requests that wait for a place, before others are refused (%(default)s)",
    )
    add_built_in_tools(parser)
    add_mcp(parser)
    parser.add_argument(
        "--max-tool-calls",
        type=int,
        metavar="N",
        default=100,
        help="calls of these tools in one response (%(default)s)",
    )
    parser.add_argument(
        "--keep-days",
        type=float,
        metavar="DAYS",
        default=30,
        help="how long responses are kept (%(default)s); 0 keeps them for ever",
    )


def add_database(parser: argparse.ArgumentParser) -> None:
    """Add the option that says where a server keeps things."""
    parser.add_argument(
        "--database",
        metavar="URL",
        help="where responses and keys are kept: sqlite:///FILE or postgresql://...; "
        "a file of the user's unless given",
    )


def database_url(arguments: argparse.Namespace) -> str:
    """Return the URL that was given, or that of the user's file."""
    return arguments.database or f"sqlite:///{_state_folder() / 'responses.db'}"


def _run(arguments: argparse.Namespace) -> None:
    try:
        from ..server import Settings
    except ModuleNotFoundError as error:
        raise InputError(missing_package("the server needs", error, "serve")) from error
    date = arguments.date
    settings = Settings(
        model_names=tuple(arguments.served_model_name),
        database=database_url(arguments),
        key_file=str(_state_folder() / "reasoning.key"),
        api_keys=tuple(arguments.api_key),
        grammar=arguments.grammar,
        inspector=arguments.inspector,
        current_date=None if date == "none" else date,
        event_names=arguments.event_names,
        context_length=arguments.context_length,
        max_running=arguments.max_running,
        max_waiting=arguments.max_waiting,
        max_tool_calls=arguments.max_tool_calls,
        keep_days=arguments.keep_days or None,
    )
    # The server raises the signal that ended it again: time to close the engine is needed then.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    asyncio.run(_serve(arguments, settings))


async def _serve(arguments: argparse.Namespace, settings: Settings) -> None:
    from ..engines import open_engine
    from ..server import create_app, run_server

    # The socket first: an occupied port is known before a model is loaded.
    with listen(arguments.host, arguments.port) as listener:
        async with AsyncExitStack() as opened:
            tools = await open_tools(arguments)  # first: they fail sooner than a model loads
            for tool in tools:
                opened.push_async_callback(tool.close)
            print(f"loading {arguments.model} ...", file=sys.stderr, flush=True)
            engine = await opened.enter_async_context(await open_engine(arguments.model))
            host, port = listener.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            print(
                f"serving {engine.model} at http://{shown}:{port}/v1", file=sys.stderr, flush=True
            )
            await run_server(create_app(engine, settings, tools), settings, listener)


def _state_folder() -> Path:
    """Return the user's folder for what must outlive the program; make it where it is missing."""
    root = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(root) / "openai-harmony"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


SERVE = Command(
    name="serve",
    summary="serve a model by the Responses and Chat Completions APIs",
    examples="""\
  harmony serve demo
  harmony serve openai/gpt-oss-20b --host 0.0.0.0 --api-key "$KEY"
  harmony serve http://localhost:8001 --served-model-name gpt-oss-120b
  harmony serve openai/gpt-oss-20b --browser ./documents --python
""",
    add_arguments=_add_arguments,
    run=_run,
)
