"""Claims: what one request uses, and no later one may use again.

A request claims the approvals of the calls that it runs, and its idempotency key. A repetition of
the request finds the claim, and with it the id of what the first one made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from sqlalchemy import delete, insert, select, text

from .database import Database
from .errors import ClaimedError
from .expiring_rows import is_kept
from .leases import ServerClock
from .tables import claims

__all__ = ["Claim", "Claims"]


class Claim(NamedTuple):
    """A name that an owner's request claims; `content` is the same in a true repetition."""

    name: str
    content: str = ""


class Claims:
    """The claims in a database; `Store` makes it."""

    def __init__(self, database: Database, server: ServerClock) -> None:
        self._database = database
        self._server = server

    @contextmanager
    def taken(
        self, wanted: Sequence[Claim], owner: str, made_id: str, expires_at: int | None
    ) -> Generator[None, None, None]:
        """Claim all for what is stored in this block, in one transaction with it.

        Raises `ClaimedError`; then, or if the block fails, nothing is claimed.
        """
        if not wanted:
            yield
            return
        with self._database.writing() as connection:
            if not self._database.is_sqlite:  # SQLite runs one writing transaction at a time
                digest = hashlib.sha256(f"harmony claims {owner}".encode()).digest()
                lock = int.from_bytes(digest[:8], "big", signed=True)
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": lock})
            for claim in wanted:
                this = (claims.c.owner == owner, claims.c.name == claim.name)
                kept = is_kept(claims, self._server.now())
                taken = connection.execute(select(claims).where(*this, kept)).first()
                if taken is not None:
                    raise ClaimedError(
                        claim.name, taken.made_id, is_same=taken.content == claim.content
                    )
                connection.execute(delete(claims).where(*this))  # it has expired
                row = {"owner": owner, "made_id": made_id, "expires_at": expires_at}
                connection.execute(insert(claims).values(**row, **claim._asdict()))
            yield

    def take(
        self, wanted: Sequence[Claim], owner: str, made_id: str, expires_at: int | None
    ) -> None:
        """Claim all for something that is not stored, or not yet. Raises `ClaimedError`."""
        with self.taken(wanted, owner, made_id, expires_at):
            pass

    def release(self, made_id: str, owner: str) -> None:
        """Give back the claims for something that was not made."""
        mine = (claims.c.made_id == made_id, claims.c.owner == owner)
        with self._database.writing() as connection:
            connection.execute(delete(claims).where(*mine))

    def delete_expired(self) -> None:
        """Delete the claims that are as old as deleted responses."""
        with self._database.writing() as connection:
            connection.execute(delete(claims).where(claims.c.expires_at <= self._server.now()))
