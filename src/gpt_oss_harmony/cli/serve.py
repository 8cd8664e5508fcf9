"""``harmony serve`` and ``harmony keys``: a server of the OpenAI APIs, and its API keys."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..apis.current_date import TODAY
from ..engines.model_names import find_source, is_url
from ..errors import without_secrets
from ..installation import needing_extra
from ..server.settings import Setting, Settings, declared_settings
from .command import Command
from .configuration import Configuration, add_config
from .input import InputError, UsageError, date_argument
from .listening import bind, start_listening
from .load_model import described, follow_rank_0, let_threads_sleep
from .options import (
    add_api_keys,
    add_built_in_tools,
    add_color,
    add_engine,
    add_mcp,
    add_model,
    add_port,
    api_keys,
    given_engine_options,
    natural,
    open_tools,
    positive,
    up_to,
)
from .output import Output
from .state_folder import default_database, state_folder

if TYPE_CHECKING:
    import socket

    from ..server.store import KeyRecord

_EVERY_ADDRESS = ("", "0.0.0.0", "::")


class _Serve(Command):
    name = "serve"
    purpose = "run a model"
    summary = "serve a model by the APIs of OpenAI, Anthropic and Ollama"
    extras = "serve, and transformers, llamacpp or mlx for another model than demo in this process"
    examples = """\
  harmony serve demo
  harmony serve gpt-oss-20b-mxfp4.gguf
  harmony serve openai/gpt-oss-20b --host 0.0.0.0 --api-key-file keys.txt
  harmony serve demo --allowed-origin http://localhost:5173
  harmony serve --config serve.toml --print-config
  harmony serve http://localhost:8001 --served-model-name gpt-oss-120b
  harmony serve openai/gpt-oss-20b --browser ./documents --python
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_model(parser, nargs="?")
        parser.add_argument(
            "--host", default="127.0.0.1", help="listen at this address (default: %(default)s)"
        )
        add_port(parser, "listen at this port; 0 takes a free port (default: %(default)s)", 8000)
        parser.add_argument(
            "--served-model-name",
            metavar="NAME",
            nargs="+",
            action="extend",
            default=[],
            help="the model names that requests may use (default: the model's own name)",
        )
        add_api_keys(parser)
        parser.add_argument(
            "--allowed-host",
            metavar="NAME",
            action="append",
            default=[],
            help="answer requests to this host name, too; a server without API keys answers only "
            "those to localhost and --host; repeatable",
        )
        parser.add_argument(
            "--allowed-origin",
            metavar="ORIGIN",
            action="append",
            default=[],
            help="let web pages of this origin use the server, such as https://app.example; "
            "repeatable",
        )
        add_database(parser)
        _add_key_file(parser)
        parser.add_argument(
            "--print-config",
            action="store_true",
            help="print all options as a settings file, with the source of each, and exit",
        )
        parser.add_argument(
            "--date",
            type=lambda text: text if text in (TODAY, "none") else date_argument(text),
            metavar="YYYY-MM-DD",
            default=TODAY,
            help="the current date in prompts, or none (default: today, in UTC)",
        )
        for name, setting in declared_settings():
            if setting.help:
                _add_setting(parser, name, setting)
        add_engine(parser)
        add_built_in_tools(parser)
        add_mcp(parser)
        parser.add_argument(
            "--max-stored-gib",
            type=natural,
            metavar="N",
            default=4,
            help="the most GiB that one API key may have stored: files, responses and "
            "conversations; 0 is no limit (default: %(default)s)",
        )
        parser.add_argument(
            "--keep-days",
            type=up_to(36_500, "days"),
            metavar="DAYS",
            default=30,
            help="delete responses after this many days; 0 keeps them (default: %(default)s)",
        )
        parser.add_argument(
            "--log-level",
            choices=("debug", "info", "warning", "error"),
            default="warning",
            help="what to log to standard error; info logs each request (default: %(default)s)",
        )
        parser.add_argument(
            "--log-format",
            choices=("text", "json"),
            default="text",
            help="the form of the log (default: %(default)s)",
        )

    def run(self, arguments: argparse.Namespace) -> None:
        configuration = Configuration(self, arguments.words)
        for problem in configuration.misspelled:
            print(f"warning: {problem}", file=sys.stderr)
        if arguments.print_config:
            print(configuration.to_toml())
            return
        arguments = configuration.arguments
        if not arguments.model:
            raise UsageError(
                "there is no MODEL; write 'harmony serve demo', or set HARMONY_MODEL, or model in "
                "the file of --config"
            )
        keys = api_keys(arguments)
        with needing_extra("the server needs", "serve"):
            from ..server.logs import configure_logs
            from ..web import read_host, read_origin
        configure_logs(arguments.log_format, arguments.log_level)
        options = given_engine_options(arguments, arguments.model)
        if not is_url(arguments.model):
            # Before a database is made; `open_engine` looks again, and asks the hub.
            find_source(arguments.model, options.get("engine"), options)
            options.setdefault("max_requests", arguments.max_running)
            if arguments.context_length is not None:
                options.setdefault("context_length", arguments.context_length)
        if follow_rank_0(arguments.model, options):
            return
        date = arguments.date
        own_hosts = () if arguments.host in _EVERY_ADDRESS else (arguments.host,)
        try:
            hosts = tuple(map(read_host, (*own_hosts, *arguments.allowed_host)))
            origins = tuple(map(read_origin, arguments.allowed_origin))
        except ValueError as error:
            raise UsageError(str(error)) from error
        settings = Settings(
            model_names=tuple(arguments.served_model_name),
            database=database_url(arguments),
            key_file=str(_key_file(arguments)),
            api_keys=keys,
            allowed_hosts=hosts,
            allowed_origins=origins,
            current_date=None if date == "none" else date,
            max_stored_bytes=arguments.max_stored_gib * 1024**3 or None,
            keep_days=arguments.keep_days or None,
            **{name: getattr(arguments, name) for name, known in declared_settings() if known.help},
        )
        # The server raises the signal again when it has stopped; the engine is still to be closed.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        asyncio.run(_serve(arguments, settings, options))


