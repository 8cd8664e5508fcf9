"""Requests that count against the limits of API keys, over all servers of one database."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, and_, delete, insert, select, text, update

from .database import Database
from .leases import ServerClock
from .tables import key_requests

__all__ = ["KeyRequest", "KeyRequests", "end_requests"]

_REMEMBERED = 61  # seconds after its end, because it counts for a minute
_LONGEST = 24 * 60 * 60  # seconds after which a request counts as ended

_Refusal = TypeVar("_Refusal")


class KeyRequest(NamedTuple):
    """A request of the last minute, or a running one; times in seconds since 1970.

    While it runs, `ended_at` is None and `tokens` is 0.
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
        """Begin a request of a key and return its id, or return the refusal of `judge`.

        `judge` gets the requests of the key and the current time. No other server begins a request
        of this key meanwhile.
        """
        now, table = self._server.now(), key_requests
        with self._database.writing() as connection:
            if not self._database.is_sqlite:  # SQLite runs one writing transaction at a time
                lock = {"key": _lock_key(owner)}
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), lock)
            query = select(table.c.began_at, table.c.ended_at, table.c.tokens)
            counting = query.where(table.c.owner == owner, table.c.expires_at > now)
            requests = [
                KeyRequest(began / 1000, None if ended is None else ended / 1000, tokens)
                for began, ended, tokens in connection.execute(counting)
            ]
            refusal = judge(requests, now)
            if refusal is not None:
                return refusal
            values = self._new(owner, now)
            connection.execute(insert(table).values(values))
        return str(values["id"])

    def _new(self, owner: str, now: float) -> dict[str, Any]:
        return {
            "id": uuid.uuid4().hex,
            "owner": owner,
            "server_id": self._server.id,
            "began_at": round(now * 1000),
            "tokens": 0,
            "expires_at": int(now) + _LONGEST,
        }

    def end(self, id: str, tokens: int) -> None:
        """End a request that used this number of tokens."""
        ended = _ended(self._server.now())
        with self._database.writing() as connection:
            this = key_requests.c.id == id
            connection.execute(update(key_requests).where(this).values(**ended, tokens=tokens))

    def write_nothing(self) -> None:
        """Insert a row and delete it: only a transaction that writes finds out that none can."""
        row = self._new("", self._server.now())
        with self._database.writing() as connection:
            connection.execute(insert(key_requests).values(row))
            connection.execute(delete(key_requests).where(key_requests.c.id == row["id"]))

    def delete_expired(self) -> None:
        """Delete the requests that do not count any more."""
        is_old = key_requests.c.expires_at <= self._server.now()
        with self._database.writing() as connection:
            connection.execute(delete(key_requests).where(is_old))


def end_requests(connection: Connection, server_id: str, now: float) -> None:
    """End the requests of a dead server; their tokens are unknown."""
    table = key_requests
    are_its_own = and_(table.c.server_id == server_id, table.c.ended_at.is_(None))
    connection.execute(update(table).where(are_its_own).values(_ended(now)))


def _ended(now: float) -> dict[str, int]:
    return {"ended_at": round(now * 1000), "expires_at": int(now) + _REMEMBERED}


def _lock_key(owner: str) -> int:
    digest = hashlib.sha256(f"harmony key {owner}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
