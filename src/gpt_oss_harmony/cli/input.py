"""Input: a file or standard input, read as text, JSON or a conversation.

The line break at the end of a text file is not part of the text. It is removed here, and added
where text is written.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from ..apis.chat.input import conversation_from_chat, is_chat
from ..apis.current_date import iso_date
from ..apis.notices import Unread, notices, unread_of_chat, unread_of_harmony
from ..conversation.json_field import RepeatedFields, json_problem, noting, strict_json
from ..conversation.messages import Conversation
from ..errors import HarmonyError
from .command import BAD_USAGE
from .output import Output

STANDARD_INPUT = "-"


class InputError(Exception):
    """The input is not what the command expects; `file` is the one that the message names."""

    exit_code: ClassVar[int] = 1
    file: str = ""


class UnreadableError(InputError):
    """A file cannot be read, so that there is nothing to judge; grep and diff exit with 2, too."""

    exit_code = BAD_USAGE


class UsageError(InputError):
    """The arguments do not fit together, or one of them has a wrong value."""

    exit_code = BAD_USAGE


@contextmanager
def named_in_errors(file: str) -> Iterator[None]:
    """Name the file in errors about its contents."""
    try:
        yield
    except (HarmonyError, InputError) as error:
        is_named = isinstance(error, InputError) and error.file
        if file == STANDARD_INPUT or isinstance(error, UsageError) or is_named:
            raise
        kind = UnreadableError if isinstance(error, UnreadableError) else InputError
        named = kind(f"{file}: {error}")
        named.file = file
        raise named from error


def read_text(file: str, *, of_option: bool = False) -> str:
    """Read a file, or standard input for ``-``, without the line break at the end.

    Whoever writes text in the place of FILE is told how to give it; nobody means that in a file
    `of_option`.
    """
    with named_in_errors(file):
        try:
            if file != STANDARD_INPUT:
                data = Path(file).read_bytes()
            elif sys.stdin is None:
                raise UnreadableError("standard input is closed; name a file")
            else:
                if sys.stdin.isatty():
                    print("harmony: reading standard input; Ctrl-D ends it", file=sys.stderr)
                data = sys.stdin.buffer.read()
            text = data.decode("utf-8-sig")
        except OSError as error:
            problem = f"cannot be read ({error.strerror or error}); check the path"
            if not of_option:
                problem += "; text itself goes to standard input (echo TEXT | harmony ...)"
            raise UnreadableError(problem) from error
        except UnicodeDecodeError as error:
            raise UnreadableError(f"not UTF-8 (at byte {error.start}); save it as UTF-8") from error
    return text.removesuffix("\r\n" if text.endswith("\r\n") else "\n")


def read_json(file: str, *, of_option: bool = False) -> tuple[Any, str]:
    """Read JSON; return the value and its text."""
    text = read_text(file, of_option=of_option)
    with named_in_errors(file):
        if not text.strip():
            raise InputError("there is no input; expected JSON")
        repeated = RepeatedFields()
        try:
            value = strict_json(text, object_pairs_hook=repeated)
        except (ValueError, RecursionError) as error:
            raise InputError(json_problem(error)) from error
    for name in repeated.names[:1]:
        warn(f"an object has the field {name!r:.60} twice; the last one counts")
    return value, text


def add_file(parser: argparse.ArgumentParser, holds: str) -> None:
    """Add the argument FILE; `holds` describes its contents for the help."""
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        default="-",
        help=f"{holds} (default: standard input, which - means, too)",
    )


def add_request(parser: argparse.ArgumentParser) -> None:
    """Add the argument FILE for a conversation, and the options for reading it."""
    add_file(parser, "a harmony conversation or a Chat Completions request, as JSON")
    parser.add_argument(
        "--from",
        dest="form",
        choices=("harmony", "chat"),
        help="the form of the input (default: harmony if a message has a channel, recipient or "
        "content type, or system or developer content; else chat)",
    )
    parser.add_argument(
        "--date",
        type=date_argument,
        metavar="YYYY-MM-DD",
        help="the current date in the prompt, for chat input (default: no date)",
    )


def read_request(arguments: argparse.Namespace) -> tuple[Conversation, Mapping[str, Any]]:
    """Read a conversation, and the fields beside its messages."""
    raw, text = read_json(arguments.file)
    fields = raw if isinstance(raw, Mapping) else {}
    with named_in_errors(arguments.file):
        if arguments.form == "chat" or (arguments.form is None and is_chat(raw)):
            noted = noting(raw)
            conversation = conversation_from_chat(noted, conversation_start_date=arguments.date)
            return _with_warnings(conversation, unread_of_chat(noted)), fields
        if arguments.date is not None:
            raise UsageError(
                "--date is for Chat Completions requests, and this is a harmony conversation; "
                "write the date into its system content as conversation_start_date"
            )
        text = f'{{"messages": {text}}}' if isinstance(raw, list) else text
        conversation = Conversation.from_json(text)
        messages = raw if isinstance(raw, list) else fields["messages"]
        return _with_warnings(conversation, unread_of_harmony(messages, conversation)), fields


def _with_warnings(conversation: Conversation, unread: list[Unread]) -> Conversation:
    for notice in notices(conversation, unread):
        warn(notice.text)
    return conversation


def date_argument(text: str) -> str:
    """Read a date, for the `type` of an argument."""
    try:
        return iso_date(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def warn(problem: str) -> None:
    """Write a warning to standard error."""
    print(f"harmony: warning: {Output.printable(problem)}", file=sys.stderr)


def warn_if_shared(option: str, name: str) -> None:
    """Warn about a file with secrets that other users of this machine can read."""
    try:
        mode = os.stat(name).st_mode
    except OSError:
        return  # who reads it reports why it cannot be read
    if os.name == "posix" and stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
        problem = f"other users can read {option} {name}, which has secrets; run 'chmod 600' on it"
        warn(problem)
