"""All data of one owner in a database: its amount and limit, a copy, and its deletion.

The tables alone define this data: those with a column ``owner``, and those whose rows belong to
rows of these tables. A new table with this column is included automatically.
"""

from __future__ import annotations

import base64
import json
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    LargeBinary,
    Select,
    String,
    Table,
    delete,
    func,
    literal,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import ReturningInsert
from sqlalchemy.types import TypeDecorator

from .database import DELETIONS, Database, deletion
from .errors import StorageFullError
from .running_servers import ServerClock
from .tables import METADATA, api_keys, key_requests, responses, stored_bytes

_BATCH = 100  # rows that are read at a time
_FORGOTTEN = "deleted"  # the name of a key whose owner's data was deleted
_ROW_BYTES = 200  # bytes that a row takes besides its texts and bytes
_NEW_ROW = 2 * _ROW_BYTES  # with ids, hashes and names: more than it will be when it is measured
_VALUE = 4  # bytes of punctuation, or of a number
_LEAST_SECONDS = 2.0  # for which a measurement is used, or a multiple of the time that it took
_MULTIPLE = 50
_BYTE_LENGTH = sqlite3.sqlite_version_info >= (3, 43)  # octet_length, which reads no content


class OwnedRow(NamedTuple):
    """A row as JSON; bytes are in base64, and the events of a response are a list."""

    table: str
    columns: dict[str, Any]


class OwnedData:
    """The data of each owner in a database; `Store` makes it.

    The owner is the id of an API key, or empty on a server without keys.
    """

    def __init__(self, database: Database, server: ServerClock) -> None:
        self._database = database
        self._server = server

    def owners(self) -> list[str]:
        """List all owners of any data."""
        owners: set[str] = set()
        with self._database.reading() as connection:
            for table in owned_tables():
                if "owner" in table.c:
                    owners.update(connection.execute(select(table.c.owner).distinct()).scalars())
        return sorted(owners)

    def count(self, owner: str) -> dict[str, int]:
        """Count the rows of an owner in each table; leave out tables without rows."""
        counts: dict[str, int] = {}
        with self._database.reading() as connection:
            for table in owned_tables():
                query = _rows_of(table, owner).with_only_columns(func.count())
                counts[table.name] = connection.execute(query).scalar_one()
        return {name: count for name, count in counts.items() if count}

    def export(self, owner: str) -> Iterator[OwnedRow]:
        """Read every row of an owner and the record of the key, without the key's hash."""
        with self._database.reading() as connection:
            for table in (api_keys, *owned_tables()):
                query = _rows_of(table, owner).execution_options(yield_per=_BATCH)
                for row in connection.execute(query):
                    values = {name: _as_json(name, value) for name, value in row._mapping.items()}
                    yield OwnedRow(table.name, values)

    @deletion
    def delete(self, owner: str) -> dict[str, int]:
        """Delete every row of an owner and revoke the key; return the number of rows per table.

        The record of the key stays, without its name, because a server that has had a key always
        requires one. SQLite overwrites deleted data, also in its journal unless another process is
        reading; PostgreSQL does so at its next ``VACUUM``.
        """
        counts = self.count(owner)
        with self._database.writing() as connection:
            self._database.lock(connection, DELETIONS)
            revoked_at = func.coalesce(api_keys.c.revoked_at, int(self._server.now()))
            connection.execute(
                update(api_keys)
                .where(api_keys.c.id == owner)
                .values(name=_FORGOTTEN, revoked_at=revoked_at)
            )
            connection.execute(delete(stored_bytes).where(stored_bytes.c.id == owner))
            # Rows that refer to others are deleted before these.
            for table in reversed(owned_tables()):
                if "owner" in table.c:  # the rows of other tables are deleted with these
                    connection.execute(delete(table).where(table.c.owner == owner))
        if self._database.is_sqlite:
            with self._database.errors_named(), self._database.engine.connect() as connection:
                connection.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
        return counts


def owned_tables() -> list[Table]:
    """List the tables with rows of owners; tables that others refer to come first."""
    tables: list[Table] = []
    for table in METADATA.sorted_tables:
        if "owner" in table.c or _parent(table) in tables:
            tables.append(table)
    return tables


def _parent(table: Table) -> Table | None:
    """Return the table to whose rows the rows of this table belong."""
    keys = (key for key in table.foreign_keys if key.ondelete == "CASCADE")
    return next((key.column.table for key in keys), None)


def _rows_of(table: Table, owner: str) -> Select[Any]:
    """Select the rows of an owner; rows without an owner belong to rows of a parent table."""
    if table is api_keys:
        shown = (column for column in table.c if column is not table.c.hash)
        return select(*shown).where(table.c.id == owner)
    if "owner" in table.c:
        return select(table).where(table.c.owner == owner)
    parent = _parent(table)
    assert parent is not None
    return select(table).join(parent).where(parent.c.owner == owner)


