"""How servers know which of them live.

A server that runs holds a lock, which the operating system or PostgreSQL takes away when it dies,
however it dies: no heartbeats, and no clocks to compare. On PostgreSQL each server has a lock of
its own. A file of SQLite belongs to one server at a time, which locks a small file beside it.
"""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from .database import Database
from .errors import StoreInUseError

__all__ = ["Presence", "presence_in"]


class Presence(Protocol):
    """Shows that this server lives, and tells which others do."""

    def begin(self) -> None:
        """Take the lock, or take it again where it was lost; does nothing where it is held."""

    def is_gone(self, connection: Connection, server_id: str) -> bool:
        """Tell whether another server has died; where True, so until the transaction ends."""

    def end(self) -> None:
        """Let the lock go."""


def presence_in(database: Database, server_id: str) -> Presence:
    """Choose the kind of lock for a database."""
    if not database.is_sqlite:
        return _PostgresPresence(database, server_id)
    return _FilePresence(database.path)


class _FilePresence:
    """`path` is that of the database; None for one in memory, which nobody else can see."""

    def __init__(self, path: Path | None) -> None:
        self._path = path and path.with_name(path.name + ".lock")
        self._lock: sqlite3.Connection | None = None

    def begin(self) -> None:
        if self._path is None or self._lock is not None:
            return
        # SQLite locks files in the same way on every system, and a lock ends with its process.
        lock = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            lock.execute("BEGIN EXCLUSIVE").close()
        except sqlite3.OperationalError as error:
            lock.close()
            raise StoreInUseError(
                f"another server uses the database of {self._path}; give this one a file of its "
                "own, or give both a database of PostgreSQL"
            ) from error
        self._lock = lock

    def is_gone(self, connection: Connection, server_id: str) -> bool:
        return True  # nobody but the holder of the lock asks

    def end(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class _PostgresPresence:
    def __init__(self, database: Database, server_id: str) -> None:
        self._database = database
        # Outside of the pool: one connection, which stays open and in no transaction.
        self._engine = create_engine(database.url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        self._key = _lock_key(server_id)
        self._connection: Connection | None = None

    def begin(self) -> None:
        if self._connection is not None and self._answers(self._connection):
            return
        self.end()
        with self._database.errors_named():
            self._connection = self._locked_connection()

    def _locked_connection(self) -> Connection:
        connection = self._engine.connect()
        try:
            # A host that vanishes without a word is given up after a minute, its lock with it.
            for setting, value in (("idle", 30), ("interval", 10), ("count", 3)):
                connection.exec_driver_sql(f"SET tcp_keepalives_{setting} = {value}")
            connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": self._key})
        except BaseException:
            connection.close()
            raise
        return connection

    def is_gone(self, connection: Connection, server_id: str) -> bool:
        taken = text("SELECT pg_try_advisory_xact_lock(:key)")
        return bool(connection.execute(taken, {"key": _lock_key(server_id)}).scalar())

    def end(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @staticmethod
    def _answers(connection: Connection) -> bool:
        try:
            connection.exec_driver_sql("SELECT 1")
        except DBAPIError:
            return False
        return True


def _lock_key(server_id: str) -> int:
    digest = hashlib.sha256(f"harmony server {server_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
