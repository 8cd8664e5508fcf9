"""Items of responses and conversations: rows to dataclasses and back, and pages of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, insert, select

from .errors import ItemIdError, NotFoundError

__all__ = [
    "NewItem",
    "Order",
    "Page",
    "StoredItem",
    "check_ids",
    "insert_items",
    "item_columns",
    "read_item",
    "read_page",
]

Order: TypeAlias = Literal["asc", "desc"]
_LONGEST_ID = 500  # characters; an index of PostgreSQL takes no row above 2,704 bytes


@dataclass(frozen=True)
class NewItem:
    """An item to store: its id, its JSON, and its sampled token ids.

    `messages` is additional JSON that clients do not see.
    """

    id: str
    item: Mapping[str, Any]
    tokens: Sequence[int] | None = None
    messages: Sequence[Mapping[str, Any]] | None = None


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


@dataclass(frozen=True)
class Page:
    """Some items of a list; `has_more` is true if more follow in the requested order."""

    items: tuple[StoredItem, ...]
    has_more: bool


def check_ids(items: Iterable[NewItem]) -> None:
    """Raise `ItemIdError` for the first id that is too long or occurs twice."""
    seen: set[str] = set()
    for item in items:
        if len(item.id) > _LONGEST_ID:
            raise ItemIdError(
                f"the id of an item has {len(item.id):,} characters; use at most {_LONGEST_ID}",
                item.id,
            )
        if item.id in seen:
            raise ItemIdError(f"two items have the id {item.id!r}; leave one out", item.id)
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
        connection.execute(insert(table), rows)


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
) -> Page:
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
