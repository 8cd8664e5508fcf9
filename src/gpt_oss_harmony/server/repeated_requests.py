"""Requests that are sent again with the same ``Idempotency-Key``: what they store is stored once.

SDKs repeat a request by themselves when its answer does not come. The first request claims its key
together with what it stores; a repetition gets what the first one made.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Annotated, TypeAlias, TypeVar

from fastapi import Depends, Header, Request

from ..apis.request_body import RequestBody
from ..apis.wire_events import json_text
from .http.errors import ApiError
from .services import Services
from .store import Claim, ClaimedError, NotFoundError, Store

_LONGEST_KEY = 255

_Stored = TypeVar("_Stored")


class RequestKey:
    """The ``Idempotency-Key`` of a request, if it has one, and the route that it is for."""

    def __init__(self, key: str | None, route: str) -> None:
        self._key = key
        self._route = route

    @property
    def is_given(self) -> bool:
        """True for a request that has a key."""
        return self._key is not None

    def claims(self, *content: RequestBody | bytes | str | int | None) -> Sequence[Claim]:
        """Return the claim of the key; this may take a while for large contents.

        A true repetition has the same content.
        """
        if self._key is None:
            return ()
        digest = hashlib.sha256(self._route.encode())
        for part in content:
            if isinstance(part, RequestBody):
                part = json_text(part.model_dump(exclude_unset=True))
            data = part if isinstance(part, bytes) else str(part).encode("utf-8", "replace")
            # With its length, so that the end of one part is not the beginning of the next.
            digest.update(b"%d:%s" % (len(data), data))
        return [Claim(f"key {self._key}", digest.hexdigest())]


async def _request_key(
    request: Request, idempotency_key: Annotated[str | None, Header()] = None
) -> RequestKey:
    if idempotency_key is None:
        return _NO_KEY
    if not 0 < len(idempotency_key) <= _LONGEST_KEY:
        problem = f"the header Idempotency-Key must have 1 to {_LONGEST_KEY} characters"
        raise ApiError(400, problem, code="invalid_value")
    return RequestKey(idempotency_key, request.url.path)


_NO_KEY = RequestKey(None, "")


IdempotencyKey: TypeAlias = Annotated[RequestKey, Depends(_request_key)]
"""A parameter of routes that store something new."""


async def stored_once(
    services: Services,
    owner: str,
    claims: Callable[[], Sequence[Claim]],
    id: str,
    store: Callable[[Store], _Stored],
    find: Callable[[Store, str], _Stored],
) -> _Stored:
    """Store something new under `id`, in one transaction with its claims, all in a thread.

    A repeated request gets what the first one stored, found by its id. Raises `ApiError` with the
    status 409 if that is gone, or if the key was used for another request.
    """
    expires_at = services.settings.expires_at(int(time.time()))

    def store_claimed(rows: Store) -> _Stored:
        with rows.claims.taken(claims(), owner, id, expires_at):
            return store(rows)

    try:
        return await services.store.run(owner, store_claimed)
    except ClaimedError as claimed:
        check_same(claimed)
        try:
            return await services.store.run(owner, find, claimed.made_id)
        except NotFoundError:
            raise ApiError.of(claimed) from None


def check_same(claimed: ClaimedError) -> None:
    """Raise `ApiError` with the status 409 unless the claim is that of a true repetition."""
    if not claimed.is_same:
        problem = "this Idempotency-Key was used for another request; send a new key"
        raise ApiError(409, problem, code="idempotency_key_reused")


def request_in_progress(problem: str) -> ApiError:
    """Make the error of a repetition that comes before the first request has ended."""
    return ApiError(409, problem, code="request_in_progress", retry_after=1)
