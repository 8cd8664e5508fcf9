"""Who sends a request, by its API key."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

from fastapi import Depends
from fastapi.requests import HTTPConnection

from ..api_error import ApiError
from ..store.keys import KeyLimits
from .api_keys import ApiKeyError

if TYPE_CHECKING:
    from ..services import Services

__all__ = ["Caller", "KnownCaller", "known_caller"]


class Caller(NamedTuple):
    """The owner of what a request stores: the id of its key, empty on a server without keys."""

    owner: str
    limits: KeyLimits = KeyLimits()


async def known_caller(connection: HTTPConnection) -> Caller:
    """Read the key of a request; raise `ApiError` where it is missing or unknown."""
    services: Services = connection.app.state.services
    scheme, _, key = connection.headers.get("authorization", "").partition(" ")
    given = key.strip() if scheme.lower() == "bearer" else ""
    try:
        record = await asyncio.to_thread(services.keys.check, given or None)
    except ApiKeyError as error:
        code = "invalid_api_key" if given else "missing_api_key"
        raise ApiError(401, str(error), kind="authentication_error", code=code) from error
    return Caller("") if record is None else Caller(record.id, record.limits)


KnownCaller: TypeAlias = Annotated[Caller, Depends(known_caller)]
"""A parameter of routes that need one."""
