"""Conversations: items in order, to which responses and clients add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select, update

from .database import deletion
from .errors import ItemIdError, NotFoundError
from .owned_data import size_of
from .rows import (
    ITEM,
    DescribedRows,
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

_BATCH = 500  # ids of one query


@dataclass(frozen=True)
class Conversation:
    """A conversation without its items; `created_at` in seconds since 1970.

    `next_position` is that of the next item; the store sets it.
    """

    id: str
    owner: str
    created_at: int
    metadata: dict[str, Any]
    next_position: int = field(default=0, compare=False)


class Conversations(DescribedRows[Conversation]):
    """The conversations in a database; `Store` makes it. Most methods raise `NotFoundError`.

    The responses of a deleted conversation stay.
    """

    kind = "conversation"
    table = conversations
    record = Conversation

    def create(self, conversation: Conversation, items: Sequence[NewItem] = ()) -> None:
        """Store a new conversation with its first `items`.

        Raises `ItemIdError`, and `StorageFullError` if the owner has no room for it.
        """
        check_ids(items, "items")
        size = size_of(conversation.metadata, *map(ITEM, items))
        adding = self._quota.adding(conversation.owner, size, rows=1 + len(items))
        with adding, self._database.writing() as connection:
            connection.execute(insert(conversations).values(vars(conversation)))
            self._append(connection, conversation, items)

    def items(self, id: str, owner: str) -> list[StoredItem]:
        """Read all items, the oldest first."""
        query = item_columns(conversation_items).where(conversation_items.c.conversation_id == id)
        with self._database.reading() as connection:
            self.read(connection, id, owner)
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
            self.read(connection, id, owner)
            return read_page(
                connection, conversation_items, belongs, after=after, limit=limit, order=order
            )

    def get_item(self, id: str, owner: str, item_id: str) -> StoredItem:
        """Read one item."""
        query = item_columns(conversation_items).where(_is_item(id, item_id))
        with self._database.reading() as connection:
            self.read(connection, id, owner)
            row = connection.execute(query).first()
        if row is None:
            raise NotFoundError("item", item_id)
        return read_item(row)

    def add_items(self, id: str, owner: str, items: Sequence[NewItem]) -> None:
        """Add items at the end.

        Raises `ItemIdError` if an id occurs twice, here or in the conversation, and
        `StorageFullError` if the owner has no room for them.
        """
        check_ids(items, "items")
        adding = self._quota.adding(owner, size_of(*map(ITEM, items)), rows=len(items))
        with adding, self._database.writing() as connection:
            conversation = self.read(connection, id, owner, to_write=True)
            taken = _existing_ids(connection, id, [item.id for item in items])
            for index, item in enumerate(items):
                if item.id in taken:
                    problem = f"the conversation already has an item with the id {item.id!r}"
                    raise ItemIdError(problem, item.id, f"items[{index}].id")
            self._append(connection, conversation, items)

    def add_new(
        self, connection: Connection, id: str, owner: str, items: Sequence[NewItem]
    ) -> None:
        """Add the items whose ids are new, in a transaction."""
        conversation = self.read(connection, id, owner, to_write=True)
        taken = _existing_ids(connection, id, [item.id for item in items])
        self._append(connection, conversation, [item for item in items if item.id not in taken])

    @deletion
    def delete_item(self, id: str, owner: str, item_id: str) -> Conversation:
        """Delete one item; return the conversation."""
        with self._database.writing() as connection:
            conversation = self.read(connection, id, owner, to_write=True)
            removal = delete(conversation_items).where(_is_item(id, item_id))
            if connection.execute(removal).rowcount == 0:
                raise NotFoundError("item", item_id)
        return conversation

    def _append(
        self, connection: Connection, conversation: Conversation, items: Sequence[NewItem]
    ) -> None:
        """Add items; the row of the conversation is locked."""
        position, belongs = conversation.next_position, {"conversation_id": conversation.id}
        insert_items(connection, conversation_items, belongs, items, position)
        change = update(conversations).where(conversations.c.id == conversation.id)
        connection.execute(change.values(next_position=position + len(items)))


def _existing_ids(connection: Connection, id: str, item_ids: Sequence[str]) -> set[str]:
    existing: set[str] = set()
    for start in range(0, len(item_ids), _BATCH):
        query = select(conversation_items.c.id).where(
            conversation_items.c.conversation_id == id,
            conversation_items.c.id.in_(item_ids[start : start + _BATCH]),
        )
        existing.update(connection.execute(query).scalars())
    return existing


def _is_item(id: str, item_id: str) -> ColumnElement[bool]:
    return and_(conversation_items.c.conversation_id == id, conversation_items.c.id == item_id)
