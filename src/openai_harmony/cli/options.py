"""A command, and the options that several commands share."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from ..config import SchemaDialect
from ..conversation.messages import Role
from ..installation import missing_package
from .input import InputError
from .runtime import engine_options, is_url

if TYPE_CHECKING:
    from ..engines import Sampling
    from ..tools.browser import Browser, LocalIndex, SearchBackend
    from ..tools.tool import Tool


__all__ = [
    "Command",
    "add_api_keys",
    "add_built_in_tools",
    "add_color",
    "add_engine",
    "add_mcp",
    "add_sampling",
    "add_schema_dialect",
    "api_keys",
    "given_engine_options",
    "natural",
    "open_tools",
    "positive",
    "role_named",
    "role_names",
    "sampling_of",
    "tool_options_given",
]


class Command(ABC):
    """A command: its name, its help, its arguments, and what it does."""

    name: ClassVar[str]
    summary: ClassVar[str]
    examples: ClassVar[str]

    @abstractmethod
    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments to the command's parser."""

    @abstractmethod
    def run(self, arguments: argparse.Namespace) -> None:
        """Run the command; raises `InputError` or `HarmonyError`."""


def positive(text: str, least: int = 1) -> int:
    """Read an integer from 1, for the `type` of an argument."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be an integer from {least}, not {text}")
    return int(text)


def natural(text: str) -> int:
    """Read an integer from 0, for the `type` of an argument."""
    return positive(text, least=0)


def add_color(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--color``."""
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto (the default) colours on a terminal, unless NO_COLOR is set",
    )


def add_schema_dialect(parser: argparse.ArgumentParser, option: str) -> None:
    """Add the option for the dialect of schemas."""
    parser.add_argument(
        option,
        dest="schema_dialect",
        choices=get_args(SchemaDialect),
        default="typescript",
        help="reference writes schemas exactly as the reference library does, with its losses",
    )


def role_names() -> list[str]:
    """Return the values of an option ``--role``."""
    return [*(role.value for role in Role), "none"]


def role_named(name: str) -> Role | None:
    """Return the role for a value of ``--role``."""
    return None if name == "none" else Role(name)


_OPTIONS: tuple[tuple[str, type, str], ...] = (
    ("temperature", float, "0 always takes the likeliest token"),
    ("top-p", float, "sample among the likeliest tokens that make up this probability"),
    ("top-k", int, "sample among this many of the likeliest tokens"),
    ("min-p", float, "sample among tokens with this share of the likeliest one's probability"),
    ("seed", int, "the same seed gives the same completion"),
    ("max-tokens", int, "the most tokens to sample"),
)


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """Add the sampling options; options that are not given keep the defaults."""
    for name, kind, text in _OPTIONS:
        parser.add_argument(f"--{name}", type=kind, metavar="N", help=text)


def sampling_of(arguments: argparse.Namespace, grammar: str | None = None) -> Sampling:
    """Return the sampling options that were given."""
    from ..engines import Sampling

    names = [name.replace("-", "_") for name, _, _ in _OPTIONS]
    given = {name: getattr(arguments, name) for name in names}
    return Sampling(grammar=grammar, **{k: v for k, v in given.items() if v is not None})


_API_KEY = "HARMONY_API_KEY"


def add_api_keys(parser: argparse.ArgumentParser) -> None:
    """Add the options for the API keys of a server."""
    parser.add_argument(
        "--api-key-file",
        metavar="FILE",
        action="append",
        default=[],
        help="keys of which requests must have one, one in a line",
    )
    parser.add_argument(
        "--api-key",
        type=_key_text,
        metavar="KEY",
        action="append",
        default=[],
        help="such a key, which every user of this machine can read in the list of processes; "
        f"the variable {_API_KEY} may have it instead",
    )


def api_keys(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return the keys that were given, and remove the variable: no tool inherits it."""
    variable = os.environ.pop(_API_KEY, None)
    keys = [_keys_in("--api-key", key) for key in arguments.api_key]
    if variable is not None and not keys:
        keys.append(_keys_in(_API_KEY, variable))
    keys += (_keys_of_file("--api-key-file", name) for name in arguments.api_key_file)
    return tuple(itertools.chain.from_iterable(keys))


def _key_text(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("there is no key; write one, or leave the option out")
    return text


def _keys_of_file(option: str, name: str) -> list[str]:
    try:
        text = Path(name).read_text("utf-8")
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or "it is no text"
        raise InputError(f"{option} {name} cannot be read: {problem}") from error
    return _keys_in(f"{option} {name}", text)


def _keys_in(source: str, text: str) -> list[str]:
    keys = [line.strip() for line in text.split("\n") if line.strip()]
    if not keys:
        raise InputError(f"{source} has no key; write one, or leave it out")
    return keys


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add the options for the engine."""
    parser.add_argument(
        "--engine-option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of the engine, such as dtype=bfloat16, device_map=auto, llguidance=true; "
        "values are JSON, or else text; may be repeated",
    )
    parser.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="the threads that compute a model on the CPU; by default one for a small model, and "
        "else as many as there are cores",
    )
    parser.add_argument(
        "--upstream-api-key-file",
        metavar="FILE",
        help="a file with the API key for the server of the engine; it may be in the variable "
        "HARMONY_ENGINE_API_KEY instead",
    )


