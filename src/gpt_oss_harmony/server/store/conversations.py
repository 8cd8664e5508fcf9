"""Conversations: items in order, to which responses and clients add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, delete, insert, select, update

from .database import Database
from .errors import ItemIdError, NotFoundError
from .owned_data import Quota, size_of
from .rows import (
    ITEM,
    NewItem,
    Order,
    Page,
    StoredItem,
    check_ids,
    insert_items,
    item_columns,
    read_item,
    read_page,
)
from .tables import conversation_items, conversations

__all__ = ["Conversation", "Conversations", "append_items", "conversation_length"]

_BATCH = 500  # ids of one query


@dataclass(frozen=True)
class Conversation:
    """A conversation without its items; `created_at` in seconds since 1970."""

    id: str
    owner: str
    created_at: int
    metadata: dict[str, Any]


class Conversations:
    """The conversations in a database; `Store` makes it."""

    def __init__(self, database: Database, quota: Quota) -> None:
        self._database = database
        self._quota = quota

    def create(self, conversation: Conversation, items: Sequence[NewItem] = ()) -> None:
        """Store a new conversation with its first `items`.

        Raises `ItemIdError`, and `StorageFullError` if the owner has no room for it.
        """
        check_ids(items)
        self._quota.add(conversation.owner, size_of(conversation.metadata, *map(ITEM, items)))
        with self._database.writing() as connection:
            values = {**vars(conversation), "next_position": len(items)}
            connection.execute(insert(conversations).values(values))
            _insert(connection, conversation.id, items, 0)

    def get(self, id: str, owner: str) -> Conversation:
        """Read a conversation. Raises `NotFoundError`, like all later methods."""
        with self._database.reading() as connection:
            row = _visible(connection, id, owner)
        return Conversation(row.id, row.owner, row.created_at, row.metadata)

    def update(self, id: str, owner: str, metadata: Mapping[str, Any]) -> Conversation:
        """Replace the metadata; return the conversation."""
        with self._database.writing() as connection:
            row = _visible(connection, id, owner, to_write=True)
            change = update(conversations).where(conversations.c.id == id)
            connection.execute(change.values(metadata=dict(metadata)))
        return Conversation(row.id, row.owner, row.created_at, dict(metadata))

    def delete(self, id: str, owner: str) -> None:
        """Delete a conversation and its items; its responses stay."""
        with self._database.writing() as connection:
            _visible(connection, id, owner, to_write=True)
            connection.execute(delete(conversations).where(conversations.c.id == id))

    def items(self, id: str, owner: str) -> list[StoredItem]:
        """Read all items, the oldest first."""
        query = item_columns(conversation_items).where(conversation_items.c.conversation_id == id)
        with self._database.reading() as connection:
            _visible(connection, id, owner)
            rows = connection.execute(query.order_by(conversation_items.c.position))
            return [read_item(row) for row in rows]

    def list_items(
        self,
        id: str,
        owner: str,
        *,
        after: str | None = None,
        limit: int = 20,
        order: Order = "desc",
    ) -> Page[StoredItem]:
        """Read at most `limit` items after the item `after`, in this `order`."""
        belongs = conversation_items.c.conversation_id == id
        with self._database.reading() as connection:
            _visible(connection, id, owner)
            return read_page(
                connection, conversation_items, belongs, after=after, limit=limit, order=order
            )

    def get_item(self, id: str, owner: str, item_id: str) -> StoredItem:
        """Read one item."""
        query = item_columns(conversation_items).where(_is_item(id, item_id))
        with self._database.reading() as connection:
            _visible(connection, id, owner)
            row = connection.execute(query).first()
        if row is None:
            raise NotFoundError("item", item_id)
        return read_item(row)

    def add_items(self, id: str, owner: str, items: Sequence[NewItem]) -> None:
        """Add items at the end.

        Raises `ItemIdError` if an id occurs twice, here or in the conversation, and
        `StorageFullError` if the owner has no room for them.
        """
        check_ids(items)
        self._quota.add(owner, size_of(*map(ITEM, items)))
        with self._database.writing() as connection:
            row = _visible(connection, id, owner, to_write=True)
            taken = _existing_ids(connection, id, [item.id for item in items])
            for item in items:
                if item.id in taken:
                    problem = f"the conversation already has an item with the id {item.id!r}"
                    raise ItemIdError(problem, item.id)
            _append(connection, row, items)

    def delete_item(self, id: str, owner: str, item_id: str) -> Conversation:
        """Delete one item; return the conversation."""
        with self._database.writing() as connection:
            row = _visible(connection, id, owner, to_write=True)
            removal = delete(conversation_items).where(_is_item(id, item_id))
            if connection.execute(removal).rowcount == 0:
                raise NotFoundError("item", item_id)
        return Conversation(row.id, row.owner, row.created_at, row.metadata)


def conversation_length(connection: Connection, id: str | None, owner: str) -> int | None:
    """Return the position of the next item; None for no conversation. Raises `NotFoundError`."""
    return None if id is None else int(_visible(connection, id, owner).next_position)


def append_items(connection: Connection, id: str, owner: str, items: Sequence[NewItem]) -> bool:
    """Add items with new ids to the conversation; return False if the conversation is gone."""
    row = connection.execute(_query(id, owner).with_for_update()).first()
    if row is None:
        return False
    taken = _existing_ids(connection, id, [item.id for item in items])
    _append(connection, row, [item for item in items if item.id not in taken])
    return True


def _append(connection: Connection, conversation: Row[Any], items: Sequence[NewItem]) -> None:
    """Add items; the row of the conversation is locked."""
    _insert(connection, conversation.id, items, conversation.next_position)
    change = update(conversations).where(conversations.c.id == conversation.id)
    connection.execute(change.values(next_position=conversation.next_position + len(items)))


def _insert(connection: Connection, id: str, items: Sequence[NewItem], position: int) -> None:
    insert_items(connection, conversation_items, {"conversation_id": id}, items, position)


def _existing_ids(connection: Connection, id: str, item_ids: Sequence[str]) -> set[str]:
    existing: set[str] = set()
    for start in range(0, len(item_ids), _BATCH):
        query = select(conversation_items.c.id).where(
            conversation_items.c.conversation_id == id,
            conversation_items.c.id.in_(item_ids[start : start + _BATCH]),
        )
        existing.update(connection.execute(query).scalars())
    return existing


def _is_item(id: str, item_id: str) -> Any:
    return and_(conversation_items.c.conversation_id == id, conversation_items.c.id == item_id)


def _query(id: str, owner: str) -> Select[Any]:
    return select(conversations).where(conversations.c.id == id, conversations.c.owner == owner)


def _visible(connection: Connection, id: str, owner: str, *, to_write: bool = False) -> Row[Any]:
    query = _query(id, owner)
    row = connection.execute(query.with_for_update() if to_write else query).first()
    if row is None:
        raise NotFoundError("conversation", id)
    return row
