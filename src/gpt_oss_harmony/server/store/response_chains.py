"""Responses that follow each other by ``previous_response_id``.

A response can only follow an existing one, so chains have no circles.

A deleted or expired response is not found, and no request can continue it. Its body and events are
deleted at once. Its items stay while another response follows it, so that the follower's
conversation stays the same, and are deleted with the last follower. To delete a whole chain, delete
each of its responses.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Select,
    and_,
    delete,
    func,
    literal,
    select,
    text,
    update,
)

from .database import Database
from .errors import NotFoundError
from .expiring_rows import is_kept
from .items import StoredItem, item_columns, read_item
from .tables import container_files, conversation_items, response_items, responses

__all__ = [
    "chain_of",
    "delete_expired",
    "forget",
    "read_history",
    "take_turns",
    "visible",
    "visible_to",
]

_BATCH = 200  # rows of one statement or transaction; others write in between
_LOCK = 0x6861726D6F6E7A  # deletions take turns; otherwise two could leave a row to each other


def visible(now: float) -> ColumnElement[bool]:
    """Select responses that are neither deleted nor expired."""
    return and_(responses.c.deleted.is_(False), is_kept(responses, now))


def visible_to(owner: str, now: float, id: str) -> ColumnElement[bool]:
    """Select the response `id` if `owner` may see it."""
    return and_(responses.c.id == id, responses.c.owner == owner, visible(now))


def chain_of(id: str, owner: str, now: float) -> CTE:
    """Select a response (`age` 0), the one before it (`age` 1), and so on."""
    newest = select(
        responses.c.id,
        responses.c.previous_response_id,
        responses.c.conversation_id,
        responses.c.conversation_length,
        literal(0).label("age"),
    ).where(visible_to(owner, now, id))
    chain = newest.cte("chain", recursive=True)
    older = (
        select(
            responses.c.id,
            responses.c.previous_response_id,
            responses.c.conversation_id,
            responses.c.conversation_length,
            chain.c.age + 1,
        )
        .join(chain, responses.c.id == chain.c.previous_response_id)
        .where(responses.c.owner == owner)
    )
    return chain.union_all(older)


def read_history(connection: Connection, id: str, owner: str, now: float) -> list[StoredItem]:
    """Read the items of a response and of all responses before it, the oldest first.

    If the first response was made in a conversation, the items that the conversation had then come
    first, without deleted ones. This takes three queries for any length. Raises `NotFoundError`.
    """
    chain = chain_of(id, owner, now)
    first = connection.execute(select(chain).order_by(chain.c.age.desc()).limit(1)).first()
    if first is None:
        raise NotFoundError("response", id)
    history: list[StoredItem] = []
    if first.conversation_id is not None:
        table = conversation_items
        earlier = (
            item_columns(table)
            .where(
                table.c.conversation_id == first.conversation_id,
                table.c.position < first.conversation_length,
            )
            .order_by(table.c.position)
        )
        history += map(read_item, connection.execute(earlier))
    items = (
        item_columns(response_items)
        .join(chain, response_items.c.response_id == chain.c.id)
        .order_by(chain.c.age.desc(), response_items.c.direction, response_items.c.position)
    )
    history += map(read_item, connection.execute(items))
    return history


def take_turns(database: Database, connection: Connection) -> None:
    """Wait until no other transaction deletes responses."""
    if not database.is_sqlite:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def forget(database: Database, connection: Connection, ids: list[str]) -> None:
    """Delete responses and those before them that no other response follows."""
    take_turns(database, connection)
    connection.execute(
        update(responses)
        .where(responses.c.id.in_(ids))
        .values(deleted=True, body={}, events=None, server_id=None)
    )
    connection.execute(delete(container_files).where(container_files.c.response_id.in_(ids)))
    for id in ids:
        unneeded = _unneeded(connection, id)
        for start in range(0, len(unneeded), _BATCH):
            batch = unneeded[start : start + _BATCH]
            connection.execute(delete(responses).where(responses.c.id.in_(batch)))


def delete_expired(database: Database, now: float) -> int:
    """Delete expired responses; return their number."""
    expired = (
        select(responses.c.id)
        .where(responses.c.expires_at <= int(now), responses.c.deleted.is_(False))
        .order_by(responses.c.expires_at)
        .limit(_BATCH)
    )
    count = 0
    while True:
        with database.writing() as connection:
            ids = list(connection.execute(expired).scalars())
            forget(database, connection, ids)
        count += len(ids)
        if len(ids) < _BATCH:
            return count


def _unneeded(connection: Connection, id: str) -> list[str]:
    """List a deleted response, followed by those before it that no other response follows."""
    unneeded: list[str] = []
    for row in connection.execute(_deleted_chain(id)):
        followers = 1 if unneeded else 0
        if row.followers > followers:
            break
        unneeded.append(row.id)
    return unneeded


def _deleted_chain(id: str) -> Select[Any]:
    """Select a deleted response and the deleted ones before it, with their follower counts."""
    columns = (responses.c.id, responses.c.previous_response_id)
    gone = responses.c.deleted.is_(True)
    chain = (
        select(*columns, literal(0).label("age"))
        .where(responses.c.id == id, gone)
        .cte("deleted_chain", recursive=True)
    )
    chain = chain.union_all(
        select(*columns, chain.c.age + 1)
        .join(chain, responses.c.id == chain.c.previous_response_id)
        .where(gone)
    )
    follower = responses.alias("follower")
    followers = (
        select(func.count())
        .select_from(follower)
        .where(follower.c.previous_response_id == chain.c.id)
        .scalar_subquery()
    )
    return select(chain.c.id, followers.label("followers")).order_by(chain.c.age)
