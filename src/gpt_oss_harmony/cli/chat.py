"""``harmony chat``: chat with a model, in this process or behind a server."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..apis.notices import schema_notices
from ..apis.requested_tools import read_function, read_tools
from ..conversation.content import ReasoningEffort
from ..conversation.json_field import JsonField
from ..engines.model_names import is_url
from ..installation import MissingPackageError, needing_extra
from .chat_person import Person
from .command import Command
from .demo import WEATHER, WEATHER_RESULT
from .event_loop import EventLoop
from .input import InputError, UnreadableError, UsageError, named_in_errors, read_json, warn
from .load_model import follow_rank_0, open_watched
from .options import (
    add_built_in_tools,
    add_color,
    add_engine,
    add_mcp,
    add_model,
    add_sampling,
    given_engine_options,
    open_tools,
    sampling_of,
    tool_options_given,
)
from .output import Output, folded
from .slash_commands import SLASH_COMMANDS, SlashCommands, effort_named
from .state_folder import state_folder

if TYPE_CHECKING:
    from .chat_backend import Backend, Opening
    from .chat_server import ServerBackend

_KEY = "OPENAI_API_KEY"
_DEMO_KNOWS = """\
The demo model knows little. Try:
  What is 27 + 45?
  What is the weather like in Tokyo?
  I need to buy coffee, soda and eggs
  Hello! My name is Anna."""
_DEMO_REPETITION = 128  # tokens; it knows few results of functions, and stammers after others
_SENT = ("temperature", "top_p", "top_k", "min_p", "seed", "max_tokens")


class _Chat(Command):
    name = "chat"
    purpose = "run a model"
    summary = "chat with a model"
    extras = "numpy for demo, transformers for other models, or http for a URL"
    examples = """\
  harmony chat
  harmony chat openai/gpt-oss-20b --effort high
  harmony chat localhost:8000 --tools tools.json
  harmony chat openai/gpt-oss-20b --browser docs --python
  harmony chat openai/gpt-oss-20b --mcp 'uvx mcp-server-time'
  # In the chat, /help shows its commands and keys.
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_model(
            parser,
            "the URL of a server with the Chat Completions API, such as localhost:8000",
            dest="target",
            default="demo",
        )
        parser.add_argument(
            "--model",
            metavar="NAME",
            help="the server's name for the model; needed if the server has several",
        )
        parser.add_argument(
            "--api-key",
            metavar="KEY",
            help=f"the API key of the server (default: the variable {_KEY})",
        )
        parser.add_argument(
            "--instructions",
            metavar="TEXT",
            help="instructions for the model, as a developer message",
        )
        parser.add_argument(
            "--tools",
            metavar="FILE",
            help="a file of function tools, as JSON; the chat asks you for the results of calls",
        )
        add_built_in_tools(parser)
        add_mcp(parser)
        parser.add_argument(
            "--effort",
            choices=[effort.value.lower() for effort in ReasoningEffort],
            help="how much the model reasons (default: medium, or what the server chooses)",
        )
        parser.add_argument(
            "--history",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="keep your questions for the next chat, in a file that only you can read "
            "(default: on)",
        )
        parser.add_argument(
            "--reasoning",
            action=argparse.BooleanOptionalAction,
            help="show the model's reasoning before its answer (default: on, but off if the "
            "questions come from a pipe)",
        )
        parser.add_argument(
            "--grammar",
            action=argparse.BooleanOptionalAction,
            default=None,
            help="constrain the model's calls to what the tools declare (default: on, for a model "
            "in this process)",
        )
        add_sampling(parser)
        add_engine(parser, takes_url=False)
        add_color(parser)

    def run(self, arguments: argparse.Namespace) -> None:
        from .chat_conversation import ChatConversation

        url = server_url(arguments.target)
        if url is not None and not url.partition("://")[2].strip("/"):
            raise UsageError(f"{url!r} names no server; write a URL such as http://localhost:8000")
        if url is None:
            options = given_engine_options(arguments, arguments.target)
        elif arguments.engine_option or arguments.threads or arguments.grammar is not None:
            raise UsageError(
                "--grammar and the options of an engine are for a model in this process; "
                f"leave them out, or name a model instead of {arguments.target!r}"
            )
        else:
            options = {}
        if follow_rank_0(url or arguments.target, options):
            return
        output, given = Output(arguments.color), tool_options_given(arguments)
        is_demo = arguments.target == "demo"
        if is_demo and arguments.temperature is None:
            arguments.temperature = 0.0  # otherwise, it miscalculates now and then
        opening = _opening(arguments, has_weather=is_demo and not given)
        if given and url is not None:
            raise UsageError(
                f"{given[0]} is for a model in this process; a server runs its own tools "
                f"(see 'harmony serve --help'), or name a model instead of {arguments.target!r}"
            )
        with EventLoop() as loop, ExitStack() as opened:
            tools = loop.run(open_tools(arguments))
            for tool in tools:
                # As an argument: in a closure, `tool` would be the last one each time.
                opened.callback(lambda tool: loop.run(tool.close()), tool)
            person = find_person(output, SLASH_COMMANDS, keeps_history=arguments.history)
            with person.silent_keyboard():
                backend = loop.run(_backend(arguments, options))
            opened.callback(lambda: loop.run(backend.close()))
            if person.has_keyboard:
                _greet(knows=_DEMO_KNOWS if is_demo else "")
            opening = replace(opening, run_here=tools)
            shows_reasoning = arguments.reasoning
            if shows_reasoning is None:
                shows_reasoning = person.has_keyboard
            conversation = ChatConversation(
                backend,
                opening,
                person,
                output,
                loop,
                shows_reasoning=shows_reasoning,
                result_example=WEATHER_RESULT if is_demo else "",
            )
            conversation.run()


