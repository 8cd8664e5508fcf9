"""A server of two workers over an engine in the process that starts them, for tests.

`main` prints the port once all serve, and runs until a signal.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from functools import partial
from pathlib import Path

from gpt_oss_harmony.server import Settings, create_app, run_server
from gpt_oss_harmony.server.cluster.hub import HubEngine, Worker
from gpt_oss_harmony.server.workers import serve_in_workers
from support.counting_engine import CountingEngine
from support.server_process import COMPLETION

WORKERS = 2


def work(settings: Settings, folder: Path, listener: socket.socket) -> None:
    """Serve in one process."""

    async def serve() -> None:
        async with Worker(folder) as worker:
            app = create_app(await HubEngine.connect(worker), settings, worker=worker)
            await run_server(app, settings, listener)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    asyncio.run(serve())


def main() -> None:
    """Serve in workers; the argument has the settings as JSON."""
    settings = Settings(**json.loads(sys.argv[1]), shutdown_seconds=0)
    engine = CountingEngine(COMPLETION)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        asyncio.run(
            serve_in_workers(
                WORKERS,
                partial(work, settings),
                engine,
                settings,
                listener,
                on_start=lambda: print(port, flush=True),
            )
        )
