"""Claims: what one request uses, and no later one may use again.

A request claims the approvals of the calls that it runs, and its idempotency key. A repetition of
the request finds the claim, and with it the response that the first one made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select, text

from .database import Database
from .errors import ClaimedError
from .expiring_rows import is_kept
from .leases import ServerClock
from .tables import claims

__all__ = ["Claim", "Claims", "take_claims"]


class Claim(NamedTuple):
    """A name that an owner's request claims; `content` is the same in a true repetition."""

    name: str
    content: str = ""


class Claims:
    """The claims in a database; `Store` makes it."""

    def __init__(self, database: Database, server: ServerClock) -> None:
        self._database = database
        self._server = server

    def take(
        self, wanted: Sequence[Claim], owner: str, response_id: str, expires_at: int | None
    ) -> None:
        """Claim all for a response that is not stored, or nothing. Raises `ClaimedError`."""
        with self._database.writing() as connection:
            now = self._server.now()
            take_claims(self._database, connection, wanted, owner, response_id, expires_at, now)

    def release(self, response_id: str, owner: str) -> None:
        """Give back the claims of a response that has done nothing."""
        mine = (claims.c.response_id == response_id, claims.c.owner == owner)
        with self._database.writing() as connection:
            connection.execute(delete(claims).where(*mine))

    def delete_expired(self) -> None:
        """Delete the claims that are as old as deleted responses."""
        with self._database.writing() as connection:
            connection.execute(delete(claims).where(claims.c.expires_at <= self._server.now()))


def take_claims(
    database: Database,
    connection: Connection,
    wanted: Sequence[Claim],
    owner: str,
    response_id: str,
    expires_at: int | None,
    now: float,
) -> None:
    """Do what `Claims.take` does, in a transaction that also does something else."""
    if not wanted:
        return
    if not database.is_sqlite:  # SQLite runs one writing transaction at a time
        digest = hashlib.sha256(f"harmony claims {owner}".encode()).digest()
        lock = int.from_bytes(digest[:8], "big", signed=True)
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": lock})
    for claim in wanted:
        this = (claims.c.owner == owner, claims.c.name == claim.name)
        taken = connection.execute(select(claims).where(*this, is_kept(claims, now))).first()
        if taken is not None:
            raise ClaimedError(
                claim.name, taken.response_id, is_same=taken.content == claim.content
            )
        connection.execute(delete(claims).where(*this))  # it has expired
        row = {"owner": owner, "response_id": response_id, "expires_at": expires_at}
        connection.execute(insert(claims).values(**row, **claim._asdict()))
