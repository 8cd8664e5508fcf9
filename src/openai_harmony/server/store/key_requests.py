"""Requests that count against the limits of API keys, over all servers of one database."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from sqlalchemy import and_, delete, insert, select, text, update

from .database import Database
from .leases import ServerClock
from .tables import key_requests

__all__ = ["KeyRequest", "KeyRequests"]

_REMEMBERED = 60.0  # seconds for which a request that has ended counts

_Refusal = TypeVar("_Refusal")


class KeyRequest(NamedTuple):
    """A request of the last minute, or one that runs; times in seconds since 1970.

    `ended_at` is None, and `tokens` 0, as long as it runs.
    """

    began_at: float
    ended_at: float | None
    tokens: int


class KeyRequests:
    """The requests of keys that have limits; the clocks of the servers should agree."""

    def __init__(self, database: Database, server: ServerClock) -> None:
        self._database = database
        self._server = server

    def begin(
        self, owner: str, judge: Callable[[Sequence[KeyRequest], float], _Refusal | None]
    ) -> str | _Refusal:
        """Begin a request of a key, and return its id; or the refusal of `judge`.

        That reads the requests of the key, and the time now. No other server begins one meanwhile.
        """
        now = self._server.now()
        table = key_requests
        with self._database.writing() as connection:
            if not self._database.is_sqlite:  # where one transaction writes at a time
                lock = {"key": _lock_key(owner)}
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), lock)
            is_old = and_(table.c.owner == owner, table.c.ended_at <= now - _REMEMBERED)
            connection.execute(delete(table).where(is_old))
            query = select(table.c.began_at, table.c.ended_at, table.c.tokens)
            rows = connection.execute(
                query.where(table.c.owner == owner).order_by(table.c.began_at)
            )
            refusal = judge([KeyRequest(*row) for row in rows], now)
            if refusal is not None:
                return refusal
            id = uuid.uuid4().hex
            values = {"id": id, "owner": owner, "server_id": self._server.id, "began_at": now}
            connection.execute(insert(table).values(**values, tokens=0))
        return id

    def end(self, id: str, tokens: int) -> None:
        """End a request, which took so many tokens."""
        values = {"ended_at": self._server.now(), "tokens": tokens}
        with self._database.writing() as connection:
            connection.execute(update(key_requests).where(key_requests.c.id == id).values(values))


def _lock_key(owner: str) -> int:
    digest = hashlib.sha256(f"harmony key {owner}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
