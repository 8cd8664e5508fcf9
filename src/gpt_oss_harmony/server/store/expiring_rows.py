"""Rows that expire: their selection, order and deletion.

Their tables have the columns ``id``, ``created_at`` and ``expires_at``, with times in seconds since
1970. A row whose ``expires_at`` is null never expires.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, delete, or_

from .database import Database
from .items import Order

__all__ = ["delete_rows", "in_order", "is_kept", "is_visible"]


def is_kept(table: Table, now: float) -> ColumnElement[bool]:
    """Select the rows that have not expired."""
    return or_(table.c.expires_at.is_(None), table.c.expires_at > int(now))


def is_visible(table: Table, owner: str, now: float) -> ColumnElement[bool]:
    """Select the rows of an owner that have not expired; the table has the column ``owner``."""
    return and_(table.c.owner == owner, is_kept(table, now))


def in_order(query: Select[Any], table: Table, start: Any, order: Order) -> Select[Any]:
    """Sort rows by their creation time and then by their ids.

    If `start` is a row, only the rows after it are selected; None selects all.
    """
    created_at, id = table.c.created_at, table.c.id
    if order == "asc":
        if start is not None:
            same_second = and_(created_at == start.created_at, id > start.id)
            query = query.where(or_(created_at > start.created_at, same_second))
        return query.order_by(created_at.asc(), id.asc())
    if start is not None:
        same_second = and_(created_at == start.created_at, id < start.id)
        query = query.where(or_(created_at < start.created_at, same_second))
    return query.order_by(created_at.desc(), id.desc())


def delete_rows(database: Database, table: Table, now: float) -> int:
    """Delete expired rows; return their number."""
    with database.writing() as connection:
        return connection.execute(delete(table).where(table.c.expires_at <= int(now))).rowcount
