"""The servers of one database, and the leases that show which of them run.

A running server holds a lock. When it dies for any reason, the operating system or PostgreSQL
releases the lock, so no heartbeats and no comparison of clocks are needed. On PostgreSQL each
server has its own lock. A SQLite file belongs to one server at a time, which locks a small file
beside it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from ..private_files import make_private, open_private
from .database import Database, lock_key
from .errors import StoreInUseError

CHECK_SECONDS = 3
"""Between two checks for servers that have died."""


@dataclass(frozen=True)
class ServerClock:
    """The id of a running server, and its clock in seconds since 1970."""

    id: str
    now: Callable[[], float]


class Lease:
    """The lock of this server, and a check of other servers' locks.

    This class itself is for a database in memory: it needs no lock, and has no other servers.
    """

    def acquire(self) -> None:
        """Take the lock, also after it was lost; do nothing if it is held."""

    def is_gone(self, connection: Connection, server_id: str) -> bool:
        """Return whether another server has died; True stays valid until the transaction ends."""
        return True

    def release(self) -> None:
        """Release the lock."""


def lease_in(database: Database, server_id: str) -> Lease:
    """Choose the kind of lock for a database."""
    if not database.is_sqlite:
        return _PostgresLease(database, server_id)
    return Lease() if database.path is None else _FileLease(database.path)


def lock_file(database: Path) -> sqlite3.Connection:
    """Lock the small file beside a SQLite file, until the connection is closed.

    Raises `StoreInUseError` if a running server has the lock.
    """
    path = database.with_name(database.name + ".lock")
    # Other users can lock every file that they can open.
    os.close(open_private(path))
    make_private(path)
    # SQLite locks files in the same way on every system, and a lock ends with its process.
    lock = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        lock.execute("BEGIN EXCLUSIVE").close()
    except sqlite3.OperationalError as error:
        lock.close()
        raise StoreInUseError(
            f"another server uses the database {database}; give this server its own, such as "
            "--database sqlite:///second.db, or use PostgreSQL for both"
        ) from error
    return lock


class _FileLease(Lease):
    """The lease of the SQLite file at `path`; only the server that holds it asks for others."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: sqlite3.Connection | None = None

    def acquire(self) -> None:
        if self._lock is None:
            self._lock = lock_file(self._path)

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class _PostgresLease(Lease):
    def __init__(self, database: Database, server_id: str) -> None:
        self._database = database
        # Outside of the pool: one connection, which stays open and in no transaction.
        self._engine = create_engine(database.url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        self._key = lock_key(f"server {server_id}")
        self._connection: Connection | None = None

    def acquire(self) -> None:
        if self._connection is not None:
            with suppress(DBAPIError):
                self._connection.exec_driver_sql("SELECT 1")
                return  # the lock is held
        self.release()
        with self._database.errors_named():
            self._connection = self._connect()

    def _connect(self) -> Connection:
        connection = self._engine.connect()
        try:
            # If a host vanishes, PostgreSQL drops its connection and lock after six seconds.
            for setting, value in (("idle", 2), ("interval", 2), ("count", 2)):
                connection.exec_driver_sql(f"SET tcp_keepalives_{setting} = {value}")
            connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": self._key})
        except BaseException:
            connection.close()
            raise
        return connection

    def is_gone(self, connection: Connection, server_id: str) -> bool:
        # Kept until the transaction ends, so that the server cannot come back in between.
        taken = text("SELECT pg_try_advisory_xact_lock(:key)")
        return bool(connection.execute(taken, {"key": lock_key(f"server {server_id}")}).scalar())

    def release(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