def given_engine_options(arguments: argparse.Namespace, model: str) -> dict[str, Any]:
    """Return the options of a model's engine that were given, and those from the environment."""
    options: dict[str, Any] = {**engine_options(model)}
    is_server = is_url(model)
    if arguments.threads is not None:
        if is_server:
            raise InputError(f"--threads is for a model in this process, and {model} is a server")
        options["threads"] = arguments.threads
    for given in arguments.engine_option:
        name, equals, text = given.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"--engine-option must be NAME=VALUE, not {given!r}")
        try:
            options[name] = json.loads(text)
        except ValueError:
            options[name] = text
    if arguments.upstream_api_key_file:
        options["api_key"], *more = _keys_of_file(
            "--upstream-api-key-file", arguments.upstream_api_key_file
        )
        if more:
            raise InputError(
                f"--upstream-api-key-file {arguments.upstream_api_key_file} must have one key, "
                f"not {1 + len(more)}"
            )
    return options


_KEYS = {"brave": "BRAVE_API_KEY", "exa": "EXA_API_KEY", "you": "YDC_API_KEY"}
_SEARXNG = "searxng:"
_NULL_HANDLER = logging.NullHandler()


def add_built_in_tools(parser: argparse.ArgumentParser) -> None:
    """Add the options for the tools `browser` and `python`."""
    keys = ", ".join(f"{name} ({key})" for name, key in _KEYS.items())
    parser.add_argument(
        "--browser",
        metavar="BACKEND",
        help="the tool browser; it searches a folder of documents, or the web through "
        f"{_SEARXNG}URL or a service with its key in a variable: {keys}",
    )
    parser.add_argument(
        "--python",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="the tool python: notebooks in a sandbox",
    )


def add_mcp(parser: argparse.ArgumentParser) -> None:
    """Add the option for servers of the Model Context Protocol."""
    parser.add_argument(
        "--mcp",
        metavar="SERVER",
        action="append",
        default=[],
        help="the tools of an MCP server: a command that starts it, or its URL, with NAME= before "
        "it if you like; may be repeated",
    )


def tool_options_given(arguments: argparse.Namespace) -> list[str]:
    """Return the names of the tool options that were given."""
    return [f"--{name}" for name in ("browser", "python", "mcp") if getattr(arguments, name, None)]


async def open_tools(arguments: argparse.Namespace) -> list[Tool[Any]]:
    """Open the tools that the options name; the caller closes each.

    Raises `InputError`, and `HarmonyError` if a notebook or a server does not start.
    """
    tools: list[Tool[Any]] = []
    async with AsyncExitStack() as opened:
        if arguments.browser is not None:
            tools.append(await _browser(arguments.browser))
            opened.push_async_callback(tools[-1].close)
        if arguments.python:
            tools.append(await _python())
            opened.push_async_callback(tools[-1].close)
        for server in getattr(arguments, "mcp", ()):
            tools.append(await _mcp(server, tools))
            opened.push_async_callback(tools[-1].close)
        opened.pop_all()
    return tools


async def _browser(backend: str) -> Browser:
    try:
        from ..tools.browser import Brave, Browser, Exa, SearXng, WebPages, YouCom
    except ModuleNotFoundError as error:
        raise InputError(missing_package("the tool browser needs", error, "tools")) from error
    if backend.startswith(_SEARXNG):
        return Browser(SearXng(backend.removeprefix(_SEARXNG)), [WebPages()])
    services: dict[str, Callable[[str], SearchBackend]] = {
        "brave": Brave,
        "exa": Exa,
        "you": YouCom,
    }
    if backend in services:
        key = os.environ.get(_KEYS[backend])
        if not key:
            raise InputError(f"--browser {backend} needs a key; put it into {_KEYS[backend]}")
        return Browser(services[backend](key), [WebPages()])
    if not Path(backend).is_dir():
        raise InputError(
            f"--browser {backend!r} is no folder; name a folder of documents, {_SEARXNG}URL, "
            f"{', '.join(services)}"
        )
    index = await asyncio.to_thread(_index, backend)
    return Browser(index, [index])


def _index(folder: str) -> LocalIndex:
    from ..tools.browser import LocalIndex

    index = LocalIndex(folder)
    try:
        change = index.update()
    except BaseException:
        asyncio.run(index.close())
        raise
    for name, problem in change.unreadable.items():
        print(f"{name} is left out: {problem}", file=sys.stderr)
    return index


async def _python() -> Tool[Any]:
    try:
        from ..tools.python.python_tool import PythonTool
    except ModuleNotFoundError as error:
        raise InputError(missing_package("the tool python needs", error, "tools")) from error
    tool = PythonTool()
    try:
        await tool.start()
    except BaseException:
        await tool.close()
        raise
    return tool


async def _mcp(server: str, others: Sequence[Tool[Any]]) -> Tool[Any]:
    try:
        from ..tools.mcp import McpAddress, McpTool
    except ModuleNotFoundError as error:
        raise InputError(
            missing_package("the tools of MCP servers need", error, "tools")
        ) from error
    try:
        address = McpAddress.parse(server)
    except ValueError as error:
        raise InputError(f"--mcp: {error}") from error
    logging.getLogger("mcp").addHandler(
        _NULL_HANDLER
    )  # the SDK logs complaints about the output of servers
    tool = await McpTool.connect(address, taken=[other.namespace.name for other in others])
    for note in tool.notes:
        print(f"{address}: {note}", file=sys.stderr)
    return tool