SERVE = _Serve()


def _add_setting(parser: argparse.ArgumentParser, name: str, setting: Setting) -> None:
    """Add the option of a setting of the server."""
    option, default = f"--{name.replace('_', '-')}", getattr(Settings, name)
    if isinstance(default, bool):
        parser.add_argument(
            option,
            action=argparse.BooleanOptionalAction,
            default=default,
            help=f"{setting.help} (default: {'on' if default else 'off'})",
        )
        return

    def read(text: str) -> int | str | None:
        if text == setting.off:
            return None
        return text if setting.least is None else positive(text, setting.least)

    shown = "" if default is None else " (default: %(default)s)"
    parser.add_argument(
        option,
        type=read,
        choices=setting.choices or None,
        metavar=None if setting.choices else "N",
        default=default,
        help=setting.help + shown,
    )


def add_database(parser: argparse.ArgumentParser) -> None:
    """Add the options for the database of a server, and for the file that may name it."""
    add_config(parser)
    parser.add_argument(
        "--database",
        metavar="URL",
        help="the database of responses and API keys: sqlite:///FILE or postgresql://... "
        "(default: a file in your state folder)",
    )


def database_url(arguments: argparse.Namespace, *, make_folder: bool = True) -> str:
    """Return the URL of the server's database, by default of a file in the user's state folder."""
    url: str | None = _of_server(arguments, "database")
    if url is None and make_folder:
        state_folder()
    return url or f"sqlite:///{default_database()}"


def _of_server(arguments: argparse.Namespace, option: str) -> str | None:
    """Return the value of an option, or else what a server would have without it."""
    value: str | None = getattr(arguments, option)
    if value is None:
        file = ("--config", arguments.config) if arguments.config else ()
        value = getattr(Configuration(SERVE, file).arguments, option)
    return value


async def _serve(
    arguments: argparse.Namespace, settings: Settings, options: Mapping[str, Any]
) -> None:
    from ..engines import open_engine
    from ..server import check_storage, create_app, run_server
    from ..server.exporters import exported_telemetry
    from ..server.logs import announce
    from ..server.store import database_name

    let_threads_sleep()
    # Everything that can be wrong is found before a model is loaded, which may take minutes.
    with bind(arguments.host, arguments.port) as listener:
        has_keys = check_storage(settings)
        _check_reach(listener, settings, has_keys=has_keys)
        async with AsyncExitStack() as opened:
            telemetry = opened.enter_context(exported_telemetry())
            tools = await open_tools(arguments)
            for tool in tools:
                opened.push_async_callback(tool.close)
            announce(f"storing responses in {database_name(settings.database)}")
            if has_keys:  # perhaps one made long ago
                announce("each request needs an API key; 'harmony keys list' shows those stored")
            announce(f"loading {without_secrets(arguments.model)} ...")
            engine = await opened.enter_async_context(await open_engine(arguments.model, **options))
            longest = engine.context_length
            if settings.context_length is not None and settings.context_length > longest:
                raise UsageError(
                    f"--context-length {settings.context_length}: {arguments.model} has a context "
                    f"of {longest} tokens; start its server with a longer one"
                )
            announce(described(engine))
            start_listening(listener)
            host, port = listener.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            begun = f"serving {engine.model} at http://{shown}:{port}/v1"
            await run_server(
                create_app(engine, settings, tools, telemetry=telemetry),
                settings,
                listener,
                on_start=lambda: announce(begun),
            )


