"""API keys: how they are created, checked and revoked, and the caller of a request.

A key is ``sk-harmony-`` and 256 random bits. The store has only its SHA-256. Nobody can guess 256
random bits, so a slow hash with salt, which passwords need, would only cost time at each request. A
key is shown once, when it is created.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, TypeAlias

from fastapi import Depends
from fastapi.requests import HTTPConnection
from starlette.types import Scope

from ...errors import HarmonyError
from ..http.errors import ApiError, shutting_down
from ..store.keys import KeyLimits, KeyRecord, Keys
from .limits import RequestUsage

_PREFIX = "sk-harmony-"
_BYTES = 32
_GIVEN = "given to the server"
_REMEMBERED = 1.0  # seconds for which a key that was found valid is not looked up again
_MOST_REMEMBERED = 4096  # keys
RECHECK_SECONDS = _REMEMBERED / 2


class ApiKeyError(HarmonyError):
    """A request has no API key or an invalid one; the message does not show the key."""


@dataclass(frozen=True)
class NewKey:
    """A new key: the text, which only its user has, and the stored record."""

    key: str = field(repr=False)
    record: KeyRecord


def hash_key(key: str) -> str:
    """Hash a key.

    >>> hash_key("sk-harmony-example")[:16]
    '60d90488c04ce5e8'
    """
    # Stored keys have 256 random bits, so neither a salt nor a slow hash is needed.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


class ApiKeys:
    """The keys of a server: those in its store, and those that it was given when it started.

    `stored` is `Store.keys` or None. `given` are keys of any form, without limits; they are valid
    as long as the server's settings contain them. `clock` returns seconds since 1970.
    """

    def __init__(
        self,
        stored: Keys | None = None,
        given: Iterable[str] = (),
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stored = stored
        self._clock = clock
        self._given: list[KeyRecord] = []
        self._are_needed = False
        self._recent: dict[str, tuple[float, Caller]] = {}  # by hash, with the time of its look-up
        self._counts = (0, 0)  # of the keys in the database, at the last `check_recent`
        self._checked = 0.0
        self._are_asked_for = False
        for key in given:
            if not key.strip():
                raise ValueError("an API key that was given to the server is empty; leave it out")
            hash = hash_key(key)
            # The id depends only on the key, so the owner is the same after a restart.
            record = KeyRecord(id=f"key_{hash[:24]}", hash=hash, name=_GIVEN, created_at=0)
            self._given.append(record)

    def create(self, name: str, limits: KeyLimits | None = None) -> NewKey:
        """Create a key and store its hash. Raises `ValueError` for a limit below one."""
        limits = limits or KeyLimits()
        for limit, value in vars(limits).items():
            if value is not None and value < 1:
                raise ValueError(f"{limit} is {value}; give 1 or more, or nothing for no limit")
        key = _PREFIX + secrets.token_urlsafe(_BYTES)
        record = KeyRecord(
            id=f"key_{secrets.token_hex(12)}",
            hash=hash_key(key),
            name=name,
            created_at=int(self._clock()),
            limits=limits,
        )
        self._store().add(record)
        self._recent = {}
        return NewKey(key, record)

    def all(self) -> list[KeyRecord]:
        """List all keys, also revoked ones; the given keys come first."""
        return [*self._given, *(self._stored.all() if self._stored else ())]

    def revoke(self, id: str) -> KeyRecord:
        """Revoke a key of the store permanently. Raises `NotFoundError`."""
        revoked = self._store().revoke(id, int(self._clock()))
        self._recent = {}
        return revoked

    @property
    def are_needed(self) -> bool:
        """True if there has ever been a key, even if all keys were revoked."""
        if not self._are_needed:  # no key is ever deleted
            self._are_needed = bool(self._given) or bool(self._stored and self._stored.exist())
        return self._are_needed

    def check(self, key: str | None) -> KeyRecord | None:
        """Return the record of a request's key; None on a server without keys.

        Once a key exists, every request needs one, even if all keys were revoked. Raises
        `ApiKeyError`. Keys that the server was given are compared in constant time. The time of a
        look-up in the database may reveal something about hashes, but a hash reveals nothing of a
        key.
        """
        if key is None:
            if self.are_needed:
                raise ApiKeyError("an API key is needed: send it as 'Authorization: Bearer KEY'")
            return None
        hash = hash_key(key)
        record = next((own for own in self._given if hmac.compare_digest(own.hash, hash)), None)
        if record is None and self._stored is not None:
            record = self._stored.find(hash)
        if record is None and not self.are_needed:
            return None  # many clients always send a key
        if record is None:
            raise ApiKeyError("the API key is unknown to this server")
        if record.revoked_at is not None:
            raise ApiKeyError("the API key was revoked")
        return record

    def caller(self, key: str) -> Caller:
        """Return the caller with this key, which is empty for a request without one.

        Raises `ApiKeyError`.
        """
        recent, began = self._recent, self._clock()
        record = self.check(key or None)
        caller = Caller("") if record is None else Caller(record.id, record.limits)
        if len(recent) >= _MOST_REMEMBERED:
            recent.clear()
        recent[hash_key(key)] = (began, caller)  # in vain if a key was made or revoked meanwhile
        return caller

    def recent_caller(self, key: str) -> Caller | None:
        """Return the caller with this key if it was found valid within the last second.

        This reads no database: clients send many requests in a second, and each look-up would cost
        a statement and two changes of thread. So a revoked key works for up to a second more, and
        so does no key after the first was made. A refusal is not remembered: a new key works at
        once.
        """
        self._are_asked_for = True
        checked = self._checked  # before `_recent`: `check_recent` replaces that first
        found, caller = self._recent.get(hash_key(key), (0.0, None))
        now = self._clock()
        # `0 <=`: after the clock was set back, earlier look-ups are in the future and would stay
        # valid.
        is_recent = any(0 <= now - moment < _REMEMBERED for moment in (found, checked))
        return caller if is_recent else None

    def check_recent(self) -> None:
        """Forget all keys that were found valid if one was made or revoked since.

        If a server does this twice a second, a client in the midst of its requests waits for no
        look-up. Does nothing if no key was asked for since.
        """
        if self._stored is None or not self._are_asked_for:
            return
        self._are_asked_for = False
        began, counts = self._clock(), self._stored.counts()
        if counts != self._counts:
            self._counts, self._recent = counts, {}
        self._checked = began

    def of_owner(self, owner: str) -> Caller | None:
        """Return the caller who owns something, without the key; None if the key was revoked."""
        if not owner:
            return None if self.are_needed else Caller("")
        records = (record for record in self.all() if record.id == owner)
        record = next((record for record in records if record.revoked_at is None), None)
        return None if record is None else Caller(record.id, record.limits)

    def _store(self) -> Keys:
        if self._stored is None:
            raise ApiKeyError("keys are kept in the store, but this server has no store")
        return self._stored


@dataclass(frozen=True)
class Caller:
    """The owner of a request's data: the id of its key, empty on a server without keys.

    `usage` is the usage of the request if it counts against the limits of the key. `uses_sdk` is
    True for requests of OpenAI's SDKs, which name their language in ``X-Stainless-Lang``.
    """

    owner: str
    limits: KeyLimits = field(default_factory=KeyLimits)
    usage: RequestUsage = field(default_factory=RequestUsage)
    uses_sdk: bool = False


_CALLER = "gpt_oss_harmony.caller"


async def authenticate(connection: HTTPConnection) -> Caller:
    """Read the key of a request, once; raise `ApiError` if it is missing or unknown."""
    if _CALLER not in connection.scope:
        connection.scope[_CALLER] = await current_caller(connection)
    caller: Caller = connection.scope[_CALLER]
    return caller


def as_caller(scope: Scope, caller: Caller) -> Scope:
    """Mark the request of the server itself as one by a caller, who needs no key."""
    return {**scope, _CALLER: caller}


async def current_caller(connection: HTTPConnection) -> Caller:
    """Look the key of a connection up, as for a new request; raise `ApiError` if it is refused.

    The key is in ``Authorization``, or in ``x-api-key``, as clients of Anthropic send it. Some send
    both, with a key of Anthropic in the second.
    """
    services, headers = connection.app.state.services, connection.headers
    keys: ApiKeys = services.keys
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    key = credentials.strip() if scheme.lower() == "bearer" else ""
    key = key or headers.get("x-api-key", "").strip()
    try:
        known = keys.recent_caller(key) or await services.pools.keys.run(key, keys.caller, key)
    except ApiKeyError as error:
        code = "invalid_api_key" if key else "missing_api_key"
        raise ApiError(401, str(error), kind="authentication_error", code=code) from error
    return Caller(known.owner, known.limits, uses_sdk="x-stainless-lang" in headers)


AuthenticatedCaller: TypeAlias = Annotated[Caller, Depends(authenticate)]
"""A parameter of routes that need a caller."""


@asynccontextmanager
async def counted(connection: HTTPConnection) -> AsyncGenerator[Caller, None]:
    """Count a request against the limits of its key; raise `ApiError` if it is refused.

    Its routes get the same caller from `authenticate`.
    """
    services = connection.app.state.services
    caller = await authenticate(connection)
    if services.admission.is_closed:
        raise shutting_down()
    async with services.limiter.request(caller.owner, caller.limits) as usage:
        caller = connection.scope[_CALLER] = replace(caller, usage=usage)
        yield caller
