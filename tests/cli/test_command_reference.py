"""The reference page of the command names all that its parser has."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from openai_harmony.cli import COMMANDS
from openai_harmony.cli.command import command_line

FILE = Path(__file__).parents[2] / "scripts" / "docs" / "command_reference.py"


@pytest.fixture(scope="module")
def page() -> str:
    spec = importlib.util.spec_from_file_location("command_reference", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text: str = module.command_reference()
    return text


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from parsers(subparser)


def test_every_option_is_in_the_section_of_its_command(page: str) -> None:
    for parser in list(parsers(command_line(COMMANDS)))[1:]:
        heading = next(line for line in page.splitlines() if line.endswith(f"# {parser.prog}"))
        section = page.partition(f"{heading}\n")[2].partition("\n#")[0]
        for action in parser._actions:
            if action.help == argparse.SUPPRESS or action.option_strings == ["-h", "--help"]:
                continue
            if isinstance(action, argparse._SubParsersAction):
                continue
            names = action.option_strings or [str(action.metavar)]
            assert all(f"`{name}" in section or f", {name}" in section for name in names), names
    assert "| `--output`" not in page.partition("### harmony parse")[2].partition("\n###")[0]


def test_cells_of_tables_stay_whole(page: str) -> None:
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert all(line.replace("\\|", "").count("|") == 3 for line in rows)
