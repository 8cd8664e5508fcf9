"""``harmony serve --workers N``: the processes that serve together."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import HarmonyError
from .input import InputError
from .options import open_tools
from .runtime import let_threads_sleep

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from ..engines import Engine
    from ..server import Settings

__all__ = ["serve_in_processes"]


async def serve_in_processes(
    arguments: argparse.Namespace,
    settings: Settings,
    options: Mapping[str, Any],
    engine: Engine | None,
    listener: socket.socket,
    on_start: Callable[[], None],
) -> None:
    """Serve in ``--workers`` processes; without an engine, each opens that of its options."""
    from ..server.workers import serve_in_workers

    given = {name: value for name, value in vars(arguments).items() if name != "run"}
    work = _Work(argparse.Namespace(**given), settings, options, opens_engine=engine is None)
    await serve_in_workers(arguments.workers, work, engine, settings, listener, on_start)


@dataclass(frozen=True)
class _Work:
    """The work of one worker, in a process of its own."""

    arguments: argparse.Namespace
    settings: Settings
    options: Mapping[str, Any]
    opens_engine: bool

    def __call__(self, folder: Path, listener: socket.socket) -> None:
        from ..server.logs import configure_logs

        let_threads_sleep()
        configure_logs(self.arguments.log_format, self.arguments.log_level)
        # The server raises the signal again when it has stopped.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            asyncio.run(self._serve(folder, listener))
        except (HarmonyError, InputError) as error:
            print(f"harmony: error: {error}", file=sys.stderr)
            sys.exit(1)

    async def _serve(self, folder: Path, listener: socket.socket) -> None:
        from ..engines import open_engine
        from ..server import create_app, run_server
        from ..server.cluster.hub import HubEngine, Worker
        from ..server.exporters import exported_telemetry

        async with AsyncExitStack() as opened:
            telemetry = opened.enter_context(exported_telemetry())
            worker = await opened.enter_async_context(Worker(folder))
            tools = await open_tools(self.arguments)
            for tool in tools:
                opened.push_async_callback(tool.close)
            engine: Engine
            if self.opens_engine:
                opening = await open_engine(self.arguments.model, **self.options)
                engine = await opened.enter_async_context(opening)
            else:
                engine = await HubEngine.connect(worker)
            app = create_app(engine, self.settings, tools, worker=worker, telemetry=telemetry)
            await run_server(app, self.settings, listener)
