"""Work that ends at once when the client who waits for it goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from ..api_error import ApiError

__all__ = ["cancel_all", "until_gone", "while_connected"]

_Result = TypeVar("_Result")


async def until_gone(receive: Receive) -> None:
    """Wait until the client goes away; the body of its request has been read before."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_connected(receive: Receive, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Return what `work` does; cancel it, and raise `ApiError`, when the client goes away."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(until_gone(receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ApiError(499, "the client went away", code="client_closed_request")
    finally:
        await cancel_all(working, gone)


async def cancel_all(*tasks: asyncio.Future[Any]) -> None:
    """Cancel those that go on, and wait until all have cleaned up."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
