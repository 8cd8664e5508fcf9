"""Rows of tables as dataclasses, their ids, and pages of them: rows of owners, items in order.

Times are in seconds since 1970. A row whose ``expires_at`` is null never expires.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    delete,
    insert,
    or_,
    select,
    true,
    tuple_,
    update,
)

from .database import Database, deletion
from .errors import ItemIdError, NotFoundError
from .owned_data import Quota
from .running_servers import ServerClock

Order: TypeAlias = Literal["asc", "desc"]
_LONGEST_ID = 500  # characters; an index of PostgreSQL takes no row above 2,704 bytes
_BATCH = 200  # rows that are read at a time

_Record = TypeVar("_Record")


def new_id(prefix: str) -> str:
    """Make an id that nobody can guess, such as ``chatcmpl-...`` or ``call_...``.

    Ids sort by the microsecond at which they were made, so they order rows of the same second. Then
    come 72 random bits.
    """
    joint = "" if prefix.endswith("-") else "_"
    return f"{prefix}{joint}{time.time_ns() // 1000:014x}{secrets.token_hex(9)}"


@dataclass(frozen=True)
class Page(Generic[_Record]):
    """Some rows of a list; `has_more` is true if more follow in the requested order."""

    items: tuple[_Record, ...]
    has_more: bool


# Rows that expire


def is_kept(table: Table, now: float) -> ColumnElement[bool]:
    """Select the rows that have not expired; rows without ``expires_at`` never do."""
    if "expires_at" not in table.c:
        return true()
    return or_(table.c.expires_at.is_(None), table.c.expires_at > int(now))


class ExpiringRows:
    """The rows of `table`; `Store` makes it."""

    table: ClassVar[Table]

    def __init__(self, database: Database, server: ServerClock) -> None:
        self._database = database
        self._server = server

    @deletion
    def delete_expired(self) -> int:
        """Delete expired rows; return their number."""
        if "expires_at" not in self.table.c:
            return 0
        expired = self.table.c.expires_at <= int(self._server.now())  # found by the index
        with self._database.writing() as connection:
            return connection.execute(delete(self.table).where(expired)).rowcount


class OwnedRows(ExpiringRows, Generic[_Record]):
    """Rows with the columns ``id``, ``owner`` and ``created_at``.

    `record` is the dataclass of a row, with a field for each column that it has. `kind` names a row
    in errors. Only its owner sees a row. What is added counts in `quota`.
    """

    kind: ClassVar[str]
    record: ClassVar[type[Any]]

    def __init__(self, database: Database, server: ServerClock, quota: Quota) -> None:
        super().__init__(database, server)
        self._quota = quota

    def get(self, id: str, owner: str) -> _Record:
        """Read a row. Raises `NotFoundError`."""
        with self._database.reading() as connection:
            return self.read(connection, id, owner)

    def read(
        self, connection: Connection, id: str, owner: str, *, to_write: bool = False
    ) -> _Record:
        """Read a row in a transaction, and lock it `to_write`. Raises `NotFoundError`."""
        query = self._visible(owner).where(self.table.c.id == id)
        row = connection.execute(query.with_for_update() if to_write else query).first()
        if row is None:
            raise NotFoundError(self.kind, id)
        return self._read_row(row)

    def _read_row(self, row: Row[Any]) -> _Record:
        record: _Record = self.record(**row._mapping)
        return record

    def _visible(self, owner: str) -> Select[Any]:
        """Select the rows of an owner that have not expired."""
        columns = (self.table.c[field.name] for field in fields(self.record))
        is_kept_now = is_kept(self.table, self._server.now())
        return select(*columns).where(self.table.c.owner == owner, is_kept_now)

    def _page(
        self,
        query: Select[Any],
        owner: str,
        *,
        after: str | None,
        limit: int,
        order: Order,
        is_wanted: Callable[[_Record], bool] | None = None,
    ) -> Page[_Record]:
        """Read rows of `query` after the one with the id `after`, by creation time and id."""
        is_ascending = order == "asc"
        keys = (self.table.c.created_at, self.table.c.id)
        query = query.order_by(*(key.asc() if is_ascending else key.desc() for key in keys))
        query = query.execution_options(yield_per=_BATCH)
        # What `is_wanted` looks at is inside of JSON, where no query sees it: the loop stops
        # instead.
        if is_wanted is None:
            query = query.limit(limit + 1)
        found: list[_Record] = []
        with self._database.reading() as connection:
            if after is not None:
                row: Any = self.read(connection, after, owner)
                place, start = tuple_(*keys), (row.created_at, row.id)
                query = query.where(place > start if is_ascending else place < start)
            with connection.execute(query) as rows:
                for record in filter(is_wanted, map(self._read_row, rows)):
                    found.append(record)
                    if len(found) > limit:
                        break
        return Page(tuple(found[:limit]), has_more=len(found) > limit)


class DescribedRows(OwnedRows[_Record]):
    """Rows of owners with the column ``metadata``; all methods raise `NotFoundError`."""

    def update(self, id: str, owner: str, metadata: Mapping[str, Any]) -> _Record:
        """Replace the metadata; return the row."""
        with self._database.writing() as connection:
            row: Any = self.read(connection, id, owner, to_write=True)
            change = update(self.table).where(self.table.c.id == id)
            connection.execute(change.values(metadata=dict(metadata)))
        changed: _Record = replace(row, metadata=dict(metadata))
        return changed

    @deletion
    def delete(self, id: str, owner: str) -> None:
        """Delete a row, with the rows that belong to it."""
        with self._database.writing() as connection:
            self.read(connection, id, owner, to_write=True)
            connection.execute(delete(self.table).where(self.table.c.id == id))


# Items of responses and conversations


@dataclass(frozen=True)
class NewItem:
    """An item to store: its id, its JSON, and its sampled token ids.

    `messages` is additional JSON that clients do not see.
    """

    id: str
    item: Mapping[str, Any]
    tokens: Sequence[int] | None = None
    messages: Sequence[Mapping[str, Any]] | None = None


ITEM = attrgetter("item")
"""Return the JSON of an item."""


@dataclass(frozen=True)
class StoredItem:
    """A stored item; `tokens` is None for one that was not sampled."""

    id: str
    item: dict[str, Any]
    tokens: tuple[int, ...] | None = None
    messages: list[dict[str, Any]] | None = None

    def as_new(self) -> NewItem:
        """Return it as an item to store elsewhere."""
        return NewItem(self.id, self.item, self.tokens, self.messages)


def check_ids(items: Iterable[NewItem], field: str) -> None:
    """Raise `ItemIdError` for the first id that is too long or occurs twice; `field` has them."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        problem = ""
        if len(item.id) > _LONGEST_ID:
            problem = (
                f"the id of an item has {len(item.id):,} characters; use at most {_LONGEST_ID}"
            )
        elif item.id in seen:
            problem = f"two items have the id {item.id!r}; leave one out"
        if problem:
            raise ItemIdError(problem, item.id, f"{field}[{index}].id")
        seen.add(item.id)


