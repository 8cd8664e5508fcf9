"""An event loop for commands that ask a person between its tasks."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator
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
            with _ctrl_c_calls(lambda: self._loop.call_soon_threadsafe(task.cancel)):
                return self._loop.run_until_complete(task)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        except KeyboardInterrupt:  # before its handler is set
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

    def _cancel(self, tasks: list[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()

        async def ended() -> None:
            await asyncio.gather(*tasks, return_exceptions=True)

        self._loop.run_until_complete(ended())


class CtrlC:
    """Within `held`, Ctrl-C raises `KeyboardInterrupt` where it is `expected`, and nowhere else.

    A person presses it more than once. The second press would end the program, if it came while the
    first is answered.
    """

    def __init__(self) -> None:
        self._is_expected = False

    def held(self) -> contextlib.AbstractContextManager[None]:
        """Ignore Ctrl-C until it is expected; `EventLoop.run_until_interrupted` takes it, too."""
        return _ctrl_c_calls(self._pressed)

    @contextlib.contextmanager
    def expected(self) -> Iterator[None]:
        """Let Ctrl-C raise `KeyboardInterrupt`, once."""
        self._is_expected = True
        try:
            yield
        finally:
            self._is_expected = False

    def _pressed(self) -> None:
        if self._is_expected:
            self._is_expected = False
            raise KeyboardInterrupt


@contextlib.contextmanager
def _ctrl_c_calls(pressed: Callable[[], object]) -> Iterator[None]:
    """Let Ctrl-C call a function; outside of the main thread, which has no signals, do nothing."""
    try:
        before = signal.signal(signal.SIGINT, lambda *_: pressed())
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
