"""The command ``harmony``: files in, prompts, messages, tokens or types out.

::

    source, output            reading input, writing to files and terminals
    command, request,         what a command is, and the arguments that commands share
    sampling, tool_options
    listener, loading,        sockets, models and loops, for those that need them
    event_loop
    render, parse, text,      the commands, each in a module; of `chat`, the modules
    schema, grammar, demo,    that begin with its name
    generate, chat, inspect,
    serve, keys, mcp, prepare
    command_line              the commands as one parser of arguments

Exit codes: 0, or 1 for bad input, 2 for bad usage, 130 after Ctrl-C, 141 when the reader of the
output has gone. Every error is one line on standard error.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from ..errors import HarmonyError
from .command_line import command_line
from .source import InputError, named

__all__ = ["main"]

BAD_INPUT = 1
INTERRUPTED = 130  # 128 and the number of SIGINT, as shells have it
READER_GONE = 141  # the same with SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `argv` is ``sys.argv[1:]`` unless given."""
    _use_utf8()
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
    try:
        arguments = command_line().parse_args(argv)
    except SystemExit as stop:  # after --help, --version or a usage error
        return stop.code if isinstance(stop.code, int) else 0
    return _run_command(arguments)


def _run_command(arguments: argparse.Namespace) -> int:
    try:
        arguments.run(arguments)
    except (HarmonyError, InputError) as error:
        file = getattr(arguments, "file", None)
        return _fail(f"{named(file)}{error}")
    return 0


def _fail(problem: str) -> int:
    one_line = " ".join(problem.splitlines())
    print(f"harmony: error: {one_line}", file=sys.stderr)
    return BAD_INPUT


def _use_utf8() -> None:
    """Write UTF-8 and plain line ends, whatever the platform prefers."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace", newline="\n")


def _discard_output() -> None:
    """Send what is still buffered nowhere; Python would fail on it once more when it exits."""
    try:
        descriptor = sys.stdout.fileno()
    except OSError:  # not a real file
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