def _as_json(name: str, value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    if name == responses.c.events.name:
        return json.loads(zlib.decompress(value))
    return base64.b64encode(value).decode("ascii")


# The limit of an owner


class _Measured(NamedTuple):
    bytes: dict[str, int]  # by table
    added: int  # at that time, in `stored_bytes`
    until: float


class Quota:
    """The stored bytes of owners; `limit` is the most of each, None for no limit.

    The database measures them, over all tables with rows of owners but `key_requests`, which the
    server writes by itself. As this takes longer the more is stored, a result is used for a while.
    What all servers have added since is counted with it: each adds to a number in the database, in
    the transaction that stores the bytes. So no two of them exceed the limit together. Deletions
    are seen with the next measurement.
    """

    def __init__(
        self,
        database: Database,
        limit: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit = limit
        self.on_refusal: Callable[[], object] = lambda: None
        """Called for each request that is refused."""
        self._database = database
        self._clock = clock
        self._measured: dict[str, _Measured] = {}
        self._lock = threading.Lock()

    @contextmanager
    def adding(self, owner: str, size: int, *, rows: int) -> Generator[None, None, None]:
        """Count bytes and rows that are stored in this block, in one transaction with them.

        Raises `StorageFullError` if the owner has no room for them; then nothing is stored.
        """
        if self.limit is None:  # the block opens its own transaction; else it joins the one below
            yield
            return
        size += rows * _NEW_ROW
        with self._lock:
            measured = self._measured.get(owner)
        if measured is None or measured.until <= self._clock():
            measured = self._measure(owner)
        self._check(measured, measured.added + size, size)  # before anything is written
        with self._database.writing() as connection:
            yield
            # Last, because others wait for this row until the end of the transaction.
            self._check(measured, _add(connection, owner, size), size)

    def note(self, connection: Connection, owner: str, size: int, *, rows: int) -> None:
        """Count what is stored in any case, such as the output of a response that began."""
        if self.limit is not None:
            _add(connection, owner, size + rows * _NEW_ROW)

    def _check(self, measured: _Measured, added: int, size: int) -> None:
        """Refuse `size` bytes if they are too many; later deletions are not seen."""
        is_new = added < measured.added  # the owner's data was deleted, and with it this number
        total = sum(measured.bytes.values()) + (added if is_new else added - measured.added)
        if self.limit is not None and total > self.limit:
            self.on_refusal()
            raise StorageFullError(total - size, size, self.limit)

    def used(self, owner: str) -> dict[str, int]:
        """Measure the bytes of an owner now, by table; leave out tables without rows."""
        return {name: size for name, size in self._measure(owner).bytes.items() if size}

    def _measure(self, owner: str) -> _Measured:
        begun = self._clock()
        sizes: dict[str, int] = {}
        with self._database.reading() as connection:
            # In the transaction that measures, so that each addition counts once.
            noted = select(stored_bytes.c.added).where(stored_bytes.c.id == owner)
            added = connection.execute(noted).scalar() or 0
            for table in owned_tables():
                if table is not key_requests:
                    size = _stored_size(table, is_sqlite=self._database.is_sqlite)
                    query = _rows_of(table, owner).with_only_columns(size)
                    sizes[table.name] = int(connection.execute(query).scalar_one() or 0)
        now = self._clock()
        until = now + max(_LEAST_SECONDS, _MULTIPLE * (now - begun))
        measured = _Measured(sizes, added, until)
        with self._lock:
            self._measured = {id: each for id, each in self._measured.items() if each.until > begun}
            self._measured[owner] = measured
        return measured


def _add(connection: Connection, owner: str, size: int) -> int:
    """Add to the bytes of an owner; return the sum with those of all transactions before."""
    values = {"id": owner, "added": size}
    return int(connection.execute(_addition(connection.dialect.name), values).scalar_one())


@cache
def _addition(dialect: str) -> ReturningInsert[Any]:
    """Add to the bytes of an owner; built once, because building takes longer than running."""
    added = stored_bytes.c.added
    insertion: Any = (sqlite if dialect == "sqlite" else postgresql).insert(stored_bytes)
    total = {"added": added + insertion.excluded.added}
    adding: ReturningInsert[Any] = insertion.on_conflict_do_update(
        index_elements=["id"], set_=total
    ).returning(added)
    return adding


def size_of(*values: Any) -> int:
    """Return about how many bytes JSON takes: those of its texts, and some for each value.

    >>> size_of({"a": ["é", 1]})
    22
    """
    size, found = 0, list(values)
    for value in found:  # which grows meanwhile
        size += _VALUE
        if isinstance(value, (str, bytes)):
            size += len(value)
        elif isinstance(value, dict):
            found += value
            found += value.values()
        elif isinstance(value, (list, tuple)):
            found += value
    return size


def _stored_size(table: Table, *, is_sqlite: bool) -> ColumnElement[Any]:
    """Return the bytes of the selected rows of a table."""
    length = func.length if is_sqlite and not _BYTE_LENGTH else func.octet_length
    size: ColumnElement[Any] = literal(_ROW_BYTES)
    for column in table.c:
        kind = column.type.impl if isinstance(column.type, TypeDecorator) else column.type
        if isinstance(kind, (LargeBinary, String)):
            size = size + func.coalesce(length(column), 0)
    return func.sum(size)
