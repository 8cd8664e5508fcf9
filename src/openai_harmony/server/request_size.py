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
        body = _CountedBody(receive, send, self._limit)
        await self._app(scope, body.receive, body.send)
        if body.is_too_large:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = ApiError(
            413,
            f"the request is larger than {self._limit:,} bytes; send less, or raise the limit",
            code="request_too_large",
        )
        await JSONResponse(error.body(), error.status)(scope, receive, send)


class _CountedBody:
    """Ends a body that grows too large; what the application answers to that is not sent."""

    def __init__(self, receive: Receive, send: Send, limit: int) -> None:
        self._receive = receive
        self._send = send
        self._left = limit
        self.is_too_large = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.is_too_large = True
            return {"type": "http.disconnect"}
        return message

    async def send(self, message: Message) -> None:
        if not self.is_too_large:
            await self._send(message)
