"""Several streams as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

from ..answers.disconnect import cancel_all

__all__ = ["merged"]

_Item = TypeVar("_Item")


async def merged(
    sources: Sequence[AsyncGenerator[_Item, None]],
) -> AsyncGenerator[tuple[int, _Item], None]:
    """Yield what all of them yield, as it comes, with the place of the source.

    The first error of one ends all; closing this closes them.
    """
    if len(sources) == 1:  # the usual case, without a queue between
        async with aclosing(sources[0]) as only:
            async for item in only:
                yield 0, item
        return
    queue: asyncio.Queue[tuple[int, _Item] | BaseException | None] = asyncio.Queue()

    async def read(at: int, source: AsyncGenerator[_Item, None]) -> None:
        try:
            async with aclosing(source):
                async for item in source:
                    queue.put_nowait((at, item))
        except Exception as error:  # noqa: BLE001 - raised where the items are read
            queue.put_nowait(error)
        else:
            queue.put_nowait(None)

    tasks = [asyncio.ensure_future(read(at, source)) for at, source in enumerate(sources)]
    left = len(tasks)
    try:
        while left:
            found = await queue.get()
            if isinstance(found, BaseException):
                raise found
            if found is None:
                left -= 1
            else:
                yield found
    finally:
        await cancel_all(*tasks)
