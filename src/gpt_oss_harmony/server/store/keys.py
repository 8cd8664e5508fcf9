"""API keys as rows: records, requests that count against their limits, and claims of requests.

The records have hashes, names and limits, but not the keys themselves. Requests and claims belong
to an owner, which is the id of a key, or empty on a server without keys.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Row, and_, bindparam, delete, func, insert, select, update

from .database import Database, lock_key
from .errors import ClaimedError, NotFoundError
from .rows import ExpiringRows, is_kept
from .tables import api_keys, claims, key_requests

_REMEMBERED = 61  # seconds after a request's end, because it counts for a minute
_LONGEST = 24 * 60 * 60  # seconds after which a request counts as ended

_Refusal = TypeVar("_Refusal")


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
_COUNTS = select(func.count(), func.count(api_keys.c.revoked_at)).select_from(api_keys)
_BY_HASH = select(api_keys).where(api_keys.c.hash == bindparam("key_hash"))


class Keys:
    """The API keys in a database; `Store` makes it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, key: KeyRecord) -> None:
        """Store a new key."""
        values = {**vars(key), **vars(key.limits)}
        del values["limits"]
        with self._database.writing() as connection:
            connection.execute(insert(api_keys).values(values))

    def all(self) -> list[KeyRecord]:
        """List all keys, also revoked ones, the oldest first."""
        query = select(api_keys).order_by(api_keys.c.created_at, api_keys.c.id)
        with self._database.reading() as connection:
            return [_record(row) for row in connection.execute(query)]

    def exist(self) -> bool:
        """Return whether there has ever been a key."""
        with self._database.reading() as connection:
            return connection.execute(_ANY).first() is not None

    def counts(self) -> tuple[int, int]:
        """Count the keys that there have ever been, and those of them that were revoked."""
        with self._database.reading() as connection:
            made, revoked = connection.execute(_COUNTS).one()
        return made, revoked

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


# Requests that count against the limits, over all servers of one database


class KeyRequest(NamedTuple):
    """A request of the last minute, or a running one; times in seconds since 1970.

    While it runs, `ended_at` is None and `tokens` is 0.
    """

    began_at: float
    ended_at: float | None
    tokens: int


class KeyRequests(ExpiringRows):
    """The requests of keys that have limits; the clocks of the servers should agree."""

    table = key_requests

    def begin(
        self, owner: str, judge: Callable[[Sequence[KeyRequest], float], _Refusal | None]
    ) -> str | _Refusal:
        """Begin a request of a key and return its id, or return the refusal of `judge`.

        `judge` gets the requests of the key and the current time. No other server begins a request
        of this key meanwhile.
        """
        now, table = self._server.now(), key_requests
        with self._database.writing() as connection:
            self._database.lock(connection, lock_key(f"key {owner}"))
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


def end_requests(connection: Connection, server_id: str, now: float) -> None:
    """End the requests of a dead server; their tokens are unknown."""
    table = key_requests
    are_its_own = and_(table.c.server_id == server_id, table.c.ended_at.is_(None))
    connection.execute(update(table).where(are_its_own).values(_ended(now)))


def _ended(now: float) -> dict[str, int]:
    return {"ended_at": round(now * 1000), "expires_at": int(now) + _REMEMBERED}


# Claims: what one request uses, and no later one may use again


class Claim(NamedTuple):
    """A name that an owner's request claims; `content` is the same in a true repetition."""

    name: str
    content: str = ""


class Claims(ExpiringRows):
    """The claims in a database.

    A request claims the approvals of the calls that it runs, and its idempotency key. A repetition
    of the request finds the claim, and with it the id of what the first one made.
    """

    table = claims

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
            # Otherwise two repetitions at once would both find no claim, and the second insertion
            # would fail.
            self._database.lock(connection, lock_key(f"claims {owner}"))
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
