"""A command and its command line: wrong usage is one line with a remedy, and exit code 2."""

from __future__ import annotations

import argparse
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, NoReturn

from ..errors import closest, did_you_mean
from ..installation import VERSION

BAD_USAGE = 2

_PLAIN_WORDS = (  # for the errors of argparse
    (r"^argument (\S+): not allowed with argument (\S+)$", r"use \1 or \2, not both"),
    (r"^argument (\S+): expected (?:one|at least one) argument$", r"\1 needs a value"),
    (r"^one of the arguments (\S+) (\S+) is required$", r"use \1 or \2"),
    (r"^one of the arguments (\S+) (\S+) (\S+) is required$", r"use \1, \2 or \3"),
    (r"^argument (\S+): (must|cannot) be ", r"\1 \2 be "),
    (r"^argument (\S+: )", r"\1"),
)

_HELP = """\
usage: harmony COMMAND ...

Chat with gpt-oss, serve it, and read and write its response format, harmony.

examples:
  harmony chat                 chat with the small model in the package
  harmony inspect chat.json    see a conversation and its tokens in the browser
  harmony serve demo           serve the OpenAI APIs at http://127.0.0.1:8000/v1

{commands}

options:
  -h, --help   show this help
  --version    show the version

'harmony help COMMAND' explains a command and gives examples.
"""


class Command(ABC):
    """A command: its name, its help, its arguments, and what it does.

    `purpose` is the heading of its group in the help of `harmony`.
    """

    name: ClassVar[str]
    purpose: ClassVar[str]
    summary: ClassVar[str]
    examples: ClassVar[str]
    extras: ClassVar[str] = ""
    """The extras that the command needs, as a phrase for its help."""

    @abstractmethod
    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments to the command's parser."""

    @abstractmethod
    def run(self, arguments: argparse.Namespace) -> None:
        """Run the command; raises `InputError` or `HarmonyError`."""


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line, with the closest name and a hint at the help."""

    def __init__(self, **options: Any) -> None:
        formatter = argparse.RawDescriptionHelpFormatter
        super().__init__(**{"formatter_class": formatter, "allow_abbrev": False, **options})
        self._is_second_try = False

    def error(self, message: str) -> NoReturn:
        """Write the error to standard error, and exit."""
        for pattern, words in _PLAIN_WORDS:
            message = re.sub(pattern, words, message)
        for action in self._actions:
            if action.choices and message.endswith(f"required: {action.metavar}"):
                message += f" ({', '.join(map(str, action.choices))})"
        self.exit(BAD_USAGE, f"harmony: error: {message}; see '{self.prog} --help'\n")

    def format_help(self) -> str:
        """Return the help; its usage has only what is required, since the options follow."""
        self.usage = self.short_usage()
        return super().format_help()

    def short_usage(self) -> str:
        """Return the usage without the options that may be left out."""
        formatter = argparse.HelpFormatter(self.prog)
        words = [self.prog]
        for action in self._actions:
            if action.required and action.option_strings:
                words.append(formatter._format_action_invocation(action))
        for group in self._mutually_exclusive_groups:
            if group.required:
                choices = map(formatter._format_action_invocation, group._group_actions)
                words.append(f"({' | '.join(choices)})")
        words.append("[options]")
        for action in self._actions:
            if action.nargs == argparse.PARSER:
                return f"{self.prog} {action.metavar} ..."
            if not action.option_strings:
                words.append(f"[{action.metavar}]" if action.nargs == "?" else str(action.metavar))
        return " ".join(words)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse all arguments; an unknown one is an error also in the parser of a subcommand."""
        words = sys.argv[1:] if args is None else list(args)
        if self._is_second_try:
            return super().parse_known_args(words, namespace)
        # A copy, because the second try begins without what the first one has read.
        parsed, unknown = super().parse_known_args(words, copy(namespace))
        if unknown and not any(word.startswith("-") for word in unknown):
            # Python before 3.13 gives an optional argument up when an option follows the first one.
            self._is_second_try = True
            try:
                parsed, unknown = self.parse_known_intermixed_args(words, namespace)
            finally:
                self._is_second_try = False
        if unknown:
            self._refuse(unknown[0])
        return parsed, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        remedy = did_you_mean(str(value), names, f"choose from {', '.join(names)}")
        if action.option_strings:
            raise argparse.ArgumentError(action, f"cannot be {value!r}; {remedy}")
        kind = str(action.metavar or action.dest).lower()
        raise argparse.ArgumentError(None, f"there is no {kind} {value!r}; {remedy}")

    def _refuse(self, word: str) -> NoReturn:
        name = word.partition("=")[0]
        if not name.startswith("-"):
            self.error(f"there is one argument too many: {word!r}")
        for action in self._actions:
            if not action.option_strings and name == f"--{str(action.metavar).lower()}":
                self.error(
                    f"there is no option {name}; write {action.metavar} without an option name, "
                    f"as in '{self.prog} {action.metavar}'"
                )
        options = (option for action in self._actions for option in action.option_strings)
        # Without the dashes, which all options share: "effort" is not "format".
        names = [option[2:] for option in options if option.startswith("--")]
        meant = closest(name.strip("-"), names, 0.75)
        self.error(f"there is no option {name}" + (f"; did you mean --{meant}?" if meant else ""))


class _MainParser(CommandParser):
    """The parser of ``harmony``, whose help groups the commands by their purpose."""

    def __init__(self, commands: Sequence[Command]) -> None:
        super().__init__(prog="harmony")
        self._commands = commands
        self._names = {command.name for command in commands}

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = sys.argv[1:] if args is None else list(args)
        if words and words[0].startswith("-") and words[0] not in self._option_string_actions:
            command = next((word for word in words[1:] if word in self._names), None)
            if command is not None:
                self.error(
                    f"{words[0]} comes after the command, if it has this option; write "
                    f"'harmony {command} {words[0]} ...'"
                )
            self._refuse(words[0])  # argparse would first miss the command
        return super().parse_known_args(words, namespace)

    def format_help(self) -> str:
        width = max(len(command.name) for command in self._commands)
        groups: dict[str, list[str]] = {}
        for command in self._commands:
            line = f"  {command.name:{width}}  {command.summary}"
            groups.setdefault(f"{command.purpose}:", []).append(line)
        parts = ["\n".join([purpose, *lines]) for purpose, lines in groups.items()]
        return _HELP.format(commands="\n\n".join(parts))


def command_line(commands: Sequence[Command]) -> CommandParser:
    """Make the parser; its result has the function ``run`` of the chosen command."""
    parser = _MainParser(commands)
    parser.add_argument("--version", action="version", version=f"harmony {VERSION}")
    subparsers = parser.add_subparsers(
        metavar="COMMAND", dest="command", required=True, parser_class=CommandParser
    )
    for command in commands:
        subparser = subparsers.add_parser(
            command.name,
            help=command.summary,
            description=_sentence(command.summary)
            + (f"\nIt needs the extra {command.extras}." if command.extras else ""),
            epilog=f"examples:\n{command.examples}",
        )
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
        for action in subparser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for choice in action._choices_actions:
                    action.choices[choice.dest].description = _sentence(choice.help or "")
    return parser


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
