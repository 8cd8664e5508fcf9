"""What a command is, and the arguments that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

from ..config import SchemaDialect
from ..conversation.messages import Role

__all__ = ["Command", "add_color", "add_file", "add_schema_dialect", "role_named", "role_names"]


@dataclass(frozen=True)
class Command:
    """One command: how it is called, what its help says, and the function that runs it."""

    name: str
    summary: str
    examples: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]


def add_file(parser: argparse.ArgumentParser, holds: str) -> None:
    """Add the argument FILE; `holds` says what is in it."""
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        default="-",
        help=f"{holds}; - or nothing reads standard input",
    )


def add_color(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--color``."""
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto (the default) colours on a terminal, unless NO_COLOR is set",
    )


def add_schema_dialect(parser: argparse.ArgumentParser, option: str) -> None:
    """Add the option that says how JSON Schemas are written."""
    parser.add_argument(
        option,
        dest="schema_dialect",
        choices=get_args(SchemaDialect),
        default="typescript",
        help="reference writes schemas with the bytes of the reference library, losses included",
    )


def role_names() -> list[str]:
    """The values of an option ``--role``."""
    return [*(role.value for role in Role), "none"]


def role_named(name: str) -> Role | None:
    """The role that an option ``--role`` names."""
    return None if name == "none" else Role(name)
