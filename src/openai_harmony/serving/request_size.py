"""A limit on the size of requests, before anything reads them."""

from __future__ import annotations

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .api_error import ApiError

__all__ = ["RequestSizeLimit"]


class RequestSizeLimit:
    """Refuses bodies of more than `limit` bytes with 413, whether they announce it or not."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and count what is read of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > self._limit:
            await self._refuse(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._limit:
                raise self._error()
            return message

        await self._app(scope, counted, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = self._error()
        await JSONResponse(error.body(), error.status)(scope, receive, send)

    def _error(self) -> ApiError:
        return ApiError(
            413,
            f"the request is larger than {self._limit:,} bytes; send less, or raise the limit",
            code="request_too_large",
        )
