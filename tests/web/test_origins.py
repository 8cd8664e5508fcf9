"""Which requests a server without keys answers: tables of the headers Host and Origin."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from gpt_oss_harmony.web import Refusal, RequestGuard, is_loopback, read_host, read_origin

LOCAL = ("127.0.0.1", 8000)
HOSTS = {
    # A name or an address of this machine alone, however it is written.
    "127.0.0.1": 200,
    "127.0.0.1:8000": 200,
    "127.1.2.3:8000": 200,
    "localhost": 200,
    "LocalHost:8000": 200,
    "localhost.": 200,
    "localhost.:8000": 200,
    "[::1]": 200,
    "[::1]:8000": 200,
    "[0:0:0:0:0:0:0:1]:8000": 200,
    "[::ffff:127.0.0.1]:8000": 200,
    # An allowed name.
    "harmony.internal": 200,
    "Harmony.Internal.:443": 200,
    # What others can own.
    "attacker.example": 400,
    "attacker.example:8000": 400,
    "127.0.0.1.attacker.example": 400,
    "localhost.attacker.example": 400,
    "sub.harmony.internal": 400,
    "harmony.internal.attacker.example": 400,
    "192.168.0.1:8000": 400,
    "0.0.0.0:8000": 400,
    "[::]:8000": 400,
    "[::ffff:10.0.0.1]": 400,
    "[fe80::1]:8000": 400,
    # What is no host at all.
    "": 400,
    ":8000": 400,
    "localhost..": 400,
    "localhost:": 400,
    "localhost:port": 400,
    "localhost:8000:8000": 400,
    "::1": 400,
    "[::1": 400,
    "localhost@attacker.example": 400,
    "attacker.example@localhost": 400,
    "localhost/": 400,
    "localhost,attacker.example": 400,
    "localhost attacker.example": 400,
    "2130706433": 400,
    "127.1": 400,
    "0x7f000001": 400,
    "lo\u0441alhost": 400,  # with a Cyrillic letter
}
ORIGINS = {
    # The server itself, and allowed pages.
    "http://127.0.0.1:8000": 200,
    "https://127.0.0.1:8000": 200,  # as behind a proxy that ends TLS
    "https://app.example": 200,
    "https://APP.example:443": 200,
    "http://localhost:5173": 200,
    "http://[::1]:5173": 200,
    # All others.
    "": 403,
    "null": 403,
    "*": 403,
    "file://": 403,
    "http://127.0.0.1": 403,
    "http://127.0.0.1:8001": 403,
    "http://localhost:8000": 403,
    "http://127.0.0.1:80000": 403,
    "http://app.example": 403,
    "https://app.example:8443": 403,
    "https://app.example.attacker.example": 403,
    "https://attacker.example": 403,
    "https://attacker.example/?https://app.example": 403,
    "https://app.example@attacker.example": 403,
    "https://app.example, https://attacker.example": 403,
    "127.0.0.1:8000": 403,
    "//127.0.0.1:8000": 403,
    "javascript://127.0.0.1:8000": 200,  # no page has it: browsers send the origin of the document
}


async def everything(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
    else:
        await PlainTextResponse("yes")(scope, receive, send)


def refused(refusal: Refusal, _: Scope) -> Response:
    return PlainTextResponse(refusal.problem, refusal.status)


def guard(**options: Any) -> RequestGuard:
    return RequestGuard(
        everything,
        respond=refused,
        **{
            "allowed_hosts": ["harmony.internal"],
            "allowed_origins": [
                "https://app.example",
                "http://localhost:5173",
                "http://[::1]:5173",
            ],
            **options,
        },
    )


def status(
    asked: RequestGuard,
    *headers: tuple[str, str],
    kind: str = "http",
    server: tuple[str, int | None] | None = LOCAL,
    extensions: dict[str, Any] | None = None,
) -> int:
    """Ask with headers, and return the status of the answer; 200 for an accepted WebSocket."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nothing has to be read")

    scope: dict[str, Any] = {
        "type": kind,
        "method": "GET",
        "path": "/",
        "server": server,
        "headers": [(name.encode(), value.encode("utf-8")) for name, value in headers],
        "extensions": extensions,
    }
    asyncio.run(asked(scope, receive, send))
    first = sent[0]
    return 200 if first["type"] == "websocket.accept" else int(first.get("status", 0))


