"""The command ``harmony``: files in, prompts, messages, tokens or types out.

::

    input, output             reading input, writing to files and terminals
    options, runtime          options of several commands; event loops, engines and sockets
    configuration             options from variables and from a settings file
    render, parse, generate,  the commands. `render` has schema; `parse` has encode and decode;
    chat, inspect, serve,     `generate` has grammar and check; `serve` has keys
    data, mcp, prepare, demo,
    conformance
    chat_conversation, ...    the parts of `chat`

Exit codes: 0, or 1 for bad input, 2 for bad usage, 130 after Ctrl-C, 141 if the reader of the
output has closed it. Every error is one line on standard error.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from ..errors import HarmonyError
from ..installation import VERSION
from .chat import CHAT
from .conformance import CONFORMANCE
from .data import DATA
from .demo import DEMO
from .generate import CHECK, GENERATE, GRAMMAR
from .input import STANDARD_INPUT, InputError
from .inspect import INSPECT
from .mcp import MCP
from .options import Command
from .parse import DECODE, ENCODE, PARSE
from .prepare import PREPARE
from .render import RENDER, SCHEMA, TEMPLATE
from .serve import KEYS, SERVE

__all__ = ["COMMANDS", "main"]

COMMANDS: tuple[Command, ...] = (
    RENDER,
    PARSE,
    ENCODE,
    DECODE,
    SCHEMA,
    TEMPLATE,
    GRAMMAR,
    CHECK,
    GENERATE,
    CHAT,
    INSPECT,
    SERVE,
    KEYS,
    DATA,
    MCP,
    PREPARE,
    DEMO,
    CONFORMANCE,
)

BAD_INPUT = 1
INTERRUPTED = 130  # 128 and the number of SIGINT, as shells have it
READER_GONE = 141  # the same with SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `argv` is ``sys.argv[1:]`` unless given."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # the same bytes on every platform
            stream.reconfigure(encoding="utf-8", errors="replace", newline="\n")
    try:
        code = _run(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return READER_GONE
    except OSError as error:
        _discard_output()
        return _fail(f"cannot write the output: {error.strerror or error}")
    return code


def _run(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        arguments = _command_line().parse_args(words)
    except SystemExit as stop:  # after --help, --version or a usage error
        return stop.code if isinstance(stop.code, int) else 0
    arguments.words = words[1:]
    try:
        arguments.run(arguments)
    except (HarmonyError, InputError) as error:
        file = getattr(arguments, "file", None)
        return _fail(f"{error}" if file in (None, STANDARD_INPUT) else f"{file}: {error}")
    return 0


def _fail(problem: str) -> int:
    one_line = " ".join(problem.splitlines())
    print(f"harmony: error: {one_line}", file=sys.stderr)
    return BAD_INPUT


def _discard_output() -> None:
    """Send buffered output to the null device; Python would fail on it again at exit."""
    try:
        descriptor = sys.stdout.fileno()
    except OSError:  # not a real file
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, with a hint at the help."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"harmony: error: {message}; see '{self.prog} --help'\n")


def _command_line() -> argparse.ArgumentParser:
    """Make the parser; its result has the function ``run`` of the chosen command."""
    parser = _Parser(
        prog="harmony",
        description="Render and parse the harmony format of the gpt-oss models, offline.",
        epilog="'harmony COMMAND --help' explains a command and gives examples.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"harmony {VERSION}")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.name,
            help=command.summary,
            description=f"{command.summary[0].upper()}{command.summary[1:]}.",
            epilog=f"examples:\n{command.examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    return parser
