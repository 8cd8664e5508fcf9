"""API keys: created, checked, revoked; and the caller of a request, by its key.

A key is ``sk-harmony-`` and 256 random bits. The store has its SHA-256. Nobody can guess a value
among so many: a slow hash with salt, as passwords need, would cost time at each request and protect
nothing. A key is shown once, when it is made.
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

from ...errors import HarmonyError
from ..http.errors import ApiError, shutting_down
from ..store.keys import KeyLimits, KeyRecord, Keys
from .limits import RequestUsage

__all__ = [
    "ApiKeyError",
    "ApiKeys",
    "AuthenticatedCaller",
    "Caller",
    "NewKey",
    "authenticate",
    "counted",
    "hash_key",
]

_PREFIX = "sk-harmony-"
_BYTES = 32
_GIVEN = "given to the server"


class ApiKeyError(HarmonyError):
    """A request has no API key, or one that is not valid; the message does not show it."""


@dataclass(frozen=True)
class NewKey:
    """A key that was made: the text for its user, who alone has it, and the stored record."""

    key: str = field(repr=False)
    record: KeyRecord


def hash_key(key: str) -> str:
    """Hash a key.

    >>> hash_key("sk-harmony-example")[:16]
    '60d90488c04ce5e8'
    """
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


class ApiKeys:
    """The keys of a server: those in its store, and those that it was given when it started.

    `stored` is `Store.keys`, or None; `given` are keys of any form, which have no limits and end
    with the server's settings. `clock` gives seconds since 1970.
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
        for key in given:
            if not key.strip():
                raise ValueError("an API key that was given to the server is empty; leave it out")
            hash = hash_key(key)
            # The id depends on the key alone, so that its owner is the same after a restart.
            record = KeyRecord(id=f"key_{hash[:24]}", hash=hash, name=_GIVEN, created_at=0)
            self._given.append(record)

    def create(self, name: str, limits: KeyLimits | None = None) -> NewKey:
        """Make a key and store its hash. Raises `ValueError` for a limit below one."""
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
        return NewKey(key, record)

    def all(self) -> list[KeyRecord]:
        """List the keys, those given first, with those that were revoked."""
        return [*self._given, *(self._stored.all() if self._stored else ())]

    def revoke(self, id: str) -> KeyRecord:
        """Revoke a key of the store for good. Raises `NotFoundError`."""
        return self._store().revoke(id, int(self._clock()))

    @property
    def are_needed(self) -> bool:
        """True once there was a key, even when all were revoked."""
        if not self._are_needed:  # no key is ever deleted
            self._are_needed = bool(self._given) or bool(self._stored and self._stored.exist())
        return self._are_needed

    def check(self, key: str | None) -> KeyRecord | None:
        """Return the record of the key of a request; None on a server that has no keys.

        Once a key exists every request needs one, even when all were revoked. Raises `ApiKeyError`.
        """
        if key is None:
            if self.are_needed:
                raise ApiKeyError("an API key is needed: send it as 'Authorization: Bearer KEY'")
            return None
        hash = hash_key(key)
        # Where all hashes are at hand, comparing in constant time costs nothing. The time of a
        # look-up may tell of hashes, and a hash tells nothing of a key.
        record = next((own for own in self._given if hmac.compare_digest(own.hash, hash)), None)
        if record is None and self._stored is not None:
            record = self._stored.find(hash)
        if record is None and not self.are_needed:
            return None  # many clients send some key always
        if record is None:
            raise ApiKeyError("the API key is unknown to this server")
        if record.revoked_at is not None:
            raise ApiKeyError("the API key was revoked")
        return record

    def _store(self) -> Keys:
        if self._stored is None:
            raise ApiKeyError("keys are kept in the store, and this server has none")
        return self._stored


@dataclass(frozen=True)
class Caller:
    """The owner of what a request stores: the id of its key, empty on a server without keys.

    `usage` is that of the request, where it counts against the limits of the key.
    """

    owner: str
    limits: KeyLimits = field(default_factory=KeyLimits)
    usage: RequestUsage = field(default_factory=RequestUsage)


_CALLER = "openai_harmony.caller"


async def authenticate(connection: HTTPConnection) -> Caller:
    """Read the key of a request, once; raise `ApiError` where it is missing or unknown."""
    if _CALLER in connection.scope:
        caller: Caller = connection.scope[_CALLER]
        return caller
    services = connection.app.state.services
    keys: ApiKeys = services.keys
    scheme, _, credentials = connection.headers.get("authorization", "").partition(" ")
    key = credentials.strip() if scheme.lower() == "bearer" else ""
    try:
        record = await services.pools.keys.run(key, keys.check, key or None)
    except ApiKeyError as error:
        code = "invalid_api_key" if key else "missing_api_key"
        raise ApiError(401, str(error), kind="authentication_error", code=code) from error
    return Caller("") if record is None else Caller(record.id, record.limits)


AuthenticatedCaller: TypeAlias = Annotated[Caller, Depends(authenticate)]
"""A parameter of routes that need a caller."""


@asynccontextmanager
async def counted(connection: HTTPConnection) -> AsyncGenerator[Caller, None]:
    """Count a request against the limits of its key; raise `ApiError` where it is refused.

    Its routes get the same caller from `authenticate`.
    """
    services = connection.app.state.services
    caller = await authenticate(connection)
    if services.admission.is_closed:
        raise shutting_down()
    async with services.limiter.request(caller.owner, caller.limits) as usage:
        caller = connection.scope[_CALLER] = replace(caller, usage=usage)
        yield caller