DENIAL: dict[str, Any] = {"websocket.http.response": {}}


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("host", HOSTS)
def test_hosts(host: str, kind: str) -> None:
    assert status(guard(), ("Host", host), kind=kind, extensions=DENIAL) == HOSTS[host]


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("origin", ORIGINS)
def test_origins(origin: str, kind: str) -> None:
    headers = ("Host", "127.0.0.1:8000"), ("Origin", origin)
    assert status(guard(), *headers, kind=kind, extensions=DENIAL) == ORIGINS[origin]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], 400),
        ([("Host", "localhost"), ("Host", "localhost")], 400),
        ([("Host", "localhost"), ("host", "attacker.example")], 400),
        ([("Host", "harmony.internal"), ("Origin", "http://harmony.internal")], 200),
        ([("Host", "localhost:80"), ("Origin", "http://localhost")], 200),
        ([("Host", "LOCALHOST:8000"), ("Origin", "http://localhost:8000")], 200),
        ([("Host", "[::1]:8000"), ("Origin", "http://[::1]:8000")], 200),
        ([("Host", "localhost"), ("Origin", "null"), ("Origin", "http://localhost")], 403),
        ([("Host", "attacker.example"), ("Origin", "http://attacker.example")], 400),
    ],
)
def test_headers_together(headers: list[tuple[str, str]], expected: int) -> None:
    assert status(guard(), *headers) == expected


@pytest.mark.parametrize(
    ("server", "is_open", "expected"),
    [
        (("127.0.0.1", 8000), False, 200),
        (("::1", 8000), False, 200),
        (("192.168.0.1", 8000), False, 403),
        (("172.17.0.2", 8000), False, 403),
        (("fe80::1", 8000), False, 403),
        (("192.168.0.1", 8000), True, 200),
        (("/run/harmony.sock", None), False, 200),
        (None, False, 200),
    ],
)
def test_the_address_that_was_reached(
    server: tuple[str, int | None] | None, is_open: bool, expected: int
) -> None:
    """A client that is no browser may write any Host, and cannot choose the address."""
    assert status(guard(is_open=is_open), ("Host", "localhost"), server=server) == expected


def test_a_server_with_keys_leaves_it_to_the_routes() -> None:
    asked = []

    def has_keys(answer: bool) -> Any:
        async def needs_key(_: Scope) -> bool:
            asked.append(answer)
            return answer

        return needs_key

    page = ("Host", "attacker.example"), ("Origin", "http://attacker.example")
    assert status(guard(needs_key=has_keys(True)), *page) == 200
    assert status(guard(needs_key=has_keys(False)), *page) == 400
    assert asked == [True, False]
    assert status(guard(needs_key=has_keys(False)), ("Host", "localhost")) == 200
    assert asked == [True, False], "nothing is looked up for a request that passes anyway"


def test_a_websocket_is_closed_where_the_server_cannot_respond() -> None:
    assert status(guard(), ("Host", "attacker.example"), kind="websocket") == 0


@pytest.mark.parametrize(
    "text", ["", "*", "*.example", "http://a.example", "a.example:80", "a/b", "a b", "[::1"]
)
def test_hosts_that_cannot_be_allowed(text: str) -> None:
    with pytest.raises(ValueError, match="is not a host; write a name or an address"):
        read_host(text)


def test_addresses_can_be_allowed() -> None:
    assert read_host("192.168.0.1") == "192.168.0.1"
    assert read_host("FD00::1") == "fd00::1"
    allowing = guard(allowed_hosts=["192.168.0.1", "fd00::1"])
    assert status(allowing, ("Host", "192.168.0.1:8000")) == 200
    assert status(allowing, ("Host", "[fd00::1]:8000")) == 200


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",
        "null",
        "app.example",
        "https://",
        "https://*.example",
        "https://app.example/",
        "://a",
    ],
)
def test_origins_that_cannot_be_allowed(text: str) -> None:
    with pytest.raises(
        ValueError, match="is not an origin; write the scheme, the host and the port"
    ):
        read_origin(text)


def test_a_name_that_is_no_address_is_not_loopback() -> None:
    assert not any(
        map(is_loopback, ("", "localhost.example", "127.0.0.1:80", "1", "::", "10.0.0.1"))
    )
