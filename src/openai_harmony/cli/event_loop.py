"""One event loop for a command that also waits for a person, and how Ctrl-C reaches it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

__all__ = ["EventLoop"]

_Result = TypeVar("_Result")


class EventLoop:
    """Runs one piece of work at a time; between them the program does what it likes.

    ::

        with EventLoop() as loop:
            engine = loop.run(open_engine("demo"))
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Return what `work` returns; Ctrl-C ends it wherever it is, even within a long call."""
        return self._loop.run_until_complete(work)

    def run_until_interrupted(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Return what `work` returns; Ctrl-C cancels it, and comes out when it has cleaned up.

        Raises `KeyboardInterrupt`, after which more work can be run.
        """
        task = self._loop.create_task(work)
        try:
            with self._cancelled_by_ctrl_c(task):
                return self._loop.run_until_complete(task)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        except KeyboardInterrupt:  # where there is no handler
            self._cancel([task])
            raise

    def __enter__(self) -> EventLoop:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._cancel(list(asyncio.all_tasks(self._loop)))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()

    @contextlib.contextmanager
    def _cancelled_by_ctrl_c(self, task: asyncio.Task[Any]) -> Iterator[None]:
        try:
            self._loop.add_signal_handler(signal.SIGINT, task.cancel)
        except (NotImplementedError, RuntimeError, ValueError):
            yield  # Windows has no such handlers, nor has a thread that is not the main one
            return
        try:
            yield
        finally:
            self._loop.remove_signal_handler(signal.SIGINT)

    def _cancel(self, tasks: list[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(_ended(tasks))


async def _ended(tasks: list[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
