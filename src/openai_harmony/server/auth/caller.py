"""The caller of a request, by its API key."""

from __future__ import annotations

import asyncio
from typing import Annotated, NamedTuple, TypeAlias

from fastapi import Depends
from fastapi.requests import HTTPConnection

from ..http.errors import ApiError
from ..store.keys import KeyLimits
from .api_keys import ApiKeyError, ApiKeys

__all__ = ["AuthenticatedCaller", "Caller", "authenticate"]


class Caller(NamedTuple):
    """The owner of what a request stores: the id of its key, empty on a server without keys."""

    owner: str
    limits: KeyLimits = KeyLimits()


async def authenticate(connection: HTTPConnection) -> Caller:
    """Read the key of a request; raise `ApiError` where it is missing or unknown."""
    keys: ApiKeys = connection.app.state.services.keys
    scheme, _, credentials = connection.headers.get("authorization", "").partition(" ")
    key = credentials.strip() if scheme.lower() == "bearer" else ""
    try:
        record = await asyncio.to_thread(keys.check, key or None)
    except ApiKeyError as error:
        code = "invalid_api_key" if key else "missing_api_key"
        raise ApiError(401, str(error), kind="authentication_error", code=code) from error
    return Caller("") if record is None else Caller(record.id, record.limits)


AuthenticatedCaller: TypeAlias = Annotated[Caller, Depends(authenticate)]
"""A parameter of routes that need a caller."""
