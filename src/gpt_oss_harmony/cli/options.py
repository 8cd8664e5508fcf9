"""The options that several commands share."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from ..config import SchemaDialect
from ..conversation.messages import Role
from ..engines.installed_models import PROGRAMS
from ..engines.model_names import ENGINES, is_url
from ..installation import needing_extra
from .input import InputError, UnreadableError, UsageError, warn_if_shared
from .load_model import engine_options

if TYPE_CHECKING:
    from ..engines import Sampling
    from ..tools.browser import Browser, LocalIndex, SearchBackend
    from ..tools.tool import Tool


def positive(text: str, least: int = 1) -> int:
    """Read an integer from 1, for the `type` of an argument."""
    # `int` alone would read `1_000` as well, and the digits of every script.
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be an integer from {least}, not {text}")
    return int(text)


def natural(text: str) -> int:
    """Read an integer from 0, for the `type` of an argument."""
    return positive(text, least=0)


def up_to(most: float, unit: str) -> Callable[[str], float]:
    """Make a reader of numbers from 0 to `most`, for the `type` of an argument."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 <= number <= most:  # nor is it NaN
            raise argparse.ArgumentTypeError(f"must be {unit} from 0 to {most:,g}, not {text}")
        return number

    return read


def add_port(parser: argparse.ArgumentParser, meaning: str, default: int | None) -> None:
    """Add the option ``--port``."""
    parser.add_argument("--port", type=_port, default=default, metavar="N", help=meaning)


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"must be a port from 0 to {_LAST_PORT}, not {text}")
    return int(text)


_ENGINE_URL = "the URL of a vLLM, SGLang or llama.cpp server"


def add_model(
    parser: argparse.ArgumentParser,
    url: str = _ENGINE_URL,
    *,
    dest: str = "model",
    default: str | None = None,
    nargs: Literal["?"] | None = None,
) -> argparse.Action:
    """Add the argument MODEL; `url` says which URLs it may be."""
    meaning = "demo, a folder, a GGUF file, a name on the Hugging Face hub, "
    meaning += f"{' or '.join(f'{program}:NAME' for program in PROGRAMS)}, or {url}"
    if default:
        meaning += f" (default: {default})"
        nargs = "?"
    return parser.add_argument(dest, metavar="MODEL", nargs=nargs, default=default, help=meaning)


def add_format(
    parser: argparse.ArgumentParser, formats: Sequence[str], meaning: str
) -> argparse.Action:
    """Add the option ``--format``, the form of the output; the first is the default."""
    return parser.add_argument("--format", choices=formats, default=formats[0], help=meaning)


