"""Chat completions of requests with ``store``, with their messages."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select, update

from .database import Database
from .errors import NotFoundError
from .expiring_rows import delete_rows, in_order, is_visible
from .items import Order
from .leases import ServerClock
from .quota import Quota, size_of
from .tables import chat_completions

__all__ = ["CompletionPage", "StoredCompletion", "StoredCompletions"]

_BATCH = 200  # rows of one statement


@dataclass(frozen=True)
class StoredCompletion:
    """A completion in the form for clients, its metadata, and the messages of its request."""

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

    def __init__(self, database: Database, server: ServerClock, quota: Quota) -> None:
        self._database = database
        self._server = server
        self._quota = quota

    def add(self, completion: StoredCompletion) -> None:
        """Store a completion. Raises `StorageFullError` if the owner has no room for it."""
        self._quota.add(completion.owner, size_of(completion.completion, completion.messages))
        with self._database.writing() as connection:
            connection.execute(insert(chat_completions).values(**vars(completion)))

    def get(self, id: str, owner: str) -> StoredCompletion:
        """Read a completion. Raises `NotFoundError`, like all later methods."""
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
        """Read at most `limit` completions after the one with the id `after`.

        `model` and `metadata` select completions.
        """
        table = chat_completions
        query = select(table).where(self._visible(owner))
        if model is not None:
            query = query.where(table.c.model == model)
        found: builtins.list[StoredCompletion] = []
        with self._database.reading() as connection:
            start = None if after is None else self._row(connection, after, owner)
            sorted_query = in_order(query, table, start, order)
            for row in connection.execution_options(yield_per=_BATCH).execute(sorted_query):
                if (metadata or {}).items() <= row.metadata.items():
                    found.append(_completion(row))
                if len(found) > limit:
                    break
        return CompletionPage(tuple(found[:limit]), has_more=len(found) > limit)

    def delete_expired(self) -> int:
        """Delete expired completions; return their number."""
        return delete_rows(self._database, chat_completions, self._server.now())

    def _visible(self, owner: str) -> ColumnElement[bool]:
        return is_visible(chat_completions, owner, self._server.now())

    def _row(self, connection: Connection, id: str, owner: str) -> Row[Any]:
        query = select(chat_completions).where(chat_completions.c.id == id, self._visible(owner))
        row = connection.execute(query).first()
        if row is None:
            raise NotFoundError("completion", id)
        return row


def _completion(row: Row[Any]) -> StoredCompletion:
    return StoredCompletion(**row._mapping)