def _check_reach(listener: socket.socket, settings: Settings, *, has_keys: bool) -> None:
    """Raise `InputError` for a server that others reach and that asks for no key."""
    from ..server.logs import announce
    from ..web import is_loopback

    address = listener.getsockname()[0]
    if is_loopback(address) or has_keys:
        return
    problem = f"everyone who reaches {address} can use this server, since it has no API keys"
    if not settings.open_to_everyone:
        raise UsageError(
            f"{problem}; make one with 'harmony keys create NAME' (and the same --database), use "
            "--api-key-file, or allow it with --open-to-everyone"
        )
    announce(f"warning: {problem}")


def _add_key_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--key-file",
        metavar="FILE",
        help="the file of keys that encrypt reasoning and compacted conversations for clients "
        "(default: a file in your state folder)",
    )


def _key_file(arguments: argparse.Namespace) -> Path:
    """Return the given file of the keys that seal, or that in the user's state folder."""
    return Path(_of_server(arguments, "key_file") or state_folder() / "reasoning.key")


class _Keys(Command):
    name = "keys"
    purpose = "run a model"
    summary = "make, list and revoke the API keys of a server"
    extras = "serve"
    examples = """\
  harmony keys create laptop
  harmony keys create ci --requests-per-minute 60
  harmony keys list
  harmony keys revoke key_0123456789abcdef01234567
  harmony keys rotate
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
        create = actions.add_parser("create", help="make an API key, and print it once")
        create.add_argument("name", metavar="NAME", help="a name that says who uses the key")
        for option, meaning in (
            ("--requests-per-minute", "requests per minute"),
            ("--concurrent-requests", "requests at the same time"),
            ("--tokens-per-minute", "tokens of prompts and answers per minute"),
        ):
            create.add_argument(
                option, type=positive, metavar="N", help=f"the most {meaning} (default: no limit)"
            )
        listing = actions.add_parser("list", help="list the API keys, without their secrets")
        revoke = actions.add_parser("revoke", help="refuse requests with a key from now on")
        revoke.add_argument(
            "id", metavar="ID", help="the id of the key; 'harmony keys list' has it"
        )
        rotate = actions.add_parser(
            "rotate", help="make a new key that encrypts reasoning; the old keys still decrypt"
        )
        rotate.add_argument(
            "--keep",
            type=positive,
            metavar="N",
            help="keep the N newest keys; nothing can decrypt what older keys encrypted "
            "(default: keep all)",
        )
        add_config(rotate)
        _add_key_file(rotate)
        for action in (create, listing, revoke):
            add_database(action)
        for action in (create, listing, revoke, rotate):
            add_color(action)

    def run(self, arguments: argparse.Namespace) -> None:
        with needing_extra("keys need", "serve"):
            from ..server.auth.api_keys import ApiKeys
            from ..server.encryption import rotate_keys
            from ..server.store import KeyLimits, NotFoundError, Store
        output = Output(arguments.color)
        if arguments.action == "rotate":
            path = _key_file(arguments)
            count = rotate_keys(path, keep=arguments.keep)
            output.line(f"a new key seals from now on; {path} has {count}")
            return
        makes_database = arguments.action == "create"
        database = database_url(arguments, make_folder=makes_database)
        is_default = database == f"sqlite:///{default_database()}"
        if arguments.action == "list" and is_default and not default_database().exists():
            print(_NO_KEYS, file=sys.stderr)
            return
        with Store(database, must_exist=not makes_database) as store:
            keys = ApiKeys(store.keys)
            if arguments.action == "create":
                limits = KeyLimits(
                    requests_per_minute=arguments.requests_per_minute,
                    concurrent_requests=arguments.concurrent_requests,
                    tokens_per_minute=arguments.tokens_per_minute,
                )
                try:
                    output.line(keys.create(arguments.name, limits).key)
                except ValueError as error:
                    raise InputError(str(error)) from error
            elif arguments.action == "list":
                records = keys.all()
                for record in records:
                    output.line(_described(record))
                if not records:
                    print(_NO_KEYS, file=sys.stderr)
            else:
                try:
                    output.line(_described(keys.revoke(arguments.id)))
                except NotFoundError as error:
                    raise InputError(f"{error}; 'harmony keys list' shows the ids") from error


KEYS = _Keys()


_NO_KEYS = "no keys yet; 'harmony keys create NAME' makes one"


def _described(record: KeyRecord) -> str:
    limits = [f"{name.replace('_', '-')} {value}" for name, value in vars(record.limits).items()]
    shown = ", ".join(limit for limit in limits if not limit.endswith(" None"))
    state = "" if record.revoked_at is None else f", revoked {_day(record.revoked_at)}"
    made = f"{record.id}  {record.name}  made {_day(record.created_at)}{state}"
    return f"{made}  {shown}" if shown else made


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).date().isoformat()
