"""A key that requests must have."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["KeyGate"]


class KeyGate:
    """Lets requests through to `app` that have one of `keys` as their bearer token."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._expected = [f"Bearer {key}".encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] == "http" and not self._admits(Headers(scope=scope)):
            refusal = JSONResponse(
                {"error": "a key is needed: Authorization: Bearer KEY"},
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _admits(self, headers: Headers) -> bool:
        given = headers.get("authorization", "").encode("latin-1")
        return any(hmac.compare_digest(given, expected) for expected in self._expected)