def add_color(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--color``."""
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="use colours: auto means on a terminal, unless NO_COLOR is set (default: auto)",
    )


def add_schema_dialect(parser: argparse.ArgumentParser) -> argparse.Action:
    """Add the option for the dialect of schemas."""
    return parser.add_argument(
        "--schema-dialect",
        choices=get_args(SchemaDialect),
        default="typescript",
        help="how to write JSON Schemas: typescript keeps all they say; reference writes the bytes "
        "of openai-harmony, which loses parts (default: typescript)",
    )


def role_names() -> list[str]:
    """Return the values of an option ``--role``."""
    return [*(role.value for role in Role), "none"]


def role_named(name: str) -> Role | None:
    """Return the role for a value of ``--role``."""
    return None if name == "none" else Role(name)


_LAST_PORT = 65535


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """Add the sampling options; options that are not given keep the defaults."""
    for name, kind, text in _OPTIONS:
        parser.add_argument(f"--{name}", type=kind, metavar="N", help=text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {text!r}") from None


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer, not {text!r}") from None


_OPTIONS: tuple[tuple[str, Callable[[str], float], str], ...] = (
    ("temperature", _number, "how random the answer is; 0 always takes the likeliest token"),
    ("top-p", _number, "sample from the likeliest tokens whose probabilities add up to N"),
    ("top-k", _integer, "sample from the N likeliest tokens"),
    ("min-p", _number, "sample from tokens with at least N times the highest probability"),
    ("seed", _integer, "make the answer repeatable: the same seed gives the same answer"),
    ("max-tokens", _integer, "stop after N tokens"),
)


def sampling_of(arguments: argparse.Namespace, grammar: str | None = None) -> Sampling:
    """Return the sampling options that were given."""
    from ..engines import Sampling, SamplingError

    sampling = Sampling(grammar=grammar)
    for option, _, _ in _OPTIONS:
        name = option.replace("-", "_")
        value = getattr(arguments, name)
        if value is not None:
            try:
                sampling = replace(sampling, **{name: value})
            except SamplingError as error:
                problem = str(error).removeprefix(name)
                raise UsageError(f"--{option}{problem}") from error
    return sampling


_API_KEY = "HARMONY_API_KEY"


def add_api_keys(parser: argparse.ArgumentParser) -> None:
    """Add the options for the API keys of a server."""
    parser.add_argument(
        "--api-key-file",
        metavar="FILE",
        action="append",
        default=[],
        help="a file of API keys, one per line (# begins a comment); each request must have one of "
        "them; repeatable",
    )
    parser.add_argument(
        "--api-key",
        type=_key_text,
        metavar="KEY",
        action="append",
        default=[],
        help="such an API key; every user of this machine can see it in the list of processes, so "
        f"prefer the variable {_API_KEY}; repeatable",
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
    warn_if_shared(option, name)
    try:
        text = Path(name).read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or "it is no text"
        raise UnreadableError(
            f"{option} {name} cannot be read: {problem}; name a text file with one key per line"
        ) from error
    return _keys_in(f"{option} {name}", re.sub(r"^\s*#.*", "", text, flags=re.MULTILINE))


def _keys_in(source: str, text: str) -> list[str]:
    keys = [line.strip() for line in text.split("\n") if line.strip()]
    if not keys:
        raise InputError(f"{source} has no key; write one, or leave it out")
    if any(not key.isascii() or not key.isprintable() for key in keys):
        raise InputError(
            f"{source} has a key that no header can carry; use ASCII characters without control "
            "codes, one key per line"
        )
    return keys


def add_engine(parser: argparse.ArgumentParser, *, takes_url: bool = True) -> None:
    """Add the options for the engine, which may be at a URL if `takes_url`."""
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        help="what runs a model in this process (default: numpy for demo, llamacpp for a GGUF "
        "file, mlx on a Mac where it is installed, else transformers)",
    )
    parser.add_argument(
        "--engine-option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of the engine, such as dtype=bfloat16 or device_map=auto; a VALUE that is "
        "not JSON is text; repeatable",
    )
    parser.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="run a model on the CPU with N threads (default: 1 for a small model, else the number "
        "of cores)",
    )
    parser.add_argument(
        "--self-check",
        action=argparse.BooleanOptionalAction,
        help="compare a model in this process with its plain form before the first request "
        "(default: on, except on a CPU)",
    )
    if takes_url:
        parser.add_argument(
            "--upstream-api-key-file",
            metavar="FILE",
            help="a file with the API key of the server at the URL in MODEL (default: the variable "
            "HARMONY_ENGINE_API_KEY)",
        )


def given_engine_options(arguments: argparse.Namespace, model: str) -> dict[str, Any]:
    """Return the options of a model's engine that were given, and those from the environment."""
    options: dict[str, Any] = {**engine_options(model)}
    for name in ("engine", "threads", "self_check"):
        value = getattr(arguments, name)
        if value is None:
            continue
        if is_url(model):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} is for a model in this process, and {model} is a server")
        options[name] = value
    for given in arguments.engine_option:
        name, equals, text = given.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--engine-option must be NAME=VALUE, not {given!r}")
        try:
            options[name] = json.loads(text)
        except ValueError:
            options[name] = text
    if getattr(arguments, "upstream_api_key_file", None):
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
        help=f"give the model the tool browser; BACKEND is a folder of documents, {_SEARXNG}URL, "
        f"or a search service with its API key in a variable: {keys}",
    )
    parser.add_argument(
        "--python",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="give the model the tool python, which runs code in a sandbox (default: off)",
    )


def add_mcp(parser: argparse.ArgumentParser) -> None:
    """Add the option for servers of the Model Context Protocol."""
    parser.add_argument(
        "--mcp",
        metavar="SERVER",
        action="append",
        default=[],
        help="give the model the tools of an MCP server; SERVER is a command that starts it or its "
        "URL, and may begin with NAME=; repeatable",
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
        # All of them are open: from here on, the caller closes them.
        opened.pop_all()
    return tools


async def _browser(backend: str) -> Browser:
    from ..tools.browser import Brave, Browser, Exa, SearXng, WebPages, YouCom

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
            raise UsageError(
                f"--browser {backend} needs an API key; put it into the variable {_KEYS[backend]}"
            )
        return Browser(services[backend](key), [WebPages()])
    if not Path(backend).is_dir():
        raise UsageError(
            f"--browser: there is no folder {backend!r}; name a folder of documents, "
            f"{_SEARXNG}URL, {', '.join(services)}"
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
    with needing_extra("the tool python needs", "tools"):
        from ..tools.python.python_tool import PythonTool
    tool = PythonTool()
    try:
        await tool.start()
    except BaseException:
        await tool.close()
        raise
    return tool


async def _mcp(server: str, others: Sequence[Tool[Any]]) -> Tool[Any]:
    from ..tools.mcp import McpAddress, McpTool

    try:
        address = McpAddress.parse(server)
    except ValueError as error:
        raise UsageError(f"--mcp: {error}") from error
    if address.url is None and shutil.which(address.command[0]) is None:
        raise InputError(f"--mcp: there is no command {address.command[0]!r}; check its name")
    logging.getLogger("mcp").addHandler(
        _NULL_HANDLER
    )  # the SDK logs complaints about the output of servers
    tool = await McpTool.connect(address, taken=[other.namespace.name for other in others])
    for note in tool.notes:
        print(f"{address}: {note}", file=sys.stderr)
    return tool
