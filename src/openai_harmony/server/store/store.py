"""The store: opens a database, brings it up to date, and hands out what is in it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from .container_files import ContainerFiles
from .conversations import Conversations
from .database import Database
from .item_search import find_items
from .items import StoredItem
from .keys import Keys
from .migration import migrate
from .presence import presence_in
from .responses import Responses
from .server_clock import ServerClock
from .tool_sessions import ToolSessions

__all__ = ["Store"]


class Store:
    """Responses, conversations, files and API keys in one database.

    `url` is a path, ``sqlite:///PATH``, ``postgresql://...``, or None for a database in memory that
    ends with the store. Opening makes what is missing. `clock` gives seconds since 1970; by it,
    responses expire.

    Raises `StoreError` where the database cannot be used. May be called from any thread.

    >>> from openai_harmony.server.store import Conversation
    >>> with Store(None) as store:
    ...     store.conversations.create(Conversation("conv_1", "", 1754352000, {"topic": "demo"}))
    ...     store.conversations.get("conv_1", owner="").metadata
    {'topic': 'demo'}
    """

    def __init__(
        self, url: str | Path | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._database = Database(url)
        try:
            migrate(self._database)
        except BaseException:
            self._database.close()
            raise
        self._server = ServerClock(uuid.uuid4().hex, clock)
        self._presence = presence_in(self._database, self._server.id)
        self._is_serving = False
        self.responses = Responses(self._database, self._server)
        self.conversations = Conversations(self._database)
        self.sessions = ToolSessions(self._database, self._server)
        self.files = ContainerFiles(self._database, self._server)
        self.keys = Keys(self._database)

    def start_serving(self) -> int:
        """Show that this server lives, and fail what dead ones left running; return how many.

        Call it before the first request; a program that only reads or makes keys need not. Raises
        `StoreInUseError` where another server has the SQLite file.
        """
        self._presence.begin()
        self._is_serving = True
        return self.responses.abandon(self._presence)

    def maintain(self) -> None:
        """Do what is due now and then: once in a minute is often enough.

        Deletes what has expired. A server takes its place again where the database was restarted,
        and fails what others left running.
        """
        self.responses.delete_expired()
        if self._is_serving:
            self.start_serving()

    def find_items(self, ids: Sequence[str], owner: str) -> dict[str, StoredItem]:
        """Find items of responses and conversations by their ids; unknown ids are left out.

        A client may send an item of this id with another content: compare before the tokens are
        used for it.
        """
        with self._database.reading() as connection:
            return find_items(connection, ids, owner, self._server.now())

    def check(self) -> None:
        """Raise `StoreError` where the database does not answer."""
        with self._database.reading() as connection:
            connection.exec_driver_sql("SELECT 1")

    def close(self) -> None:
        """Close the database; the store is of no use afterwards."""
        self._presence.end()
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
