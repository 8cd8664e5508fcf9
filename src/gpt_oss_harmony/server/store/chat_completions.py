"""Chat completions of requests with ``store``, and threads of the Messages API.

A thread is a conversation under the id of its last answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert

from .owned_data import size_of
from .rows import DescribedRows, Order, OwnedRows, Page
from .tables import chat_completions, message_threads


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


class StoredCompletions(DescribedRows[StoredCompletion]):
    """The chat completions in a database; `Store` makes it."""

    kind = "completion"
    table = chat_completions
    record = StoredCompletion

    def add(self, completion: StoredCompletion) -> None:
        """Store a completion. Raises `StorageFullError` if the owner has no room for it."""
        size = size_of(completion.completion, completion.messages)
        adding = self._quota.adding(completion.owner, size, rows=1)
        with adding, self._database.writing() as connection:
            connection.execute(insert(chat_completions).values(**vars(completion)))

    def page(
        self,
        owner: str,
        *,
        after: str | None = None,
        limit: int = 20,
        order: Order = "asc",
        model: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Page[StoredCompletion]:
        """Read at most `limit` completions after the one with the id `after`.

        `model` and `metadata` select completions.
        """
        query = self._visible(owner)
        if model is not None:
            query = query.where(chat_completions.c.model == model)
        return self._page(
            query,
            owner,
            after=after,
            limit=limit,
            order=order,
            is_wanted=lambda stored: (metadata or {}).items() <= stored.metadata.items(),
        )


@dataclass(frozen=True)
class MessageThread:
    """A thread after the answer with its id.

    `settings` are the fields that later requests take from the first one. `messages` are all
    messages, with the answer.
    """

    id: str
    owner: str
    created_at: int
    expires_at: int | None
    settings: Mapping[str, Any]
    messages: list[Any]


class MessageThreads(OwnedRows[MessageThread]):
    """The threads in a database; `Store` makes it."""

    kind = "thread"
    table = message_threads
    record = MessageThread

    def add(self, thread: MessageThread, after: str | None = None) -> None:
        """Store a thread in place of the one `after` which it goes on.

        So a thread takes the room of its messages once. Of two requests that continue the same
        thread at once, both do; a later one with the old id finds none. Raises `StorageFullError`
        if the owner has no room for it.
        """
        adding = self._quota.adding(thread.owner, size_of(thread.settings, thread.messages), rows=1)
        table = message_threads
        with adding, self._database.writing() as connection:
            if after is not None:
                is_before = (table.c.id == after, table.c.owner == thread.owner)
                connection.execute(delete(table).where(*is_before))
            connection.execute(insert(table).values(**vars(thread)))
