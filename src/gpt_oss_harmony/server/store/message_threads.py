"""Threads of the Messages API: a conversation under the id of its last answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert

from .owned_data import size_of
from .rows import OwnedRows
from .tables import message_threads


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
