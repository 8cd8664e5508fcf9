"""``harmony completion``: scripts with which shells complete the command."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence

from ..installation import needing_extra
from .command import Command, command_line
from .output import Output


class Completion(Command):
    """Completes the given commands."""

    name = "completion"
    purpose = "set up"
    summary = "print the script that completes commands in bash, zsh or fish"
    examples = """\
  eval "$(harmony completion bash)"    # in ~/.bashrc
  eval "$(harmony completion zsh)"     # in ~/.zshrc, after compinit
  mkdir -p ~/.config/fish/completions  # and for fish:
  harmony completion fish > ~/.config/fish/completions/harmony.fish
"""

    def __init__(self, commands: Callable[[], Sequence[Command]]) -> None:
        self._commands = commands

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the name of the shell."""
        parser.add_argument(
            "shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish"
        )

    def run(self, arguments: argparse.Namespace) -> None:
        """Print the script."""
        with needing_extra("completion needs", "terminal"):
            import shtab
        completers = {
            "FILE": shtab.FILE,
            "FOLDER": shtab.DIRECTORY,
            "BACKEND": shtab.DIRECTORY,
            "MODULE": shtab.FILE,
            "MODEL": _MODEL,
        }
        parser = command_line(self._commands())
        for action in _actions(parser):
            if action.metavar in completers:
                action.complete = completers[action.metavar]  # type: ignore[attr-defined]
        Output().line(shtab.complete(parser, arguments.shell))


_MODEL = {
    "bash": "_harmony_demo_or_file",
    "zsh": "_harmony_demo_or_file",
    "fish": "(_harmony_demo_or_file)",
    "preamble": {
        "bash": """
_harmony_demo_or_file() {
  compgen -W demo -- "$1"
  compgen -f -- "$1"
}
""",
        "zsh": """
_harmony_demo_or_file() {
  compadd demo
  _files
}
""",
        "fish": """
function _harmony_demo_or_file
  echo demo
  __fish_complete_path (commandline -ct)
end
""",
    },
}
"""The model that comes with the package, or a folder; `inspect` also takes a file there."""


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the actions of a parser and of its subcommands."""
    for action in parser._actions:
        yield action
        if isinstance(action.choices, dict):
            for subparser in action.choices.values():
                yield from _actions(subparser)
