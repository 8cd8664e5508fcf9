"""The options that give a model tools, and the tools that they open."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..installation import missing_package
from .source import InputError

if TYPE_CHECKING:
    from ..tools.browser import Browser, LocalIndex, SearchBackend
    from ..tools.tool import Tool

__all__ = ["add_built_in_tools", "add_mcp", "open_tools", "tool_options_given"]

_KEYS = {"brave": "BRAVE_API_KEY", "exa": "EXA_API_KEY", "you": "YDC_API_KEY"}
_SEARXNG = "searxng:"
_NOWHERE = logging.NullHandler()


def add_built_in_tools(parser: argparse.ArgumentParser) -> None:
    """Add the options for `browser` and `python`."""
    keys = ", ".join(f"{name} ({key})" for name, key in _KEYS.items())
    parser.add_argument(
        "--browser",
        metavar="BACKEND",
        help="the tool browser; it searches a folder of documents, or the web by "
        f"{_SEARXNG}URL, or by a service whose key is in a variable: {keys}",
    )
    parser.add_argument(
        "--python", action="store_true", help="the tool python: notebooks in a sandbox"
    )


def add_mcp(parser: argparse.ArgumentParser) -> None:
    """Add the option for servers of the Model Context Protocol."""
    parser.add_argument(
        "--mcp",
        metavar="SERVER",
        action="append",
        default=[],
        help="the tools of an MCP server: a command that starts it, or its URL, with NAME= before "
        "it or not; may be given several times",
    )


def tool_options_given(arguments: argparse.Namespace) -> list[str]:
    """Return the names of the options that were given."""
    return [f"--{name}" for name in ("browser", "python", "mcp") if getattr(arguments, name, None)]


async def open_tools(arguments: argparse.Namespace) -> list[Tool[Any]]:
    """Open the tools that the options name; close each.

    Raises `InputError`, and `HarmonyError` where a notebook or a server does not start.
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
    logging.getLogger("mcp").addHandler(_NOWHERE)  # servers write what the SDK complains about
    tool = await McpTool.connect(address, taken=[other.namespace.name for other in others])
    for note in tool.notes:
        print(f"{address}: {note}", file=sys.stderr)
    return tool
