"""API keys as rows: hashes, names and limits, but not the keys themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row, bindparam, insert, select, update

from .database import Database
from .errors import NotFoundError
from .tables import api_keys

__all__ = ["KeyLimits", "KeyRecord", "Keys"]


@dataclass(frozen=True)
class KeyLimits:
    """The limits of a key's requests; None is no limit.

    `tokens_per_minute` counts the tokens of prompts and output.
    """

    requests_per_minute: int | None = None
    concurrent_requests: int | None = None
    tokens_per_minute: int | None = None


@dataclass(frozen=True)
class KeyRecord:
    """A key: `hash` is its SHA-256 in hexadecimal; times are in seconds since 1970."""

    id: str
    hash: str = field(repr=False)
    name: str
    created_at: int
    revoked_at: int | None = None
    limits: KeyLimits = KeyLimits()


# Every request needs one of these, so they are built once.
_ANY = select(api_keys.c.id).limit(1)
_BY_HASH = select(api_keys).where(api_keys.c.hash == bindparam("key_hash"))


class Keys:
    """The API keys in a database; `Store` makes it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, key: KeyRecord) -> None:
        """Store a new key."""
        with self._database.writing() as connection:
            connection.execute(
                insert(api_keys).values(
                    id=key.id,
                    hash=key.hash,
                    name=key.name,
                    created_at=key.created_at,
                    revoked_at=key.revoked_at,
                    requests_per_minute=key.limits.requests_per_minute,
                    concurrent_requests=key.limits.concurrent_requests,
                    tokens_per_minute=key.limits.tokens_per_minute,
                )
            )

    def all(self) -> list[KeyRecord]:
        """List all keys, also revoked ones, the oldest first."""
        query = select(api_keys).order_by(api_keys.c.created_at, api_keys.c.id)
        with self._database.reading() as connection:
            return [_record(row) for row in connection.execute(query)]

    def exist(self) -> bool:
        """Return whether there has ever been a key."""
        with self._database.reading() as connection:
            return connection.execute(_ANY).first() is not None

    def find(self, hash: str) -> KeyRecord | None:
        """Find a key by its hash, revoked or not."""
        with self._database.reading() as connection:
            row = connection.execute(_BY_HASH, {"key_hash": hash}).first()
        return None if row is None else _record(row)

    def revoke(self, id: str, now: int) -> KeyRecord:
        """Revoke a key at `now`; a revoked key is not changed.

        Raises `NotFoundError`.
        """
        with self._database.writing() as connection:
            change = update(api_keys).where(api_keys.c.id == id, api_keys.c.revoked_at.is_(None))
            connection.execute(change.values(revoked_at=now))
            row = connection.execute(select(api_keys).where(api_keys.c.id == id)).first()
        if row is None:
            raise NotFoundError("key", id)
        return _record(row)


def _record(row: Row[Any]) -> KeyRecord:
    limits = KeyLimits(row.requests_per_minute, row.concurrent_requests, row.tokens_per_minute)
    return KeyRecord(row.id, row.hash, row.name, row.created_at, row.revoked_at, limits)
