"""WebSockets take turns: no client's frames hold the event loop, whatever they are."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from gpt_oss_harmony.web import websockets
from gpt_oss_harmony.web.websockets import PacedWebSocket
from support.responses_server import TEXT
from support.scripted_engine import ScriptedEngine
from support.served import PATIENCE, serving

CONTINUATION, TEXT_FRAME, PING = 0, 1, 9
MOST = 4_000  # frames in a turn of all connections; one read of a socket has 40,000
HANDSHAKE = (
    "GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def frame(data: bytes, kind: int = TEXT_FRAME, *, is_last: bool = True) -> bytes:
    size = len(data)
    length = bytes([0x80 | size]) if size < 126 else b"\xff" + size.to_bytes(8, "big")
    return bytes([(0x80 if is_last else 0) | kind]) + length + bytes(4) + data


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port or 80), timeout=PATIENCE) as client:
        client.sendall(HANDSHAKE.encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(1)
        assert b" 101 " in head
        yield client


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many frames each turn of the connections has parsed."""
    counts = [0]

    def counted(name: str) -> None:
        own = getattr(PacedWebSocket, name)

        def handle(self: PacedWebSocket, *event: object) -> None:
            counts[-1] += 1
            own(self, *event)

        monkeypatch.setattr(PacedWebSocket, name, handle)

    for name in ("handle_ping", "handle_text", "handle_cont"):
        counted(name)
    go_on = websockets._Turns._go_on

    def noted(self: websockets._Turns) -> None:
        counts.append(0)
        go_on(self)

    monkeypatch.setattr(websockets._Turns, "_go_on", noted)
    return counts


SMALLEST = {
    "pings": 20_000 * frame(b"", PING),
    "fragments": frame(b"{", is_last=False)
    + 20_000 * frame(b" ", CONTINUATION, is_last=False)
    + frame(b"}", CONTINUATION),
    "texts": 2_000 * frame(b"{"),
}


@pytest.mark.parametrize("kind", SMALLEST)
def test_a_turn_has_few_frames_and_all_are_read(turns: list[int], kind: str) -> None:
    request = frame(json.dumps({"type": "response.create", "input": "hi"}).encode())
    with serving(ScriptedEngine(TEXT, TEXT)) as url, connected(url) as client:
        client.sendall(SMALLEST[kind] + request)
        answers = b""
        while b"response.completed" not in answers:
            answers = answers[-100:] + client.recv(1 << 16)
    assert sum(turns) >= 2_000
    assert max(turns) <= MOST


@pytest.mark.slow
def test_a_client_that_reads_no_pongs_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise they would fill the memory of the server."""
    waiting: list[int] = []
    take_turn = PacedWebSocket.take_turn

    def noted(self: PacedWebSocket) -> bool:
        waiting.append(self.transport.get_write_buffer_size() + len(self._waiting))
        return take_turn(self)

    monkeypatch.setattr(PacedWebSocket, "take_turn", noted)
    pings = 100_000 * frame(bytes(125), PING)
    with serving(ScriptedEngine(TEXT)) as url, connected(url) as client:
        client.settimeout(2)
        with pytest.raises(TimeoutError):
            client.sendall(pings)
        assert max(waiting) < 1 << 20


def test_others_have_as_much_time_as_large_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is unmasked, copied and decoded at once; ten clients must not send them in a row."""
    now, later = [0.0], list[float]()
    clock = SimpleNamespace(perf_counter=lambda: now[0])
    loop: Any = SimpleNamespace(
        call_soon=lambda work: later.append(0), call_later=lambda pause, work: later.append(pause)
    )

    class Connection:
        def __init__(self, seconds: float) -> None:
            self.seconds = seconds

        def take_turn(self) -> bool:
            now[0] += self.seconds
            return False

    monkeypatch.setattr(websockets, "time", clock)
    turns = websockets._Turns(loop)
    for seconds in (0.02, 0.001):  # the second comes in the pause after the first
        turns.add(cast("Any", Connection(seconds)))
        turns._go_on()
    assert later == pytest.approx([0, 0.02])
    assert not turns._is_going_on


def test_the_end_of_a_large_message_waits_for_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = list[int]()
    take_turn = PacedWebSocket.take_turn

    def noted(self: PacedWebSocket) -> bool:
        parsed.append(self._awaited)
        return take_turn(self)

    monkeypatch.setattr(PacedWebSocket, "take_turn", noted)
    large = frame(json.dumps({"type": "no such event", "input": "x" * 1_000_000}).encode())
    with serving(ScriptedEngine(TEXT)) as url, connected(url) as client:
        client.sendall(large)
        assert b"found 'no such event'" in client.recv(1 << 16)
    assert max(parsed) > 1_000_000


def test_a_text_that_is_no_unicode_is_no_error_of_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving(ScriptedEngine()) as url, connected(url) as client:
        client.sendall(frame(b"\xff"))
        assert client.recv(100).endswith((1007).to_bytes(2, "big"))
    assert [record.getMessage() for record in caplog.records] == []
