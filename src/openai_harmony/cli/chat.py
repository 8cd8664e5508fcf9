"""``harmony chat``: talk with a model, in this process or behind a server's API."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..apis.chat_messages import tool_from_chat
from ..conversation.content import ReasoningEffort
from ..installation import missing_package
from .chat_conversation import ChatConversation, effort_named
from .chat_partner import Opening
from .chat_url import server_url
from .command import Command, add_color
from .event_loop import EventLoop
from .loading import open_watched
from .output import Output
from .sampling import add_sampling, sampling_of
from .source import InputError, read_json
from .tool_options import add_built_in_tools, add_mcp, open_tools, tool_options_given

if TYPE_CHECKING:
    from .chat_partner import Partner
    from .chat_server import ServerPartner

__all__ = ["CHAT"]

_KEY = "OPENAI_API_KEY"
_SENT = ("temperature", "top_p", "top_k", "min_p", "seed", "max_tokens")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="MODEL",
        nargs="?",
        default="demo",
        help="demo (the default), a folder, a name on the Hugging Face hub, or the URL of a server "
        "of the Chat Completions API, such as localhost:8000",
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="which of a server's models; may be left out where there is one",
    )
    parser.add_argument(
        "--api-key", metavar="KEY", help=f"the server's key; the variable {_KEY} unless given"
    )
    parser.add_argument("--instructions", metavar="TEXT", help="what the developer asks for")
    parser.add_argument(
        "--tools", metavar="FILE", help="function tools, as JSON; you are asked for their results"
    )
    add_built_in_tools(parser)
    add_mcp(parser)
    parser.add_argument(
        "--effort",
        choices=[effort.value.lower() for effort in ReasoningEffort],
        help="how much the model reasons; medium, or what a server has for its default",
    )
    add_sampling(parser)
    add_color(parser)


def _run(arguments: argparse.Namespace) -> None:
    output, opening = Output(arguments.color), _opening(arguments)
    _check_tools(arguments)
    with EventLoop() as loop, ExitStack() as opened:
        tools = loop.run(open_tools(arguments))
        for tool in tools:
            opened.callback(lambda tool: loop.run(tool.close()), tool)
        partner = loop.run(_partner(arguments))
        opened.callback(lambda: loop.run(partner.close()))
        if sys.stderr.isatty():
            print("/help helps.", file=sys.stderr)
        ChatConversation(partner, replace(opening, run_here=tools), output, loop).run()


def _check_tools(arguments: argparse.Namespace) -> None:
    given = tool_options_given(arguments)
    if given and server_url(arguments.target) is not None:
        raise InputError(
            f"{given[0]} is for a model in this process; a server runs its own tools "
            f"(see 'harmony serve --help'), or name a model instead of {arguments.target!r}"
        )


async def _partner(arguments: argparse.Namespace) -> Partner:
    sampling = sampling_of(arguments)
    url = server_url(arguments.target)
    if url is not None:
        return await _server(url, arguments)
    for option in ("model", "api_key"):
        if getattr(arguments, option) is not None:
            name = option.replace("_", "-")
            raise InputError(f"--{name} is for servers, and {arguments.target!r} is no URL of one")
    from .chat_engine import EnginePartner

    return EnginePartner(await open_watched(arguments.target), sampling)


async def _server(url: str, arguments: argparse.Namespace) -> ServerPartner:
    try:
        from .chat_server import ServerPartner
    except ModuleNotFoundError as error:
        raise InputError(missing_package("talking with a server needs", error, "http")) from error
    given = {name: getattr(arguments, name) for name in _SENT}
    partner = await ServerPartner.connect(
        url,
        arguments.model,
        api_key=arguments.api_key or os.environ.get(_KEY) or None,
        sampling={name: value for name, value in given.items() if value is not None},
    )
    if sys.stderr.isatty():
        print(f"{partner.model} at {partner.url}", file=sys.stderr)
    return partner


def _opening(arguments: argparse.Namespace) -> Opening:
    effort = None if arguments.effort is None else effort_named(arguments.effort)
    tools = _tools(arguments.tools) if arguments.tools else []
    return Opening(arguments.instructions, tools, effort)


def _tools(file: str) -> list[dict[str, Any]]:
    """Read functions, with or without what the API puts around them."""
    raw, _ = read_json(file)
    tools = raw if isinstance(raw, list) else [raw]
    for at, tool in enumerate(tools):
        tool_from_chat(tool, field=f"[{at}]")
    return [t if t.get("function") else {"type": "function", "function": t} for t in tools]


CHAT = Command(
    name="chat",
    summary="talk with a model",
    examples="""\
  harmony chat
  harmony chat openai/gpt-oss-20b --effort high
  harmony chat localhost:8000 --tools tools.json
  harmony chat openai/gpt-oss-20b --browser docs --python --mcp 'uvx mcp-server-time'
""",
    add_arguments=_add_arguments,
    run=_run,
)
