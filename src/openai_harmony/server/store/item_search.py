"""Finds items by their ids, wherever an owner has them: for references and for replayed items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, func, select

from .items import StoredItem, item_columns, read_item
from .response_chains import visible
from .tables import conversation_items, conversations, response_items, responses

__all__ = ["find_items"]

_BATCH = 500  # ids of one query


def find_items(
    connection: Connection, ids: Sequence[str], owner: str, now: float
) -> dict[str, StoredItem]:
    """Find the newest item of each id that the owner has; ids without one are left out.

    What a response put out comes first, since it has its tokens; then what is in conversations, and
    what was sent to responses.
    """
    found: dict[str, StoredItem] = {}
    for query in (
        _in_responses("output", owner, now),
        _in_conversations(owner),
        _in_responses("input", owner, now),
    ):
        missing = [id for id in dict.fromkeys(ids) if id not in found]
        for start in range(0, len(missing), _BATCH):
            _search(connection, query, missing[start : start + _BATCH], found)
    return found


def _search(
    connection: Connection, query: Select[Any], ids: Sequence[str], found: dict[str, StoredItem]
) -> None:
    ranked = query.where(query.selected_columns.id.in_(ids)).subquery()
    rows = connection.execute(select(ranked).where(ranked.c.place == 1))
    found.update((row.id, read_item(row)) for row in rows)


def _in_responses(direction: str, owner: str, now: float) -> Select[Any]:
    table = response_items
    return (
        item_columns(table)
        .add_columns(_place(table.c.id, responses))
        .join(responses, responses.c.id == table.c.response_id)
        .where(table.c.direction == direction, responses.c.owner == owner, visible(now))
    )


def _in_conversations(owner: str) -> Select[Any]:
    table = conversation_items
    return (
        item_columns(table)
        .add_columns(_place(table.c.id, conversations))
        .join(conversations, conversations.c.id == table.c.conversation_id)
        .where(conversations.c.owner == owner)
    )


def _place(id: Any, made: Any) -> Any:
    """Number the items of an id, the newest first."""
    newest = func.row_number().over(
        partition_by=id, order_by=(made.c.created_at.desc(), made.c.id.desc())
    )
    return newest.label("place")
