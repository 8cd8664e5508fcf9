"""The reference page of the command, in Markdown, from its parser.

``python scripts/docs/command_reference.py > docs/reference/command.md`` writes it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from openai_harmony.cli import COMMANDS
from openai_harmony.cli.command import Command, CommandParser, command_line

__all__ = ["command_reference"]

_OPENING = """\
<!-- Made by scripts/docs/command_reference.py; do not edit. -->
# The command: reference

All commands, with their arguments and options. [The command](../guides/command.md) shows them at
work. `harmony COMMAND --help` prints the same on a terminal.
"""


def command_reference() -> str:
    """Return the page."""
    (subparsers,) = _subparsers(command_line(COMMANDS))
    groups: dict[str, list[Command]] = {}
    for command in COMMANDS:
        groups.setdefault(command.purpose, []).append(command)
    parts = [_OPENING]
    for purpose, commands in groups.items():
        parts.append(f"## {purpose[0].upper()}{purpose[1:]}\n")
        for command in commands:
            parser = subparsers.choices[command.name]
            parts += [f"### harmony {command.name}\n", *_described(parser)]
            parts.append(f"```sh\n{_outdented(command.examples)}\n```\n")
    return "\n".join(parts)


def _described(parser: CommandParser) -> Iterator[str]:
    """Yield the description, the arguments and the options of a command and its actions."""
    if parser.description:
        yield f"{parser.description}\n"
    nested = list(_subparsers(parser))
    if not nested:
        yield f"```text\n{parser.short_usage()}\n```\n"
    rows = [_row(parser, action) for action in parser._actions if _is_shown(action)]
    if rows:
        yield "\n".join(["| Argument or option | Meaning |", "| --- | --- |", *rows, ""])
    for subparsers in nested:
        helps = {action.dest: action.help for action in subparsers._choices_actions}
        for name, subparser in subparsers.choices.items():
            summary = helps[name] or ""
            yield f"#### {subparser.prog}\n\n{summary[0].upper()}{summary[1:]}.\n"
            yield from (part for part in _described(subparser) if part != subparser.description)


def _subparsers(
    parser: CommandParser,
) -> Iterator[argparse._SubParsersAction[CommandParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield action


def _is_shown(action: argparse.Action) -> bool:
    hidden = (argparse._HelpAction, argparse._SubParsersAction)
    return action.help != argparse.SUPPRESS and not isinstance(action, hidden)


def _row(parser: CommandParser, action: argparse.Action) -> str:
    """Return the row of an argument; `format_help` of Python has no other form of its parts."""
    formatter = argparse.HelpFormatter(parser.prog, width=10_000)
    invocation = formatter._format_action_invocation(action)
    meaning = formatter._expand_help(action)
    if not action.option_strings and action.choices is not None:
        invocation = str(action.metavar)
    return f"| `{_in_cell(invocation)}` | {_in_cell(meaning)} |"


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;") if "`" not in text else text


def _outdented(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


if __name__ == "__main__":
    sys.stdout.write(command_reference())
