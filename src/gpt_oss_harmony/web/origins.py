"""Checks of the headers Host and Origin: which web pages may use a server.

A browser lets every page send requests to every server, including servers on the same machine. It
adds two headers that no page can change: ``Origin`` is the page that sends the request, and
``Host`` is the name that the page used. A server without keys answers a request only if

- it came to a loopback address, such as 127.0.0.1, unless the server is open to everyone,
- its Host is a loopback name or an allowed one: with DNS rebinding, a page can make its own name
  point to this machine, but it cannot change the name,
- its Origin is missing (no page sent it), the server itself, or an allowed one.

The same rules apply to HTTP and WebSockets. On a server with keys, only the key matters, because
pages of other sites do not have it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any, NamedTuple, TypeAlias

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?", re.I)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_EXPOSED = (
    "Content-Disposition",
    "Harmony-Ignored",
    "Harmony-Narrowed",
    "Harmony-Unenforced",
    "Request-Id",
    "Retry-After",
    "WWW-Authenticate",
    "X-Request-Id",
)


class _Authority(NamedTuple):
    host: str
    port: int | None  # None is the default port of the scheme


@lru_cache(maxsize=64)
def _read_authority(text: str, scheme: str) -> _Authority | None:
    match = _AUTHORITY.fullmatch(text)
    if match is None:
        return None
    # With the dot of the root at its end, a name is the same.
    host = match["host"].lower().removesuffix(".").strip("[]")
    port = int(match["port"]) if match["port"] else None
    return _Authority(host, None if port == _DEFAULT_PORTS.get(scheme) else port)


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Return whether a name or an address is a loopback one, which only this machine can reach.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    # Older Pythons do not count ::ffff:127.0.0.1 among the loopback addresses.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def read_host(text: str) -> str:
    """Read a host that an operator allows: a name or an address, without a port.

    >>> read_host("Harmony.internal.")
    'harmony.internal'

    Raises `ValueError`.
    """
    authority = _read_authority(f"[{text}]" if text.count(":") > 1 else text, "")
    if authority is None or authority.port is not None:
        raise ValueError(
            f"{text!r} is not a host; write a name or an address, such as harmony.internal"
        )
    return authority.host


def read_origin(text: str) -> str:
    """Read an origin that an operator allows, as browsers write it: a scheme, a host, a port.

    >>> read_origin("https://App.example:443")
    'https://app.example'

    Raises `ValueError`, also for ``*`` and ``null``, which mean any page.
    """
    scheme, separator, rest = text.lower().partition("://")
    authority = _read_authority(rest, scheme)
    if not separator or authority is None or not re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme):
        raise ValueError(
            f"{text!r} is not an origin; write the scheme, the host and the port of the page, "
            "such as https://app.example or http://localhost:5173"
        )
    host = f"[{authority.host}]" if ":" in authority.host else authority.host
    return f"{scheme}://{host}" + ("" if authority.port is None else f":{authority.port}")


class Refusal(NamedTuple):
    """The HTTP status of a refused request, the reason for people, and a code for programs."""

    status: int
    problem: str
    code: str


NeedsKey: TypeAlias = "Callable[[Scope], Awaitable[bool]]"


class RequestGuard:
    """Middleware that refuses requests by the module's rules; `respond` writes the response.

    `needs_key` returns whether the server has keys; then all requests pass, and the routes check
    the key. It is called only for requests that would be refused. `is_open` allows every local
    address.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        respond: Callable[[Refusal, Scope], Response],
        needs_key: NeedsKey | None = None,
        allowed_hosts: Iterable[str] = (),
        allowed_origins: Iterable[str] = (),
        is_open: bool = False,
    ) -> None:
        self._app = app
        self._respond = respond
        self._needs_key = needs_key
        self._hosts = frozenset(map(read_host, allowed_hosts))
        self._origins = frozenset(map(read_origin, allowed_origins))
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        app: ASGIApp = self._app
        if scope["type"] in ("http", "websocket"):
            refusal = self._refusal(scope)
            if refusal and not (self._needs_key and await self._needs_key(scope)):
                app = self._respond(refusal, scope)
                can_respond = "websocket.http.response" in (scope.get("extensions") or {})
                if scope["type"] == "websocket" and not can_respond:
                    app = _close
        await app(scope, receive, send)

    def _refusal(self, scope: Scope) -> Refusal | None:
        """Return the reason for which a server without keys refuses a request."""
        hosts = _header(scope, b"host")
        host = _read_authority(hosts[0], "") if len(hosts) == 1 else None
        if host is None or not (is_loopback(host.host) or host.host in self._hosts):
            named = f"the host {hosts[0]!r:.200}" if hosts else "a request without the header Host"
            return Refusal(
                400,
                f"this server has no API keys and does not answer {named}; use localhost, "
                "allow the name with --allowed-host, or create a key",
                "host_not_allowed",
            )
        address, port = scope.get("server") or ("localhost", None)
        if port is not None and not (self._is_open or is_loopback(address)):
            return Refusal(
                403,
                f"this server has no API keys and does not answer at {address}, which other "
                "machines can reach; create a key with 'harmony keys create NAME'",
                "key_needed",
            )
        for origin in _header(scope, b"origin"):
            if not (self._is_own(origin, hosts[0]) or _normalized(origin) in self._origins):
                return Refusal(
                    403,
                    f"pages of {origin!r:.200} may not use this server, which has no API keys; "
                    "allow them with --allowed-origin",
                    "origin_not_allowed",
                )
        return None

    def _is_own(self, origin: str, host: str) -> bool:
        """Return whether a page is this server's own; a proxy may have changed the scheme."""
        scheme, _, authority = origin.partition("://")
        page = _read_authority(authority, scheme)
        return page is not None and page == _read_authority(host, scheme)


def cors_options(allowed_origins: Iterable[str]) -> dict[str, Any]:
    """Return the options of Starlette's `CORSMiddleware` for pages that may read responses."""
    return {
        "allow_origins": [read_origin(origin) for origin in allowed_origins],
        "allow_methods": ["GET", "HEAD", "POST", "DELETE"],
        "allow_headers": ["*"],  # SDKs send a dozen headers of their own
        "allow_credentials": True,
        "expose_headers": _EXPOSED,
    }


def _header(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _normalized(origin: str) -> str | None:
    try:
        return read_origin(origin)
    except ValueError:
        return None


async def _close(_: Scope, __: Receive, send: Send) -> None:
    """Close a WebSocket before it is accepted, if the server cannot send a response."""
    await send({"type": "websocket.close", "code": 1008})
