"""The store: opens a database, migrates it, and gives access to everything in it."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Select, func, select

from ...apis.batches import Batch
from .batches import Batches
from .chat_completions import MessageThreads, StoredCompletions
from .containers import ContainerFiles, Containers
from .conversations import Conversations
from .database import Database, migrate
from .errors import StoreError, StoreFullError
from .files import PartialUploads, Uploads, sweep_all
from .keys import Claims, KeyRequests, Keys
from .owned_data import OwnedData, Quota
from .response_chains import ToolSessions, visible
from .responses import Responses
from .rows import StoredItem, item_columns, read_item
from .running_servers import ServerClock, lease_in
from .tables import conversation_items, conversations, response_items, responses

_BATCH = 500  # ids of one query


class Store:
    """Responses, conversations, files and API keys in one database.

    - `url`: a path, ``sqlite:///PATH``, ``postgresql://...``, or None for a database in memory that
      ends with the store.
    - `must_exist`: raise an error for a missing file instead of making it.
    - `clock`: returns seconds since 1970; responses expire by it.
    - `max_stored_bytes`: the most bytes of each owner; None is no limit.

    Raises `StoreError` if the database cannot be used. May be called from any thread.

    >>> from gpt_oss_harmony.server.store import Conversation
    >>> with Store(None) as store:
    ...     store.conversations.create(Conversation("conv_1", "", 1754352000, {"topic": "demo"}))
    ...     store.conversations.get("conv_1", owner="").metadata
    {'topic': 'demo'}
    """

    def __init__(
        self,
        url: str | Path | None = None,
        *,
        clock: Callable[[], float] = time.time,
        must_exist: bool = False,
        max_stored_bytes: int | None = None,
    ) -> None:
        self._database = Database(url, must_exist=must_exist)
        try:
            migrate(self._database)
        except BaseException:
            self._database.close()
            raise
        self._database.is_open = True
        self._server = ServerClock(uuid.uuid4().hex, clock)
        self._lease = lease_in(self._database, self._server.id)
        self._is_serving = False
        self.quota = quota = Quota(self._database, max_stored_bytes)
        self.claims = Claims(self._database, self._server)
        self.conversations = Conversations(self._database, self._server, quota)
        self.responses = Responses(
            self._database, self._server, quota, self.claims, self.conversations
        )
        self.sessions = ToolSessions(self._database, self._server)
        self.files = ContainerFiles(self._database, self._server, quota)
        self.uploads = Uploads(self._database, self._server, quota)
        self.containers = Containers(self._database, self._server, quota)
        self.completions = StoredCompletions(self._database, self._server, quota)
        self.threads = MessageThreads(self._database, self._server, quota)
        self.batches = Batches(self._database, self._server, quota)
        self.partial_uploads = PartialUploads(self._database, self._server, quota)
        self.keys = Keys(self._database)
        self.key_requests = KeyRequests(self._database, self._server)
        self.owned = OwnedData(self._database, self._server)

    @property
    def server_id(self) -> str:
        """The id of this server, while it runs."""
        return self._server.id

    @property
    def postgres_url(self) -> URL | None:
        """The URL of a PostgreSQL database, which other servers may share."""
        return None if self._database.is_sqlite else self._database.url

    def start_serving(self) -> int:
        """Take the lease of this server, and fail the running responses of dead ones.

        Call it before the first request and then every few seconds: after a restart of the
        database, it takes the lease again. A program that only reads or creates keys need not call
        it. Returns the number of failed responses. Raises `StoreInUseError` if another server has
        the SQLite file.
        """
        if self._database.problem is not None:
            self.check()
        self._lease.acquire()
        if not self._is_serving:
            self._is_serving = True
            with suppress(StoreFullError):  # it serves what it can
                self._database.fill_reserve()
        return self.responses.abandon(self._lease)

    def claim_batches(self, busy: Collection[str]) -> list[Batch]:
        """Return the batches that this server works on, and take some (`Batches.claim`)."""
        return self.batches.claim(self._lease, busy)

    def maintain(self) -> None:
        """Delete expired responses, completions, threads, files and containers; free their space.

        Once a minute is often enough. After `start_serving` was called, this also does the same.
        """
        self.responses.delete_expired()
        expiring = (self.completions, self.threads, self.uploads, self.containers, self.batches)
        for rows in (*expiring, self.partial_uploads, self.key_requests, self.claims):
            rows.delete_expired()
        sweep_all(self._database)
        self._database.free_space()
        if self._is_serving:
            self.start_serving()

    def find_items(self, ids: Sequence[str], owner: str) -> dict[str, StoredItem]:
        """Find items of responses and conversations by their ids; leave out unknown ids.

        The newest item of an id is found. The output of responses has priority, because it has
        tokens; then come items of conversations and the input of responses. A client may send an
        item with the same id and other content: compare the items before you use the tokens.
        """
        in_conversations = (
            item_columns(conversation_items)
            .add_columns(_rank(conversation_items.c.id, conversations))
            .join(conversations, conversations.c.id == conversation_items.c.conversation_id)
            .where(conversations.c.owner == owner)
        )
        now = self._server.now()
        outputs, inputs = (_in_responses(name, owner, now) for name in ("output", "input"))
        items: dict[str, StoredItem] = {}
        with self._database.reading() as connection:
            for query in (outputs, in_conversations, inputs):
                missing = [id for id in dict.fromkeys(ids) if id not in items]
                for start in range(0, len(missing), _BATCH):
                    batch = missing[start : start + _BATCH]
                    ranked = query.where(query.selected_columns.id.in_(batch)).subquery()
                    rows = connection.execute(select(ranked).where(ranked.c.rank == 1))
                    items.update((row.id, read_item(row)) for row in rows)
        return items

    @property
    def problem(self) -> str | None:
        """The reason why the database does not work; None if it works."""
        return self._database.problem

    def check(self) -> None:
        """Raise `StoreError` if the database cannot be written."""
        if self._is_serving:
            self._database.fill_reserve()
        self.key_requests.write_nothing()
        self._database.note_recovery()

    def size(self) -> int:
        """Return the bytes that the database takes, with what is free in it."""
        return self._database.size()

    def back_up(self, path: str | Path) -> None:
        """Copy the current state of a SQLite database to a new file; servers may keep writing.

        Raises `StoreError` if the file exists, and for PostgreSQL, which has ``pg_dump``.
        """
        if not self._database.is_sqlite:
            raise StoreError(
                f"{self._database.name} is a PostgreSQL database; back it up with "
                f"'pg_dump --format custom --file {path}'"
            )
        try:
            # `VACUUM INTO` also fills an empty file; one that it makes itself can be read by
            # others.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise StoreError(
                f"the copy {path} cannot be made: {error.strerror}; name a new file"
            ) from error
        with self._database.errors_named(), self._database.engine.connect() as connection:
            # Without a transaction, which the statement makes itself.
            connection.connection.execute("VACUUM INTO ?", (str(path),)).close()

    def close(self) -> None:
        """Close the database; the store cannot be used afterwards."""
        self._lease.release()
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _in_responses(direction: str, owner: str, now: float) -> Select[Any]:
    table = response_items
    return (
        item_columns(table)
        .add_columns(_rank(table.c.id, responses))
        .join(responses, responses.c.id == table.c.response_id)
        .where(table.c.direction == direction, responses.c.owner == owner, visible(now))
    )


def _rank(id: Any, table: Any) -> Any:
    """Number the items of an id, the newest first."""
    newest = func.row_number().over(
        partition_by=id, order_by=(table.c.created_at.desc(), table.c.id.desc())
    )
    return newest.label("rank")
