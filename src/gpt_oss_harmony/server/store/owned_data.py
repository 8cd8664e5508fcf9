"""All data of one owner in a database: its amount, a copy, and its deletion.

The tables alone define this data: those with a column ``owner``, and those whose rows belong to
rows of these tables. A new table with this column is included automatically.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import Select, Table, delete, func, select, update

from .database import Database
from .leases import ServerClock
from .response_chains import take_turns
from .tables import METADATA, api_keys, responses

__all__ = ["OwnedData", "OwnedRow", "owned_tables", "rows_of"]

_BATCH = 100  # rows that are read at a time
_FORGOTTEN = "deleted"  # the name of a key whose owner's data was deleted


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
                query = rows_of(table, owner).with_only_columns(func.count())
                counts[table.name] = connection.execute(query).scalar_one()
        return {name: count for name, count in counts.items() if count}

    def export(self, owner: str) -> Iterator[OwnedRow]:
        """Read every row of an owner and the record of the key, without the key's hash."""
        with self._database.reading() as connection:
            for table in (api_keys, *owned_tables()):
                query = rows_of(table, owner).execution_options(yield_per=_BATCH)
                for row in connection.execute(query):
                    values = {name: _as_json(name, value) for name, value in row._mapping.items()}
                    yield OwnedRow(table.name, values)

    def delete(self, owner: str) -> dict[str, int]:
        """Delete every row of an owner and revoke the key; return the number of rows per table.

        The record of the key stays, without its name, because a server that has had a key always
        requires one. SQLite overwrites deleted data, also in its journal unless another process is
        reading; PostgreSQL does so at its next ``VACUUM``.
        """
        counts = self.count(owner)
        with self._database.writing() as connection:
            take_turns(self._database, connection)
            revoked_at = func.coalesce(api_keys.c.revoked_at, int(self._server.now()))
            connection.execute(
                update(api_keys)
                .where(api_keys.c.id == owner)
                .values(name=_FORGOTTEN, revoked_at=revoked_at)
            )
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


def rows_of(table: Table, owner: str) -> Select[Any]:
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
