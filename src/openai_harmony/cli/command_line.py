"""The commands as one parser of arguments."""

from __future__ import annotations

import argparse
from typing import NoReturn

from .. import __version__
from .chat import CHAT
from .command import Command
from .demo import DEMO
from .generate import GENERATE
from .grammar import CHECK, GRAMMAR
from .inspect import INSPECT
from .keys import KEYS
from .mcp import MCP
from .parse import PARSE
from .prepare import PREPARE
from .render import RENDER
from .schema import SCHEMA
from .serve import SERVE
from .text import DECODE, ENCODE

__all__ = ["command_line"]

COMMANDS: tuple[Command, ...] = (
    RENDER,
    PARSE,
    ENCODE,
    DECODE,
    SCHEMA,
    GRAMMAR,
    CHECK,
    GENERATE,
    CHAT,
    INSPECT,
    SERVE,
    KEYS,
    MCP,
    PREPARE,
    DEMO,
)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line that says where help is."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"harmony: error: {message}; see '{self.prog} --help'\n")


def command_line() -> argparse.ArgumentParser:
    """Return the parser; what it parses has the function ``run`` of the chosen command."""
    parser = _Parser(
        prog="harmony",
        description="Render and parse the harmony format of the gpt-oss models, offline.",
        epilog="'harmony COMMAND --help' explains a command and gives examples.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"harmony {__version__}")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    for command in COMMANDS:
        _add(commands, command)
    return parser


def _add(commands: argparse._SubParsersAction[_Parser], command: Command) -> None:
    parser = commands.add_parser(
        command.name,
        help=command.summary,
        description=f"{command.summary[0].upper()}{command.summary[1:]}.",
        epilog=f"examples:\n{command.examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    parser.set_defaults(run=command.run)
