"""The command ``harmony``: files in, prompts, messages, tokens or types out.

::

    command                   a command and its command line
    input, output             reading input, writing to files and terminals
    options, runtime          options of several commands; event loops, engines and sockets
    configuration             options from variables and from a settings file
    render, parse, generate,  the commands. `render` has schema; `parse` has encode and decode;
    chat, inspect, serve,     `generate` has grammar and check; `serve` has keys
    models, doctor, data, mcp, prepare, demo,
    completion
    chat_conversation, ...    the parts of `chat`

Exit codes: 0, or 1 for bad input, 2 for wrong usage and for a file that cannot be read, 130 after
Ctrl-C, 141 if the reader of the output has closed it. Every error is one line on standard error.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from ..errors import HarmonyError
from .chat import CHAT
from .command import BAD_USAGE, Command, command_line
from .completion import Completion
from .data import DATA
from .demo import DEMO
from .doctor import DOCTOR
from .generate import CHECK, GENERATE, GRAMMAR
from .input import InputError, UsageError
from .inspect import INSPECT
from .mcp import MCP
from .models import MODELS
from .output import Output
from .parse import DECODE, ENCODE, PARSE
from .prepare import PREPARE
from .render import RENDER, SCHEMA, TEMPLATE
from .serve import KEYS, SERVE

__all__ = ["COMMANDS", "main"]

COMMANDS: tuple[Command, ...] = (
    CHAT,
    GENERATE,
    SERVE,
    MODELS,
    DOCTOR,
    KEYS,
    DATA,
    MCP,
    INSPECT,
    DEMO,
    RENDER,
    PARSE,
    ENCODE,
    DECODE,
    SCHEMA,
    GRAMMAR,
    CHECK,
    PREPARE,
    TEMPLATE,
    Completion(lambda: COMMANDS),
)

INTERRUPTED = 130  # 128 and the number of SIGINT, as shells have it
READER_GONE = 141  # the same with SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `argv` is ``sys.argv[1:]`` unless given."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it is closed, as for a daemon
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
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
    words = (sys.argv[1:] if argv is None else list(argv)) or ["--help"]
    if words[0] == "help":
        words = [*words[1:], "--help"]
    elif words == ["version"]:
        words = ["--version"]
    # Making the options of all commands takes ten times as long as reading those of one.
    chosen = [command for command in COMMANDS if command.name == words[0]]
    try:
        arguments = command_line(chosen or COMMANDS).parse_args(words)
    except SystemExit as stop:  # after --help, --version or a usage error
        return stop.code if isinstance(stop.code, int) else BAD_USAGE
    arguments.words = words[1:]
    try:
        arguments.run(arguments)
    except UsageError as error:
        return _fail(f"{error}; see 'harmony {arguments.command} --help'", error.exit_code)
    except InputError as error:
        return _fail(str(error), error.exit_code)
    except HarmonyError as error:
        return _fail(str(error))
    return 0


def _fail(problem: str, code: int = InputError.exit_code) -> int:
    one_line = Output.printable(" ".join(problem.splitlines()))
    print(f"harmony: error: {one_line}", file=sys.stderr)
    return code


def _discard_output() -> None:
    """Send buffered output to the null device; Python would fail on it again at exit."""
    try:
        descriptor = sys.stdout.fileno()
    except OSError:  # not a real file
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
