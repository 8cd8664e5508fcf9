"""Event loops, engines and sockets for commands that run a model or a server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Coroutine, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..engines.model_names import is_url
from .input import InputError, UsageError

if TYPE_CHECKING:
    from ..engines import Engine

_BACKLOG = 2048  # connections that wait to be accepted

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


def engine_options(model: str) -> dict[str, str]:
    """Return the options for an engine at a URL: its key, from ``HARMONY_ENGINE_API_KEY``."""
    key = os.environ.get("HARMONY_ENGINE_API_KEY")
    return {"api_key": key} if key and is_url(model) else {}


def let_threads_sleep() -> None:
    """Let threads of PyTorch sleep while they wait for each other, unless a variable forbids it.

    On busy cores, spinning would keep the other threads from their work. PyTorch reads the variable
    when it is imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def follow_rank_0(model: str, options: Mapping[str, Any]) -> bool:
    """Compute for rank 0 if ``torchrun`` started this process for that; return whether it did."""
    from ..engines import EngineError, open_engine
    from ..engines.parallel import Processes

    if not Processes.of().is_follower:
        return False
    if is_url(model):
        raise UsageError(
            f"torchrun divides a model among its processes, and {model} is a server; leave it out"
        )
    let_threads_sleep()
    engine = asyncio.run(open_engine(model, **options))
    # Rank 0 is told to end at the same time, and ends the others when its requests are done.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    from ..engines import TransformersEngine

    if not isinstance(engine, TransformersEngine):
        raise EngineError(f"{type(engine).__name__} cannot run in several processes")
    engine.follow()
    return True


async def open_watched(model: str, options: Mapping[str, Any] | None = None) -> Engine:
    """Open an engine as `open_engine` does; show progress on a terminal.

    `options` are by default those from the environment. Transformers and the client of the Hugging
    Face hub draw their own bars.
    """
    from ..engines import open_engine

    given = engine_options(model) if options is None else options
    let_threads_sleep()
    if not sys.stderr.isatty():
        return await open_engine(model, **given)
    print(f"loading {model} ...", file=sys.stderr, flush=True)
    logger = logging.getLogger("gpt_oss_harmony.engines")
    level, handler = logger.level, logging.StreamHandler(sys.stderr)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        engine = await open_engine(model, **given)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    print(described(engine), file=sys.stderr)
    return engine


def described(engine: Engine) -> str:
    """Return the model, its origin and its context in one line."""
    origin = f": {engine.origin}" if engine.origin else ""
    return f"{engine.model}{origin}; {engine.context_length:,} tokens of context"


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that listens; raises `InputError` as `bind` does."""
    listener = bind(host, port)
    start_listening(listener)
    return listener


def bind(host: str, port: int) -> socket.socket:
    """Open a socket that has its port, and refuses connections until it listens.

    Raises `InputError` if the port is in use or the host unknown.
    """
    if not 0 <= port <= 65535:
        raise InputError(f"there is no port {port}; choose one up to 65535, or 0 for any")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere, it would take the port of another program
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise _cannot_listen(f"{host}:{port}", error) from error
    return listener


def start_listening(listener: socket.socket) -> None:
    """Accept connections; raises `InputError` if another program has been faster at the port."""
    try:
        listener.listen(_BACKLOG)
    except OSError as error:
        host, port = listener.getsockname()[:2]
        raise _cannot_listen(f"{host}:{port}", error) from error


def _cannot_listen(address: str, error: OSError) -> InputError:
    number = error.errno or 0  # negative for an unknown host
    problem = os.strerror(number) if number > 0 else error.strerror or str(error)
    return InputError(f"cannot listen at {address}: {problem}; choose another --port")


def state_folder(*, make: bool = True) -> Path:
    """Return the user's state folder; `make` it, for the user alone, if it is missing."""
    root = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(root) / "gpt-oss-harmony"
    if make:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
        except OSError as error:
            raise InputError(
                f"the folder {folder} cannot be used: {error.strerror}; name another in "
                "XDG_STATE_HOME"
            ) from error
    return folder


def default_database() -> Path:
    """Return the SQLite file of `harmony serve` without ``--database``."""
    return state_folder(make=False) / "responses.db"