def insert_items(
    connection: Connection,
    table: Table,
    belongs: Mapping[str, str],
    items: Iterable[NewItem],
    first_position: int = 0,
) -> None:
    """Write items in order; `belongs` has the columns of their owner, such as the response."""
    rows = [
        {
            **belongs,
            "position": position,
            "id": item.id,
            "item": dict(item.item),
            "tokens": None if item.tokens is None else tuple(item.tokens),
            "messages": None if item.messages is None else list(item.messages),
        }
        for position, item in enumerate(items, first_position)
    ]
    if rows:
        connection.execute(_insertion(table), rows)


_insertion = cache(insert)


def item_columns(table: Table) -> Select[Any]:
    """Select the columns of `read_item`."""
    return select(table.c.id, table.c.item, table.c.tokens, table.c.messages)


def read_item(row: Row[Any]) -> StoredItem:
    """Convert a row to a dataclass."""
    return StoredItem(row.id, row.item, row.tokens, row.messages)


def read_page(
    connection: Connection,
    table: Table,
    belongs: ColumnElement[bool],
    *,
    after: str | None,
    limit: int,
    order: Order,
) -> Page[StoredItem]:
    """Read at most `limit` items of `belongs` after the item with the id `after`."""
    position = table.c.position
    query = item_columns(table).where(belongs)
    if after is not None:
        start = connection.execute(select(position).where(belongs, table.c.id == after)).scalar()
        if start is None:
            raise NotFoundError("item", after)
        query = query.where(position > start if order == "asc" else position < start)
    query = query.order_by(position.asc() if order == "asc" else position.desc())
    rows = connection.execute(query.limit(limit + 1)).all()
    return Page(tuple(map(read_item, rows[:limit])), has_more=len(rows) > limit)
