"""An event loop for commands that ask a person between its tasks."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class EventLoop:
    """Runs one coroutine at a time; between them, the program may block.

    ::

        with EventLoop() as loop:
            engine = loop.run(open_engine("demo"))
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Return the result of `work`; Ctrl-C ends it anywhere, even in a blocking call."""
        return self._loop.run_until_complete(work)

    def run_until_interrupted(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Return the result of `work`; Ctrl-C cancels it, and it cleans up first.

        Raises `KeyboardInterrupt`, after which more work can be run.
        """
        task = self._loop.create_task(work)
        try:
            with self._cancelled_by_ctrl_c(task):
                return self._loop.run_until_complete(task)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        except KeyboardInterrupt:  # without a signal handler
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
            yield  # not available on Windows, or outside of the main thread
            return
        try:
            yield
        finally:
            self._loop.remove_signal_handler(signal.SIGINT)

    def _cancel(self, tasks: list[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()

        async def ended() -> None:
            await asyncio.gather(*tasks, return_exceptions=True)

        self._loop.run_until_complete(ended())
