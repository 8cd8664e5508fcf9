"""A database by its URL: transactions in it, and the migration to the newest schema.

Writing transactions on SQLite take turns, because SQLite's own waiting polls and is not fair.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from urllib.parse import quote

from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import StaticPool

from ...installation import missing_package
from ..private_files import make_private, open_private
from .errors import StoreError, StoreFullError, StoreVersionError
from .reserve import FileReserve, TableReserve
from .tables import METADATA

_LOG = logging.getLogger(__name__)

_OF_STATEMENTS = (DataError, IntegrityError, NotSupportedError, ProgrammingError)
"""Errors of one statement; after any other, the database itself does not work."""

DELETIONS = 0x6861726D6F6E7A
"""The lock of deletions of responses, which take turns; two could leave a row to each other."""

_SQLITE = b"SQLite format 3\0"  # how its files begin
_MEMORY = "sqlite+pysqlite:///:memory:"
_WRITES = "harmony_writes"
_BUSY_SECONDS = 30  # seconds to wait for another process that writes
_CONNECTIONS = 10
_FREED_PAGES = 2000  # of 4 KiB, in one transaction
_LARGE_TABLES = (
    "'contents', 'responses', 'response_items', 'conversation_items', 'batches', 'batch_results'"
)
_DISK_FULL = "53100"  # PostgreSQL's code
# Without these, a thread waits for hours for a host that has vanished. In seconds, the last in ms.
_POSTGRES_TIMES = {
    "connect_timeout": "10",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
_FORMS = "sqlite:///PATH or postgresql://USER:PASSWORD@HOST/DATABASE"


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Database:
    """Connections to SQLite or PostgreSQL, for all threads.

    `url` is a path, ``sqlite:///PATH``, ``postgresql://...``, or None for a database in memory that
    ends with this object. `StoreError` is the only error; with `must_exist`, a missing file also
    raises it.

    If the database does not work (its disk is full, another process locks it, its file or its
    server has vanished), `problem` is the cause until `note_recovery` is called. The log has one
    line for the failure, and one for the recovery.
    """

    def __init__(self, url: str | Path | None, *, must_exist: bool = False) -> None:
        self.url = _read_url(url)
        if self.url.get_backend_name() != "sqlite":
            self.url = self.url.set(query={**_POSTGRES_TIMES, **self.url.query})
        self.name = database_name(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.path = None  # of the file; None for PostgreSQL, and for a database in memory
        if self.is_sqlite and self.url.database not in (None, "", ":memory:"):
            self.path = Path(self.url.database or "").absolute()
            if must_exist and not self.path.exists():
                raise StoreError(f"there is no database {self.path}; name one in --database")
        self.problem: str | None = None
        self.is_full = False  # until `recover`; only deletions are written then
        self.is_open = False  # until then, whoever opens it gets the only word of a problem
        self._file: tuple[int, int] | None = None
        is_memory = self.is_sqlite and self.path is None
        # A database in memory has only one connection, so readers take turns as well.
        turn = threading.RLock()
        self._write_turn: AbstractContextManager[Any] = turn if self.is_sqlite else nullcontext()
        self._read_turn: AbstractContextManager[Any] = turn if is_memory else nullcontext()
        self.engine = self._open(is_memory)
        if self.is_sqlite:
            self._reader = self.engine
        else:
            # In PostgreSQL's default isolation, each query of a transaction may see another state.
            self._reader = self.engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        self._writer = self.engine.execution_options(**{_WRITES: True})
        self._open_writing = threading.local()  # the transaction of each thread
        # By thread: on a full disk, other threads must not write meanwhile.
        self._deleting = threading.local()
        self._reserve: FileReserve | TableReserve | None = None
        if not self.is_sqlite:
            self._reserve = TableReserve(self.engine)
        elif self.path is not None:
            self._reserve = FileReserve(self.path.with_name(f"{self.path.name}.reserve"))

    @contextmanager
    def reading(self) -> Generator[Connection, None, None]:
        """Read in one transaction, whose queries see the same state.

        Inside `writing` of the same thread, this joins its transaction.
        """
        outer: Connection | None = getattr(self._open_writing, "connection", None)
        if outer is not None:
            yield outer
            return
        with self.errors_named(), self._read_turn, self._reader.begin() as connection:
            self._check_file()
            yield connection

    @contextmanager
    def writing(self) -> Generator[Connection, None, None]:
        """Write in one transaction; it is on the disk when this ends; an error rolls it back.

        Inside another `writing` of the same thread, this joins its transaction.
        """
        outer: Connection | None = getattr(self._open_writing, "connection", None)
        if outer is not None:
            yield outer
            return
        if self.is_full and not getattr(self._deleting, "is_so", False):
            raise StoreFullError(f"{self.name} has no room; only deletions are written")
        with self.errors_named(), self._write_turn, self._writer.begin() as connection:
            self._check_file()
            self._open_writing.connection = connection
            try:
                yield connection
            finally:
                self._open_writing.connection = None

    def delete(self, deletion: Callable[[], _Result]) -> _Result:
        """Run a deletion; on a full disk, give up the reserve for it, and run it again."""
        if getattr(self._open_writing, "connection", None) is not None:
            return deletion()  # of the transaction around it
        self._deleting.is_so = True
        try:
            try:
                return deletion()
            except StoreFullError:
                if self._reserve is None:
                    raise
                with self.errors_named():
                    self._reserve.give_up()
                return deletion()
        finally:
            self._deleting.is_so = False

    def fill_reserve(self) -> None:
        """Take the room that deletions need on a full disk. Raises `StoreFullError` without it."""
        if self._reserve is None:
            self.is_full = False
            return
        if self.is_full:
            # Deleted rows leave their pages in the file; until these are freed, the disk stays
            # full.
            self.delete(self.free_space)
        self.is_full = not self._reserve.fill()
        if self.is_full:
            problem = "the disk is full: only deletions are written until there is room"
            self._note_problem(problem)
            raise StoreFullError(f"{self.name} failed: {problem}")

    def lock(self, connection: Connection, key: int) -> None:
        """Wait until no other transaction has this lock, and keep it until this one ends.

        SQLite runs one writing transaction at a time, so it needs no locks.
        """
        if not self.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})

    def size(self) -> int:
        """Return the bytes that the database takes, with what is free in it."""
        query = "SELECT pg_database_size(current_database())"
        if self.is_sqlite:
            query = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        with self.reading() as connection:
            return int(connection.exec_driver_sql(query).scalar_one())

    def free_space(self) -> None:
        """Give the space of deleted rows back to the system, in steps between which others write.

        PostgreSQL gives back what is at the end of a table; the rest is for new rows.
        """
        if not self.is_sqlite:
            self._vacuum_postgres()
            return
        if self.is_full:
            self._shorten_journal()
        free = self._free_pages()
        if not free:
            return
        while free:
            begun = time.monotonic()
            with self.errors_named(), self._write_turn, self.engine.connect() as connection:
                # A script runs to its end; `execute` would stop after the first page.
                freeing = f"PRAGMA incremental_vacuum({_FREED_PAGES})"
                connection.connection.executescript(freeing).close()
            if self.is_full:
                self._shorten_journal()
            left = self._free_pages()
            free = left if left < free else 0  # a file that cannot give anything back
            time.sleep(time.monotonic() - begun)  # others write in half of the time
        self._shorten_journal()

    def _shorten_journal(self) -> None:
        with self.errors_named(), self._write_turn, self.engine.connect() as connection:
            connection.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()

    def _free_pages(self) -> int:
        with self.reading() as connection:
            return int(connection.exec_driver_sql("PRAGMA freelist_count").scalar_one())

    def _vacuum_postgres(self) -> None:
        """Vacuum the tables whose large values were deleted: PostgreSQL waits for more of them."""
        # The count of dead rows comes late, which a full disk cannot wait for.
        least = -1 if self.is_full else 0
        query = (
            f"SELECT relname FROM pg_stat_user_tables WHERE n_dead_tup > {least} "
            f"AND schemaname = current_schema() AND relname IN ({_LARGE_TABLES})"
        )
        with self.reading() as connection:
            tables = list(connection.exec_driver_sql(query).scalars())
        # PostgreSQL refuses VACUUM inside a transaction.
        alone = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        with self.errors_named(), alone.connect() as connection:
            for table in tables:
                connection.exec_driver_sql(f"VACUUM {table}")

    def close(self) -> None:
        """Close the connections, after the statements that run in a database in memory.

        All threads share its only connection, and SQLite crashes if that is closed under a
        statement. The connections of other databases are closed when their threads give them back.
        """
        with self._read_turn:
            self.engine.dispose()

    def _open(self, is_memory: bool) -> Engine:
        if is_memory:
            engine = create_engine(
                _MEMORY,
                # A second connection would open a second, empty database.
                poolclass=StaticPool,
                hide_parameters=True,
                connect_args={"check_same_thread": False},
            )
        elif self.is_sqlite:
            self._make_file()
            engine = create_engine(
                self.url,
                pool_size=_CONNECTIONS,
                hide_parameters=True,  # or errors in the log would show what was to be stored
                connect_args={"timeout": _BUSY_SECONDS},
            )
            event.listen(engine, "do_connect", self._open_existing)
        else:
            try:
                # A restart of PostgreSQL leaves dead connections in the pool, which the ping
                # replaces.
                return create_engine(
                    self.url, pool_size=_CONNECTIONS, pool_pre_ping=True, hide_parameters=True
                )
            except ModuleNotFoundError as error:
                raise StoreError(missing_package("PostgreSQL needs", error, "serve")) from error
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine

    def _open_existing(self, _: Any, __: Any, places: list[Any], options: dict[str, Any]) -> None:
        """Let SQLite make no new file where the file is gone; it would also spoil the journal."""
        assert self.path is not None
        place = self.path.as_posix()
        slash = "" if place.startswith("/") else "/"  # before the drive of Windows
        places[0], options["uri"] = f"file://{slash}{quote(os.fsencode(place))}?mode=rw", True

    def _make_file(self) -> None:
        """Make the file if it is missing, for its owner only, because it contains conversations.

        Other users lose their rights to an existing file and to SQLite's files beside it.
        """
        path = self.path
        assert path is not None
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = open_private(path)
            # A mistyped path may name a file of another kind, whose rights are not ours to change.
            is_ours = os.read(file, len(_SQLITE)) in (b"", _SQLITE)
            os.close(file)
            self._file = _identity(path)
            for name in ("", "-journal", "-shm", "-wal") if is_ours else ():
                make_private(path.with_name(path.name + name))
        except OSError as error:
            raise StoreError(
                f"the SQLite file {path} cannot be opened: {error.strerror}; give another path"
            ) from error

    @contextmanager
    def errors_named(self) -> Generator[None, None, None]:
        """Raise `StoreError` for errors of the database."""
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            # Of a cursor of SQLite's own, the error is not wrapped.
            cause = error.orig if isinstance(error, DBAPIError) else error
            if not isinstance(error, _OF_STATEMENTS):
                self._note_problem(str(cause))
            if _is_full(cause):
                self.is_full = True
                raise StoreFullError(f"{self.name} failed: {cause}") from error
            raise StoreError(f"{self.name} failed: {cause}") from error
        except PoolTimeoutError as error:
            problem = f"was busy for too long, with {_CONNECTIONS} connections and more in use"
            self._note_problem(problem)
            raise StoreError(f"{self.name} {problem}") from error

    def _check_file(self) -> None:
        """Raise `StoreError` if the file is gone: SQLite would write on, into nothing."""
        if self._file is None or self.path is None or _identity(self.path) == self._file:
            return
        problem = "the file was deleted or replaced; put it back, or restart the server"
        self._note_problem(problem)
        raise StoreError(f"{self.name} failed: {problem}")

    def note_recovery(self) -> None:
        """Note that data was written."""
        if self.problem is not None:
            self.problem = None
            _LOG.warning("%s works again", self.name)

    def _note_problem(self, problem: str) -> None:
        if self.problem is None and self.is_open:
            _LOG.error("%s does not work: %s", self.name, " ".join(problem.split()))
        self.problem = problem


def _is_full(error: BaseException | None) -> bool:
    """Return whether an error of a driver means a full disk."""
    # By the words of SQLite, because errors of Python 3.10 have no code.
    return getattr(error, "sqlstate", None) == _DISK_FULL or (
        isinstance(error, sqlite3.OperationalError) and "disk is full" in str(error)
    )


class _OfDatabase(Protocol):
    _database: Database


_Rows = TypeVar("_Rows", bound=_OfDatabase)


def deletion(
    method: Callable[Concatenate[_Rows, _Arguments], _Result],
) -> Callable[Concatenate[_Rows, _Arguments], _Result]:
    """Let a method of rows delete on a full disk (`Database.delete`)."""

    @wraps(method)
    def deleting(
        rows: _Rows, /, *arguments: _Arguments.args, **keywords: _Arguments.kwargs
    ) -> _Result:
        return rows._database.delete(partial(method, rows, *arguments, **keywords))

    return deleting


def lock_key(name: str) -> int:
    """Return the key of a PostgreSQL lock for a name; it is the same at all servers."""
    digest = hashlib.sha256(f"harmony {name}".encode()).digest()
    # An advisory lock of PostgreSQL is named by a signed integer of 64 bits.
    return int.from_bytes(digest[:8], "big", signed=True)


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what distinguishes a file from another one in its place; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def database_name(url: str | Path | None) -> str:
    """Return the name of a database for errors and logs, without the password.

    >>> database_name("postgresql://harmony:secret@localhost/harmony")
    'the database postgresql+psycopg://harmony:***@localhost/harmony'
    >>> database_name(None)
    'a database in memory'
    """
    read = _read_url(url)
    if read.get_backend_name() != "sqlite":
        return f"the database {read.render_as_string(hide_password=True)}"
    if read.database in (None, "", ":memory:"):
        return "a database in memory"
    return f"the SQLite file {Path(read.database or '').absolute()}"


_SCHEME = re.compile(r"[^/\\:]{2,}:")  # one letter is a drive of Windows


def _read_url(text: str | Path | None) -> URL:
    if text is None:
        return make_url(_MEMORY)
    if isinstance(text, Path) or "://" not in text:
        if isinstance(text, str) and _SCHEME.match(text):
            raise StoreError(
                f"the database {text!r} is neither a URL nor a path; write {_FORMS}, or ./{text} "
                "for a SQLite file of this name"
            )
        return URL.create("sqlite+pysqlite", database=str(text))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise StoreError(f"the database's URL cannot be read; write {_FORMS}") from error
    if url.drivername in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername not in ("postgresql+psycopg", "sqlite", "sqlite+pysqlite"):
        raise StoreError(f"{url.drivername}:// is not supported; write {_FORMS}")
    return url


def _configure_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # otherwise sqlite3 begins transactions by its own rules
    for pragma in (
        # Before WAL, which writes the first page: SQLite then ignores another `auto_vacuum`.
        "auto_vacuum = INCREMENTAL",  # for a new file: free_space can give its space back
        "journal_mode = WAL",
        # Under WAL, NORMAL could lose the last transactions when the power fails.
        "synchronous = FULL",
        # SQLite checks none of them unless each connection asks for it.
        "foreign_keys = ON",
        "secure_delete = ON",  # overwrite deleted data
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that first reads and later writes would fail if another has written meanwhile.
    writes = connection.get_execution_options().get(_WRITES)
    # Not through the engine, which would do ten times the work around this statement.
    driver: Any = connection.connection.driver_connection
    try:
        driver.execute("BEGIN IMMEDIATE" if writes else "BEGIN").close()
    except sqlite3.Error as error:
        raise DBAPIError.instance("BEGIN", None, error, sqlite3.Error) from error


# Migration

_MIGRATIONS = Path(__file__).parent / "migrations"
_MIGRATION_LOCK = 0x6861726D6F6E79  # "harmony", so that servers that start together take turns


@cache
def _steps() -> ScriptDirectory:
    return ScriptDirectory(str(_MIGRATIONS))


def migrate(database: Database) -> None:
    """Make the tables of a new database, or run the missing migrations, all or none.

    Raises `StoreVersionError` for a database that a newer version of this library has changed.
    """
    steps = _steps()
    with database.writing() as connection:
        database.lock(connection, _MIGRATION_LOCK)
        context = MigrationContext.configure(connection)
        current = context.get_current_revision()
        if current is None:
            # A database without a revision has no table of ours: to look for each would only take
            # time.
            METADATA.create_all(connection, checkfirst=False)
        elif current not in {step.revision for step in steps.walk_revisions()}:
            raise StoreVersionError(
                f"{database.name} has the schema {current}, which this version of "
                "gpt-oss-harmony cannot read; install the newer version that has written it, or "
                "name another database"
            )
        missing = list(steps.iterate_revisions("head", current)) if current else []
        with Operations.context(context):
            # Alembic lists the newest first.
            for step in reversed(missing):
                step.module.upgrade()
        is_changed = current is None or bool(missing)
        if is_changed:
            context.stamp(steps, "head")
    if is_changed and database.is_sqlite and database.path is not None:
        _allow_freeing(database)


def _allow_freeing(database: Database) -> None:
    """Rewrite a SQLite file of an earlier schema, which cannot give back space yet."""
    with database.errors_named(), database.engine.connect() as connection:
        if connection.exec_driver_sql("PRAGMA auto_vacuum").scalar_one() == 0:
            # The query has begun a transaction, in which SQLite refuses to VACUUM.
            connection.rollback()
            connection.connection.execute("PRAGMA auto_vacuum = INCREMENTAL").close()
            connection.connection.execute("VACUUM").close()
