"""Requests on their way: a limit on their size, and work that ends when the client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import ApiError, error_response

__all__ = [
    "RequestSizeLimit",
    "cancel_all",
    "request_too_large",
    "until_disconnected",
    "while_connected",
]

_Result = TypeVar("_Result")


class RequestSizeLimit:
    """Middleware that refuses bodies of more than `limit` bytes with 413, announced or not."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and count the bytes that are read of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = request_too_large("request", self._limit)
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > self._limit:
            await error_response(refusal)(scope, receive, send)
            return
        remaining = self._limit

        async def limited_receive() -> Message:
            """End a body that grows too large."""
            nonlocal remaining
            message = await receive()
            remaining -= len(message.get("body", b""))
            return message if remaining >= 0 else {"type": "http.disconnect"}

        async def limited_send(message: Message) -> None:
            """Drop the response to a body that was cut."""
            if remaining >= 0:
                await send(message)

        await self._app(scope, limited_receive, limited_send)
        if remaining < 0:
            await error_response(refusal)(scope, receive, send)


def request_too_large(what: str, limit: int) -> ApiError:
    """Make the error of a request, or a message, with too many bytes."""
    problem = f"the {what} is larger than {limit:,} bytes; send less, or raise the limit"
    return ApiError(413, problem, code="request_too_large")


async def until_disconnected(receive: Receive) -> None:
    """Wait until the client disconnects; the body of its request has been read before."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_connected(receive: Receive, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Return the result of `work`; cancel it, and raise `ApiError`, when the client disconnects."""
    working = asyncio.ensure_future(work)
    disconnected = asyncio.ensure_future(until_disconnected(receive))
    try:
        await asyncio.wait({working, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ApiError(499, "the client went away", code="client_closed_request")
    finally:
        await cancel_all(working, disconnected)


async def cancel_all(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks, and wait until all have cleaned up."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
