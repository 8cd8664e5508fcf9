"""The reference page of the command names all that its parser has."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from gpt_oss_harmony.cli import COMMANDS
from gpt_oss_harmony.cli.command import command_line

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "command.md").read_text("utf-8")


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from parsers(subparser)


def test_every_option_is_in_the_section_of_its_command() -> None:
    for parser in list(parsers(command_line(COMMANDS)))[1:]:
        heading = next(line for line in PAGE.splitlines() if line.endswith(f"# `{parser.prog}`"))
        section = PAGE.partition(f"{heading}\n")[2].partition("\n#")[0]
        for action in parser._actions:
            if action.help == argparse.SUPPRESS or action.option_strings == ["-h", "--help"]:
                continue
            if isinstance(action, argparse._SubParsersAction):
                continue
            names = action.option_strings or [str(action.metavar)]
            assert all(f"`{name}" in section for name in names), names
    assert "--output" not in PAGE.partition("## `harmony parse`")[2].partition("\n##")[0]


def test_cells_of_tables_stay_whole() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    assert all(line.replace("\\|", "").count("|") == 3 for line in rows)
