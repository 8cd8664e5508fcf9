"""``harmony data``: what a server has stored, by its owners; a copy of it, and its deletion."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping

from ..installation import needing_extra
from .command import Command
from .input import InputError
from .options import add_color
from .output import Output
from .serve import add_database, database_url


class _Data(Command):
    name = "data"
    purpose = "run a model"
    summary = "list, export, delete and back up what a server has stored"
    extras = "serve"
    examples = """\
  harmony data owners
  harmony data export --owner key_0123456789abcdef01234567 > data.jsonl
  harmony data delete --owner key_0123456789abcdef01234567 --yes
  harmony data backup harmony-2026-01-31.db
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
        owners = actions.add_parser("owners", help="list the owners, and how much each has stored")
        export = actions.add_parser(
            "export", help="print all that an owner has stored, as lines of JSON"
        )
        delete = actions.add_parser("delete", help="delete all that an owner has stored")
        for action in (export, delete):
            action.add_argument(
                "--owner",
                metavar="ID",
                required=True,
                help="the id of an API key; '' is the owner of what was stored without keys",
            )
        delete.add_argument(
            "--yes", action="store_true", help="delete (default: count what would be deleted)"
        )
        backup = actions.add_parser(
            "backup", help="copy a SQLite database, even while it is in use"
        )
        backup.add_argument("target", metavar="FILE", help="the new file")
        for action in (owners, export, delete, backup):
            add_database(action)
            add_color(action)

    def run(self, arguments: argparse.Namespace) -> None:
        with needing_extra("stored data needs", "serve"):
            from ..apis.wire_events import json_text
            from ..server.store import Store
        output = Output(arguments.color)
        with Store(database_url(arguments, make_folder=False), must_exist=True) as store:
            if arguments.action == "backup":
                store.back_up(arguments.target)
                output.line(f"{arguments.target} is a copy of the database")
            elif arguments.action == "owners":
                owners = store.owned.owners()
                if not owners:
                    print("harmony: nobody has stored anything", file=sys.stderr)
                for owner in owners:
                    name = owner or "'' (requests without a key)"
                    output.line(f"{name}  {_shown(store.owned.count(owner))}")
            elif not store.owned.count(arguments.owner):
                raise InputError(
                    f"there is no owner {arguments.owner!r}; 'harmony data owners' lists them"
                )
            elif arguments.action == "export":
                for row in store.owned.export(arguments.owner):
                    output.line(json_text(row._asdict()))
            elif not arguments.yes:
                counted = _shown(store.owned.count(arguments.owner))
                output.line(f"{counted}; repeat the command with --yes to delete it")
            else:
                output.line(f"deleted: {_shown(store.owned.delete(arguments.owner))}")


DATA = _Data()


_PLURAL = re.compile("(?<=ch)es$|s$")


def _shown(counts: Mapping[str, int]) -> str:
    shown = []
    for table, count in counts.items():
        name = table.replace("_", " ")
        shown.append(f"{count} {_PLURAL.sub('', name) if count == 1 else name}")
    return ", ".join(shown) or "nothing"
