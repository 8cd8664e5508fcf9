"""Who sends a request, by its API key."""

from __future__ import annotations

import hashlib
from typing import Annotated, NamedTuple, TypeAlias

from fastapi import Depends
from fastapi.requests import HTTPConnection

from .api_error import ApiError

__all__ = ["Caller", "KnownCaller", "known_caller"]


class Caller(NamedTuple):
    """The owner of what a request stores: a name made from the key, empty without keys."""

    owner: str


async def known_caller(connection: HTTPConnection) -> Caller:
    """Read the key of a request; raise `ApiError` where it is missing or unknown."""
    services = connection.app.state.services
    keys = services.settings.api_keys
    if not keys:
        return Caller("")
    scheme, _, key = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not key:
        raise ApiError(
            401,
            "the request has no API key; send the header 'Authorization: Bearer KEY'",
            kind="authentication_error",
            code="missing_api_key",
        )
    if key not in keys:
        raise ApiError(
            401, "the API key is unknown", kind="authentication_error", code="invalid_api_key"
        )
    return Caller(hashlib.sha256(key.encode()).hexdigest()[:16])


KnownCaller: TypeAlias = Annotated[Caller, Depends(known_caller)]
"""A parameter of routes that need one."""
