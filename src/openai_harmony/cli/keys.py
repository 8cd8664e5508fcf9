"""``harmony keys``: the API keys of a server."""

from __future__ import annotations

import argparse
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from ..installation import missing_package
from .command import Command, add_color
from .output import Output
from .serve import add_database, database_url
from .source import InputError

if TYPE_CHECKING:
    from ..server.auth.api_keys import ApiKeys
    from ..server.store import KeyRecord

__all__ = ["KEYS"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    create = actions.add_parser("create", help="make a key and print it, once")
    create.add_argument("name", metavar="NAME", help="what the key is for")
    for option, meaning in (
        ("--requests-per-minute", "requests that begin in a minute"),
        ("--concurrent-requests", "requests at a time"),
        ("--tokens-per-minute", "tokens of prompts and answers in a minute"),
    ):
        create.add_argument(option, type=int, metavar="N", help=f"at most so many {meaning}")
    listing = actions.add_parser("list", help="list the keys; none of them can be shown again")
    revoke = actions.add_parser("revoke", help="refuse a key from now on")
    revoke.add_argument("id", metavar="ID", help="its id, as it is listed")
    for action in (create, listing, revoke):
        add_database(action)
        add_color(action)


def _run(arguments: argparse.Namespace) -> None:
    try:
        from ..server.auth.api_keys import ApiKeys
        from ..server.store import Store
    except ModuleNotFoundError as error:
        raise InputError(missing_package("keys need", error, "serve")) from error
    output = Output(arguments.color)
    with Store(database_url(arguments)) as store:
        keys = ApiKeys(store.keys)
        {"create": _create, "list": _list, "revoke": _revoke}[arguments.action](
            arguments, keys, output
        )


def _create(arguments: argparse.Namespace, keys: ApiKeys, output: Output) -> None:
    from ..server.store import KeyLimits

    limits = KeyLimits(
        requests_per_minute=arguments.requests_per_minute,
        concurrent_requests=arguments.concurrent_requests,
        tokens_per_minute=arguments.tokens_per_minute,
    )
    try:
        made = keys.create(arguments.name, limits)
    except ValueError as error:
        raise InputError(str(error)) from error
    output.line(made.key)


def _list(_: argparse.Namespace, keys: ApiKeys, output: Output) -> None:
    for record in keys.all():
        output.line(_described(record))


def _revoke(arguments: argparse.Namespace, keys: ApiKeys, output: Output) -> None:
    output.line(_described(keys.revoke(arguments.id)))


def _described(record: KeyRecord) -> str:
    limits = [f"{name.replace('_', '-')} {value}" for name, value in vars(record.limits).items()]
    known = ", ".join(limit for limit in limits if not limit.endswith(" None"))
    state = "" if record.revoked_at is None else f", revoked {_day(record.revoked_at)}"
    made = f"{record.id}  {record.name}  made {_day(record.created_at)}{state}"
    return f"{made}  {known}" if known else made


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).date().isoformat()


KEYS = Command(
    name="keys",
    summary="make, list and revoke the API keys of a server",
    examples="""\
  harmony keys create laptop
  harmony keys create ci --requests-per-minute 60
  harmony keys list
  harmony keys revoke key_0123456789abcdef01234567
""",
    add_arguments=_add_arguments,
    run=_run,
)