CHAT = _Chat()


async def _backend(arguments: argparse.Namespace, options: Mapping[str, Any]) -> Backend:
    sampling = sampling_of(arguments)
    url = server_url(arguments.target)
    if url is not None:
        return await _server(url, arguments)
    for option in ("model", "api_key"):
        if getattr(arguments, option) is not None:
            name = option.replace("_", "-")
            remedy = ""
            if option == "model" and arguments.target == "demo":
                remedy = f"; write 'harmony chat {arguments.model}'"
            raise UsageError(
                f"--{name} is for servers, and {arguments.target!r} is not the URL of one{remedy}"
            )
    from ..engines import EngineError
    from .chat_backend import REPETITION, EngineBackend

    try:
        engine = await open_watched(arguments.target, options)
    except EngineError as error:
        hint = "]'"  # the end of what to install
        if hint not in str(error) or not sys.stdin.isatty() or find_spec("prompt_toolkit"):
            raise
        raise EngineError(str(error).replace(hint, f",terminal{hint}")) from error
    repetition = _DEMO_REPETITION if arguments.target == "demo" else REPETITION
    has_grammar = arguments.grammar is not False
    return EngineBackend(engine, sampling, grammar=has_grammar, repetition=repetition)


async def _server(url: str, arguments: argparse.Namespace) -> ServerBackend:
    with needing_extra("talking with a server needs", "http"):
        from .chat_server import ServerBackend
    given = {name: getattr(arguments, name) for name in _SENT}
    backend = await ServerBackend.connect(
        url,
        arguments.model,
        api_key=arguments.api_key or os.environ.get(_KEY) or None,
        sampling={name: value for name, value in given.items() if value is not None},
    )
    if sys.stderr.isatty():
        print(f"{backend.model} at {backend.url}", file=sys.stderr)
    return backend


def _greet(*, knows: str) -> None:
    if sys.stderr.isatty():
        text = f"{knows}\nAsk a question, or type /help.".lstrip()
        print(folded(text), file=sys.stderr)


def _opening(arguments: argparse.Namespace, *, has_weather: bool) -> Opening:
    """Read the settings; without a file of tools, the demo model has its weather function."""
    from .chat_backend import Opening

    effort = None if arguments.effort is None else effort_named(arguments.effort)
    functions: list[dict[str, Any]] = []
    if arguments.tools:
        is_enforced = server_url(arguments.target) is None and arguments.grammar is not False
        functions = _functions(arguments.tools, is_enforced=is_enforced)
    elif has_weather:
        functions = [{"type": "function", "function": WEATHER.model_dump()}]
    return Opening(arguments.instructions, functions, effort)


def _functions(file: str, *, is_enforced: bool) -> list[dict[str, Any]]:
    """Read a file of functions: a tool, a function alone, a list of them, or a request's."""
    raw, _ = read_json(file, of_option=True)
    if isinstance(raw, dict) and isinstance(raw.get("tools"), list):
        raw = raw["tools"]
    tools = raw if isinstance(raw, list) else [raw]
    paths = [f"tools[{index}]" if tools is raw else "" for index in range(len(tools))]
    with named_in_errors(file):
        declared = [read_function(JsonField(*pair)) for pair in zip(tools, paths, strict=True)]
        if not is_enforced:  # otherwise, the grammar warns of it
            for notice in schema_notices(function.parameters for function in declared):
                warn(f"{file}: {notice}")
        functions = [
            tool if tool.get("function") else {"type": "function", "function": tool}
            for tool in tools
        ]
        read_tools(map(JsonField, functions, paths))  # refuses two that differ
    return functions


def find_person(output: Output, commands: SlashCommands, *, keeps_history: bool) -> Person:
    """Return the person at the terminal, or the program behind the pipe."""
    if sys.stdin is None:
        raise UnreadableError("standard input is closed; 'harmony chat' reads questions from it")
    person = Person(output)
    if not (person.has_keyboard and output.is_terminal) or os.environ.get("TERM") == "dumb":
        return person
    try:
        with needing_extra("pasting, history and Markdown need", "terminal"):
            from .chat_terminal import TerminalPerson
        return TerminalPerson(output, commands, _history_file() if keeps_history else None)
    except MissingPackageError as error:
        print(error, file=sys.stderr)
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - lets `input` edit lines
    return person


def _history_file() -> Path | None:
    """Return the file of earlier questions, which only the user can read; None without one."""
    try:
        file = state_folder() / "chat_history"
        os.close(os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
        # The mode above is that of a new file only.
        file.chmod(0o600)
    except (InputError, OSError) as error:
        print(f"questions are not remembered: {error}", file=sys.stderr)
        return None
    return file


_HOST = re.compile(r"(localhost|[\w.-]+:\d+|\[[\da-fA-F:.]+\](:\d+)?)(/.*)?", re.ASCII)


def server_url(name: str) -> str | None:
    """Return the URL that a name means, or None; a host with a port needs no scheme.

    >>> server_url("localhost:8000"), server_url("https://a.example/v1")
    ('http://localhost:8000', 'https://a.example/v1')
    >>> server_url("demo"), server_url("openai/gpt-oss-20b")
    (None, None)
    """
    if is_url(name):
        return name
    if _HOST.fullmatch(name) is None or Path(name).is_dir():
        return None
    return f"http://{name}"
