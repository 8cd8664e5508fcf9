"""Stored chat completions: those whose requests had ``store``, with their messages."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Table,
    and_,
    delete,
    insert,
    or_,
    select,
    update,
)

from .database import Database
from .errors import NotFoundError
from .items import Order
from .leases import ServerClock
from .tables import chat_completions

__all__ = ["CompletionPage", "StoredCompletion", "StoredCompletions", "follows"]

_BATCH = 200  # rows of one statement


@dataclass(frozen=True)
class StoredCompletion:
    """A completion as clients read it, its metadata, and the messages of its request."""

    id: str
    owner: str
    model: str
    created_at: int
    expires_at: int | None
    metadata: dict[str, str]
    completion: Mapping[str, Any]
    messages: list[Any]


class CompletionPage(NamedTuple):
    """Some completions, and whether more follow."""

    completions: tuple[StoredCompletion, ...]
    has_more: bool


class StoredCompletions:
    """The chat completions in a database; `Store` makes it."""

    def __init__(self, database: Database, server: ServerClock) -> None:
        self._database = database
        self._server = server

    def add(self, completion: StoredCompletion) -> None:
        """Store a completion."""
        with self._database.writing() as connection:
            connection.execute(insert(chat_completions).values(**vars(completion)))

    def get(self, id: str, owner: str) -> StoredCompletion:
        """Read a completion. Raises `NotFoundError`, as all that follow do."""
        with self._database.reading() as connection:
            return _completion(self._row(connection, id, owner))

    def update(self, id: str, owner: str, metadata: Mapping[str, str]) -> StoredCompletion:
        """Replace the metadata; return the completion."""
        with self._database.writing() as connection:
            self._row(connection, id, owner)
            change = update(chat_completions).where(chat_completions.c.id == id)
            connection.execute(change.values(metadata=dict(metadata)))
            return _completion(self._row(connection, id, owner))

    def delete(self, id: str, owner: str) -> None:
        """Delete a completion."""
        with self._database.writing() as connection:
            self._row(connection, id, owner)
            connection.execute(delete(chat_completions).where(chat_completions.c.id == id))

    def page(
        self,
        owner: str,
        *,
        after: str | None = None,
        limit: int = 20,
        order: Order = "asc",
        model: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> CompletionPage:
        """Read the completions that follow the one with the id `after`, `limit` at most.

        `model` and `metadata` select those that have them.
        """
        table = chat_completions
        age = (table.c.created_at, table.c.id)
        query = select(table).where(self._visible(owner))
        if model is not None:
            query = query.where(table.c.model == model)
        found: builtins.list[StoredCompletion] = []
        with self._database.reading() as connection:
            if after is not None:
                start = self._row(connection, after, owner)
                query = query.where(follows(table, start, order))
            sorted_query = query.order_by(*(c.asc() if order == "asc" else c.desc() for c in age))
            for row in connection.execution_options(yield_per=_BATCH).execute(sorted_query):
                if (metadata or {}).items() <= row.metadata.items():
                    found.append(_completion(row))
                if len(found) > limit:
                    break
        return CompletionPage(tuple(found[:limit]), has_more=len(found) > limit)

    def delete_expired(self) -> int:
        """Delete expired completions; return how many."""
        expired = chat_completions.c.expires_at <= int(self._server.now())
        with self._database.writing() as connection:
            return connection.execute(delete(chat_completions).where(expired)).rowcount

    def _visible(self, owner: str) -> ColumnElement[bool]:
        expires_at = chat_completions.c.expires_at
        is_kept = or_(expires_at.is_(None), expires_at > int(self._server.now()))
        return and_(chat_completions.c.owner == owner, is_kept)

    def _row(self, connection: Connection, id: str, owner: str) -> Row[Any]:
        query = select(chat_completions).where(chat_completions.c.id == id, self._visible(owner))
        row = connection.execute(query).first()
        if row is None:
            raise NotFoundError("completion", id)
        return row


def follows(table: Table, start: Any, order: Order) -> ColumnElement[bool]:
    """Select the rows after one, by the time when they were made and then by their ids."""
    created_at, id = table.c.created_at, table.c.id
    same_second = created_at == start.created_at
    if order == "asc":
        return or_(created_at > start.created_at, and_(same_second, id > start.id))
    return or_(created_at < start.created_at, and_(same_second, id < start.id))


def _completion(row: Row[Any]) -> StoredCompletion:
    return StoredCompletion(**row._mapping)
