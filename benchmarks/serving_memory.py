"""Whether the server keeps memory: rounds of streams at once, and what the process has after each.

    python -m benchmarks.serving_memory [--streams 100] [--minutes 60] [--tokens 600]

The server runs as a process of its own, with a file of SQLite and a script in the place of the
model, which waits between its tokens, so that all streams of a round are open at once. A third of
the clients read slowly, and another third leave in the middle. The APIs take turns. After a round,
the stored responses are deleted, the process collects its garbage and gives freed memory back to
the system (SIGUSR1), and its resident memory is read. The first rounds fill caches; the slope is
that of the rounds after them.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import linear_regression
from typing import Any

import psutil

from benchmarks.serving_script import script_engine

__all__ = ["main"]

_PATHS: dict[str, tuple[str, dict[str, Any]]] = {
    "responses": ("/v1/responses", {"input": "Count!"}),
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Count!"}]}),
    "messages": ("/v1/messages", {"messages": [{"role": "user", "content": "Count!"}]}),
}
_MIB = 1 << 20
_WARM = 4  # rounds that fill caches
_PAUSE = 0.05  # seconds between two tokens of a stream
_ID = re.compile(rb'"id":"(resp_[0-9a-f]+)"')


def serve(port: int, database: str, tokens: int) -> None:
    """Serve in this process."""
    import ctypes
    import gc

    from gpt_oss_harmony import load_harmony_encoding
    from gpt_oss_harmony.server import Settings, create_app, run_server
    from gpt_oss_harmony.tokens.special_tokens import RETURN

    words = itertools.islice(itertools.cycle(("sun", "moon", "star", "sea", "wind")), tokens)
    text = "<|channel|>final<|message|>" + " ".join(words)
    encoding = load_harmony_encoding("HarmonyGptOss")
    script = [*encoding.encode(text, allowed_special="all"), RETURN]

    engine = script_engine(script, _PAUSE)

    def give_back(*_: object) -> None:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)

    async def run() -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, give_back)
        settings = Settings(max_running=1000, database=database, repetition=None)
        with socket.create_server(("127.0.0.1", port), backlog=2048) as listener:
            await run_server(create_app(engine, settings), settings, listener)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    asyncio.run(run())


async def _stream(port: int, api: str, number: int) -> bytes:
    """Read a stream as one of three kinds of clients; return the id of a stored response."""
    path, body = _PATHS[api]
    data = json.dumps({**body, "stream": True, "max_tokens": 50_000}).encode()
    # A slow reader's buffer is small, so that the server has to wait for it.
    slow, leaves = number % 3 == 1, number % 3 == 2
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    writer.write(head.encode() + data)
    beginning, events = b"", 0
    while chunk := await reader.read(4096):
        if len(beginning) < 2000:
            beginning += chunk
        events += chunk.count(b"data: ")
        if leaves and events > 100:
            break
        if slow:
            await asyncio.sleep(3 * _PAUSE)
    writer.close()
    if b" 200 " not in beginning.partition(b"\r\n")[0]:
        raise RuntimeError(f"{path} answered {beginning[:300]!r}")
    found = _ID.search(beginning)
    return b"" if found is None else found[1]


async def _request(port: int, method: str, path: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    )
    answer = await reader.read()
    writer.close()
    return answer


async def _round(port: int, api: str, streams: int) -> None:
    ids = await asyncio.gather(*(_stream(port, api, number) for number in range(streams)))
    for id in filter(None, ids):
        await _request(port, "DELETE", f"/v1/responses/{id.decode()}")


async def _ready(port: int) -> None:
    for _ in range(600):
        try:
            if b" 200 " in (await _request(port, "GET", "/ready"))[:20]:
                return
        except OSError:
            pass
        await asyncio.sleep(0.2)
    raise RuntimeError("the server did not start")


def main() -> None:
    """Measure, with a line for each round and a summary."""
    parser = argparse.ArgumentParser(description="Watch the server's memory over rounds of streams")
    parser.add_argument("--streams", type=int, default=100, help="streams at once (default: 100)")
    parser.add_argument("--minutes", type=float, default=60, help="how long (default: 60)")
    parser.add_argument("--tokens", type=int, default=600, help="of a stream (default: 600)")
    arguments = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'responses.db'}"
        call = f"serve({port}, {url!r}, {arguments.tokens})"
        server = subprocess.Popen(
            [sys.executable, "-c", f"from benchmarks.serving_memory import serve; {call}"]
        )
        try:
            rounds = _measured(server.pid, port, arguments.streams, 60 * arguments.minutes)
        finally:
            server.terminate()
            server.wait()
    steady = rounds[_WARM:]
    if len(steady) > 1:
        slope = linear_regression(range(len(steady)), steady).slope
        print(
            f"{len(rounds)} rounds of {arguments.streams} streams: {steady[0]:.1f} MiB after round "
            f"{_WARM + 1}, {steady[-1]:.1f} after the last, {max(steady):.1f} at most; "
            f"{1024 * slope:+.1f} KiB a round"
        )


def _measured(pid: int, port: int, streams: int, seconds: float) -> list[float]:
    server = psutil.Process(pid)
    asyncio.run(_ready(port))
    rounds: list[float] = []
    begun = time.monotonic()
    apis: Any = itertools.cycle(_PATHS)
    print(f"ready: {server.memory_info().rss / _MIB:.1f} MiB", flush=True)
    while not rounds or time.monotonic() - begun < seconds:
        api = next(apis)
        asyncio.run(_round(port, api, streams))
        most = server.memory_info().rss / _MIB
        asyncio.run(_settled(port))
        server.send_signal(signal.SIGUSR1)
        time.sleep(1)  # for the signal's handler
        rounds.append(server.memory_info().rss / _MIB)
        print(
            f"round {len(rounds)}, {api}: {most:.1f} MiB at its end, {rounds[-1]:.1f} after it; "
            f"{time.monotonic() - begun:.0f} s",
            flush=True,
        )
    return rounds


async def _settled(port: int) -> None:
    """Wait until no completion runs: clients that have left are noticed a little later."""
    running = re.compile(rb"^harmony_running(?:_completions)? ([0-9.]+)", re.MULTILINE)
    for _ in range(200):
        found = running.search(await _request(port, "GET", "/metrics"))
        if found is None or float(found[1]) == 0:
            return
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    main()
