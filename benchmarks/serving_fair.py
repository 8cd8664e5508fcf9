"""How long a client waits while another does its worst: ``python -m benchmarks.serving --fair``.

The server runs as its own process, with a file of SQLite and two API keys. With one of them,
another process sends what keeps a server busy. With the other, small requests are timed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from gpt_oss_harmony.server.auth.api_keys import ApiKeys
from gpt_oss_harmony.server.store import Store

__all__ = ["ATTACKS", "fair_rows", "fair_table"]

TARGET = 250  # milliseconds
SECONDS = 8.0
_HEAD_START = 1.5  # seconds of the attack before the first request is timed
_PAUSE = 0.02  # seconds between two requests that are timed
_MIB = 1024 * 1024
_NUMBERS = itertools.count()

Row = dict[str, Any]

SMALL: dict[str, tuple[str, str, Mapping[str, Any] | None]] = {
    "/ready": ("GET", "/ready", None),
    "models": ("GET", "/v1/models", None),
    "input_tokens": ("POST", "/v1/responses/input_tokens", {"input": "What is 27 + 45?"}),
}


# The attacks: requests as (path, body), or what to do with a connection


def _large_prompts() -> Iterator[tuple[str, bytes]]:
    words = ("words of a text, ", "x", " ", ",a")
    for word in itertools.cycle(words):
        text = word * (15 * _MIB // len(word))
        yield "/v1/responses/input_tokens", json.dumps({"input": text}).encode()


def _large_json() -> Iterator[tuple[str, bytes]]:
    for inner in itertools.cycle(("[],", "1,", '{"a":1},', '"",')):
        items = inner * (15 * _MIB // len(inner))
        yield "/v1/tokens/parse", f'{{"tokens":[{items}1]}}'.encode()
        yield "/v1/responses/input_tokens", f'{{"input":"hi","tools":[{items}1]}}'.encode()


def _doubling(levels: int, names: int) -> dict[str, Any]:
    """A schema of some KiB whose references double; its number makes it another each time."""
    definitions: dict[str, Any] = {}
    for level in range(levels):
        inner = {"$ref": f"#/$defs/a{level + 1}"}
        definitions[f"a{level}"] = {
            "type": "object",
            "properties": {f"x{name}": inner for name in range(names)},
            "patternProperties": {"^x": inner},
            "additionalProperties": False,
        }
    definitions[f"a{levels}"] = {"type": "string", "pattern": f"^[a-z]{{1,{next(_NUMBERS) + 9}}}$"}
    return {"$ref": "#/$defs/a0", "$defs": definitions}


def _schema_bombs() -> Iterator[tuple[str, bytes]]:
    for number in itertools.count():
        wide = {
            "type": "object",
            "properties": {f"n{number}x{at}": {"type": "string"} for at in range(900)},
        }
        for schema in (_doubling(5, 2), _doubling(12, 2), _doubling(40, 3), wide):
            response_format = {"name": "a", "strict": True, "schema": schema}
            body = {
                "messages": [{"role": "user", "content": "hi"}],
                "max_tokens": 1,
                "response_format": {"type": "json_schema", "json_schema": response_format},
            }
            yield "/v1/chat/completions", json.dumps(body).encode()


def _many_tools() -> Iterator[tuple[str, bytes]]:
    for number in itertools.count():
        parameters = {"type": "object", "properties": {"a": {"type": "string"}}}
        tools = [
            {"type": "function", "name": f"t{number}_{at}", "parameters": parameters}
            for at in range(5000)
        ]
        body = {"input": "hi", "tools": tools, "tool_choice": "required", "max_output_tokens": 16}
        yield "/v1/responses", json.dumps(body).encode()


def _short_chats() -> Iterator[tuple[str, bytes]]:
    """The longest requests that are rendered in the event loop, of characters that take long."""
    for number in itertools.count():
        text = "".join(chr(0x4E00 + (number * 7919 + at * 31) % 20_000) for at in range(3990))
        body = {"input": text, "max_output_tokens": 16, "store": False}
        yield "/v1/responses", json.dumps(body).encode()


Requests = Callable[[], Iterator[tuple[str, bytes]]]


def _posting(
    requests: Requests, clients: int, *, leave: bool = False, encoding: str = "identity"
) -> Any:
    """Post one request after the other by so many clients; with `leave`, never read an answer."""

    async def attack(port: int, key: str) -> None:
        prepared = list(itertools.islice(requests(), 8))

        async def client(first: int) -> None:
            for number in itertools.count(first):
                path, body = prepared[number % len(prepared)]
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    async with _connection(port) as (reader, writer):
                        head = (
                            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                            f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
                            f"Content-Encoding: {encoding}\r\n"
                            f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
                        )
                        writer.write(head.encode())
                        writer.write(body)
                        await writer.drain()
                        if leave:
                            await asyncio.sleep(0.5)
                        else:
                            await reader.read()

        await asyncio.gather(*(client(number) for number in range(clients)))

    return attack


@contextlib.asynccontextmanager
async def _connection(
    port: int,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_MIB)
    try:
        yield reader, writer
    finally:
        writer.close()


async def _slow_readers(port: int, key: str) -> None:
    """Ask for streams and read none of them."""
    body = json.dumps({"input": "hi", "stream": True, "store": False}).encode()
    head = (
        "POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )

    async def client() -> None:
        while True:
            async with _connection(port) as (_, writer):
                writer.write(head.encode() + body)
                await asyncio.sleep(5)

    await asyncio.gather(*(client() for _ in range(64)))


async def _socket_flood(port: int, key: str) -> None:
    """Open WebSockets, and send pings and messages without end, valid ones and others."""
    create = json.dumps({"type": "response.create", "input": "hi", "store": False})
    large = json.dumps({"type": "response.create", "input": "x" * (4 * _MIB), "store": False})

    async def client(number: int) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        url = f"ws://127.0.0.1:{port}/v1/responses"
        while True:
            with contextlib.suppress(Exception):  # refused, or closed by the server
                async with connect(url, additional_headers=headers, max_size=None) as opened:
                    for at in itertools.count():
                        await opened.send(large if at % 50 == number else "{" if at % 2 else create)
                        if at % 10 == 0:
                            await opened.ping()
            await asyncio.sleep(0.05)

    await asyncio.gather(*(client(number) for number in range(200)))


def _frame(data: bytes, kind: int = 1, *, is_last: bool = True) -> bytes:
    """Write a frame of a WebSocket as a client does; the mask of zeros leaves the data as it is."""
    size = len(data)
    length = bytes([0x80 | size]) if size < 126 else b"\xff" + size.to_bytes(8, "big")
    return bytes([(0x80 if is_last else 0) | kind]) + length + bytes(4) + data


def _create(text: str) -> bytes:
    return json.dumps({"type": "response.create", "input": text, "store": False}).encode()


def _fragments() -> bytes:
    data = _create("word " * (3 * _MIB))
    cuts = [*range(0, len(data), 100_000), len(data)]
    return b"".join(
        _frame(data[start:end], 0 if start else 1, is_last=end == len(data))
        for start, end in itertools.pairwise(cuts)
    )


def _sending(frames: Callable[[], bytes], *, reads: bool = True) -> Any:
    """Send the same frames without end over ten WebSockets; read the answers, or none."""

    async def attack(port: int, key: str) -> None:
        data = frames()
        head = (
            "GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
            f"Authorization: Bearer {key}\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )

        async def answers(reader: asyncio.StreamReader) -> None:
            while await reader.read(_MIB):
                pass

        async def client() -> None:
            while True:
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    async with _connection(port) as (reader, writer):
                        writer.write(head.encode())
                        await reader.readuntil(b"\r\n\r\n")
                        reading = asyncio.ensure_future(answers(reader)) if reads else None
                        while reading is None or not reading.done():
                            writer.write(data)
                            await writer.drain()
                await asyncio.sleep(0.05)

        await asyncio.gather(*(client() for _ in range(10)))

    return attack


def _long_chats() -> Iterator[tuple[str, bytes]]:
    turns = [
        {"role": role, "content": "words of a text"}
        for _ in range(10_000)
        for role in ("user", "assistant")
    ]
    yield "/v1/responses", json.dumps({"input": turns, "store": False}).encode()
    yield "/v1/chat/completions", json.dumps({"messages": turns}).encode()
    yield "/v1/messages", json.dumps({"messages": turns, "max_tokens": 16}).encode()


def _compressed() -> Iterator[tuple[str, bytes]]:
    text = json.dumps({"input": "x" * (15 * _MIB)}).encode()
    while True:
        yield "/v1/responses/input_tokens", gzip.compress(text)


async def _nothing(port: int, key: str) -> None:
    await asyncio.sleep(3600)


ATTACKS: dict[str, Callable[[int, str], Coroutine[Any, Any, None]]] = {
    "nothing": _nothing,
    "prompts of 15 MiB": _posting(_large_prompts, 8),
    "prompts of 15 MiB, whose clients go away": _posting(_large_prompts, 8, leave=True),
    "15 MiB of brackets and numbers": _posting(_large_json, 8),
    "schemas whose references double": _posting(_schema_bombs, 8),
    "5,000 tools": _posting(_many_tools, 8),
    "short chats, 64 at a time": _posting(_short_chats, 64),
    "64 streams that nobody reads": _slow_readers,
    "200 WebSockets": _socket_flood,
    "WebSocket frames of 15 MiB": _sending(lambda: _frame(_create("word " * (3 * _MIB)))),
    "the same in fragments": _sending(_fragments),
    "WebSocket frames of 1 MiB, whose answers nobody reads": _sending(
        lambda: 100 * _frame(_create("word " * (_MIB // 5))), reads=False
    ),
    "the smallest WebSocket frames": _sending(lambda: 20_000 * _frame(b"{")),
    "pings of WebSockets": _sending(lambda: 20_000 * _frame(b"", 9)),
    "fragments of one byte": _sending(
        lambda: _frame(b"{", is_last=False) + 20_000 * _frame(b"1", 0, is_last=False)
    ),
    "chats of 20,000 messages": _posting(_long_chats, 8),
    "60 bodies that unpack to 15 MiB": _posting(_compressed, 60, encoding="gzip"),
}


def fair_rows(only: str, port: int) -> Iterator[Row]:
    """Measure one attack after the other, each at a new server."""
    for name in ATTACKS:
        if only in name:
            with tempfile.TemporaryDirectory() as folder, _server(port, Path(folder)) as keys:
                row = {"attack": name, **_measured(name, port, *keys)}
                print(row, file=sys.stderr, flush=True)
                yield row


@contextlib.contextmanager
def _server(port: int, folder: Path) -> Iterator[tuple[str, str]]:
    """Run the server; give the keys of the attacker and of the other client."""
    database = f"sqlite:///{folder / 'fair.db'}"
    with Store(database) as store:
        keys = [ApiKeys(store.keys).create(name).key for name in ("attacker", "other")]
    script = str(Path(__file__).with_name("serving_script.py"))
    command = [sys.executable, script, "ours", str(port), database]
    process = subprocess.Popen(command)
    try:
        yield keys[0], keys[1]
    finally:
        process.kill()
        process.wait()


def _measured(name: str, port: int, attacker: str, other: str) -> Row:
    for _ in range(300):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            break
        time.sleep(0.1)
    client = HTTPConnection("127.0.0.1", port, timeout=120)
    for small in SMALL:  # what is slow once only
        _ask(client, other, small)
    command = [sys.executable, "-m", "benchmarks.serving_fair", name, str(port), attacker]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        time.sleep(_HEAD_START)
        times: dict[str, list[float]] = {small: [] for small in SMALL}
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            for small in SMALL:
                times[small].append(_ask(client, other, small))
                time.sleep(_PAUSE)
    finally:
        process.kill()
        process.wait()
    return {
        "load": round(os.getloadavg()[0], 1),
        **{
            small: {"median": _rank(ms, 0.5), "p99": _rank(ms, 0.99), "worst": max(ms)}
            for small, ms in times.items()
        },
    }


def _ask(client: HTTPConnection, key: str, small: str) -> float:
    """Send a small request; return how many milliseconds the answer took."""
    method, path, body = SMALL[small]
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    begun = time.perf_counter()
    client.request(method, path, data, headers)
    answer = client.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path} answered {answer.status}: {text[:300]!r}")
    return 1e3 * (time.perf_counter() - begun)


def _rank(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


def fair_table(rows: list[Row]) -> str:
    """Write the measurements as the page has them: the median and the worst, in milliseconds."""
    lines = [
        f"| another client sends | {' | '.join(f'`{name}`' for name in SMALL)} |",
        "| --- |" + " --: |" * len(SMALL),
    ]
    for row in rows:
        cells = (f"{row[name]['median']:,.0f}; {row[name]['worst']:,.0f} ms" for name in SMALL)
        lines.append(f"| {row['attack']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Attack a server until this process is killed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attack", choices=ATTACKS)
    parser.add_argument("port", type=int)
    parser.add_argument("key")
    arguments = parser.parse_args()
    asyncio.run(ATTACKS[arguments.attack](arguments.port, arguments.key))


if __name__ == "__main__":
    main()
