"""Half requests, slow requests and requests of two lengths, from raw sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from gpt_oss_harmony.web import HttpConfig, RequestTimes
from support.served import PATIENCE

SHORT = RequestTimes(head=0.3, body=0.3, body_rate=1000)
SHORT_BODY = RequestTimes(head=PATIENCE, body=0.3, body_rate=1000)
LONG = RequestTimes(head=PATIENCE, body=PATIENCE)
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
HALF_OPEN = 300


class Counter:
    """An application that answers with the length of a body, and counts bodies that were cut.

    `/early` answers before the body, `/late` reads it only after a while.
    """

    def __init__(self) -> None:
        self.cut = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if scope["path"] == "/late":
            await asyncio.sleep(3 * SHORT.body)
        try:
            length = 0 if scope["path"] == "/early" else len(await request.body())
        except ClientDisconnect:
            self.cut += 1
            length = -1
        await PlainTextResponse(f"read {length}")(scope, receive, send)


@contextmanager
def served(app: Counter, times: RequestTimes) -> Iterator[tuple[str, int]]:
    server = uvicorn.Server(HttpConfig(app, times, lifespan="off"))
    with socket.create_server(("127.0.0.1", 0), backlog=2 * HALF_OPEN) as listener:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


@contextmanager
def connected(address: tuple[str, int]) -> Iterator[socket.socket]:
    with socket.create_connection(address, timeout=PATIENCE) as client:
        yield client


def rest(client: socket.socket) -> bytes:
    """Read until the server closes the connection; fails where it does not."""
    received = b""
    try:
        while piece := client.recv(65536):
            received += piece
    except ConnectionResetError:
        pass
    return received


def ask(address: tuple[str, int], request: bytes) -> bytes:
    with connected(address) as client:
        client.sendall(request)
        return rest(client)


def ask_until_answered(address: tuple[str, int], request: bytes) -> bytes:
    """Ask again where the machine was too busy to send a request in the time for one."""
    end = time.monotonic() + PATIENCE
    while (answer := ask(address, request))[9:12] == b"408" or not answer:
        assert time.monotonic() < end
    return answer


def is_closed_under_drops(client: socket.socket) -> bool:
    """Send single bytes until the server closes the connection."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            client.sendall(b"a")
        except OSError:
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def app() -> Counter:
    return Counter()


@pytest.fixture
def address(app: Counter) -> Iterator[tuple[str, int]]:
    with served(app, SHORT) as address:
        yield address


@pytest.fixture
def body_address(app: Counter) -> Iterator[tuple[str, int]]:
    """The address of a server that is patient up to the end of a head."""
    with served(app, SHORT_BODY) as address:
        yield address


@pytest.fixture
def patient_address(app: Counter) -> Iterator[tuple[str, int]]:
    """The address of a server that closes no honest connection, however busy the machine is."""
    with served(app, LONG) as address:
        yield address


UNENDED = {
    "nothing": (b"", b""),
    "a part of a line": (b"GE", b"408"),
    "a line": (b"GET / HTTP/1.1\r\n", b"408"),
    "a head without an end": (POST + b"X-A: b\r\n", b"408"),
    "a head without a body": (POST + b"Content-Length: 5\r\n\r\n", b"408"),
    "a part of a body": (POST + b"Content-Length: 5\r\n\r\nab", b"408"),
    "a chunk": (POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", b"408"),
    "a part of a chunk": (POST + b"Transfer-Encoding: chunked\r\n\r\nfff\r\nabc", b"408"),
    "chunks without trailers": (POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"408"),
    "an early answer": (
        b"POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\na",
        b"200",
    ),
    "a second head": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HT", b"200"),
}


@pytest.mark.parametrize("name", UNENDED)
def test_a_request_that_does_not_end_is_closed(
    app: Counter, address: tuple[str, int], name: str
) -> None:
    request, status = UNENDED[name]
    answer = (ask_until_answered if status == b"200" else ask)(address, request)
    assert answer[9:12] == status
    if status == b"408":
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"connection: close" in head.lower()
        assert body == b"the request did not end in time\n"


def test_the_application_learns_that_a_body_was_cut(
    app: Counter, body_address: tuple[str, int]
) -> None:
    ask(body_address, POST + b"Content-Length: 5\r\n\r\na")
    assert app.cut == 1


@pytest.mark.parametrize(
    "begin", [b"GET / HTTP/1.1\r\nX: ", POST + b"Content-Length: 99999\r\n\r\n"]
)
def test_single_bytes_do_not_keep_a_connection(address: tuple[str, int], begin: bytes) -> None:
    with connected(address) as client:
        client.sendall(begin)
        assert is_closed_under_drops(client)


def test_an_answer_and_a_body_that_drips_do_not_keep_a_connection(
    body_address: tuple[str, int],
) -> None:
    with connected(body_address) as client:
        client.sendall(b"POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        assert is_closed_under_drops(client)


def test_many_half_open_connections_are_closed_and_others_are_answered(
    address: tuple[str, int],
) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(address)) for _ in range(HALF_OPEN)]
        for number, client in enumerate(clients):
            client.sendall((b"GET / HT", POST + b"Content-Length: 9\r\n\r\n")[number % 2])
        complete = POST + b"Content-Length: 3\r\nConnection: close\r\n\r\nabc"
        assert ask_until_answered(address, complete).endswith(b"read 3")
        assert all(rest(client).startswith(b"HTTP/1.1 408") for client in clients)


def test_a_body_that_comes_has_the_time_it_needs(body_address: tuple[str, int]) -> None:
    """Each thousand bytes that have come give a second more."""
    head = POST + b"Content-Length: 30000\r\nConnection: close\r\n\r\n"
    with connected(body_address) as client:
        client.sendall(head + b"a" * 25_000)
        time.sleep(3 * SHORT.body)
        client.sendall(b"a" * 5_000)
        assert rest(client).endswith(b"read 30000")


def test_a_client_does_not_pay_for_a_server_that_reads_late(
    body_address: tuple[str, int],
) -> None:
    size = 3_000_000
    head = b"POST /late HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    with connected(body_address) as client:
        client.sendall(head + b"Content-Length: %d\r\n\r\n" % size + b"a" * size)
        assert rest(client).endswith(b"read %d" % size)


def test_a_connection_is_used_again(patient_address: tuple[str, int]) -> None:
    with connected(patient_address) as client:
        for _ in range(3):
            client.sendall(POST + b"Content-Length: 2\r\n\r\nab")
            answer = b""
            while not answer.endswith(b"read 2"):
                answer += client.recv(65536)


LENGTHS = {
    "both": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both, the other first": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "both, in other letters": b"CONTENT-length: 0\r\ntransfer-ENCODING: Chunked\r\n\r\n0\r\n\r\n",
    "both, and an upgrade": b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n"
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    "a list of lengths": b"Content-Length: 5, 6\r\n\r\nabcdef",
    "a length with a sign": b"Content-Length: +5\r\n\r\nabcde",
    "a negative length": b"Content-Length: -5\r\n\r\n",
    "a length in other digits": "Content-Length: ٥\r\n\r\nabcde".encode(),
    "a space before the colon": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a folded line": b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "another encoding": b"Transfer-Encoding: gzip\r\n\r\nabc",
    "two encodings": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "a chunk of no length": b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    "a null in a name": b"X\0: 1\r\nContent-Length: 0\r\n\r\n",
}
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("name", LENGTHS)
def test_a_request_of_two_lengths_is_refused(patient_address: tuple[str, int], name: str) -> None:
    """The connection is closed: what follows would be read as another request."""
    answer = ask(patient_address, POST + LENGTHS[name] + SMUGGLED)
    statuses = [line[9:12] for line in answer.split(b"\r\n") if line.startswith(b"HTTP/")]
    # The application may have begun where the head was right, and then reads that the body was cut.
    assert statuses
    assert set(statuses) <= {b"400", b"501"}
    assert b"read" not in answer


UPGRADE = b"Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
NO_HANDSHAKES = {
    "another method": b"POST / HTTP/1.1\r\n" + UPGRADE + b"\r\n",
    "a body": b"GET / HTTP/1.1\r\n" + UPGRADE + b"Content-Length: 1\r\n\r\na",
    "chunks": b"GET / HTTP/1.1\r\n" + UPGRADE + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a long address": b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + UPGRADE + b"\r\n",
    "many headers": b"GET / HTTP/1.1\r\n" + UPGRADE + b"A: b\r\n" * 200 + b"\r\n",
    "a key in Latin-1": b"GET / HTTP/1.1\r\n" + UPGRADE + b"Sec-WebSocket-Key: \xe9\r\n\r\n",
    "no key": b"GET / HTTP/1.1\r\n" + UPGRADE + b"\r\n",
}


@pytest.mark.parametrize("name", NO_HANDSHAKES)
def test_what_is_no_handshake_is_refused(patient_address: tuple[str, int], name: str) -> None:
    """Newer versions of websockets answer another method by themselves, with 405."""
    status = ask(patient_address, NO_HANDSHAKES[name])[9:12]
    assert status in ((b"400", b"405") if name == "another method" else (b"400",))
