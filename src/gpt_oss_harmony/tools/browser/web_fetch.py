"""Fetching documents from the web: only from allowed addresses, and only up to a size.

A fetch follows redirects, decompresses the body, and sends nothing about the caller but its name.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import zlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

import httpcore2
import httpx2

from ..tool import ToolError
from .addresses import AddressRules

ACCEPTED_CODINGS = "gzip, deflate"
"""The content codings that `BoundedBody` decodes."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host and a port; raises `OSError` if there are none."""

_TRIES = 4  # addresses of a host that are tried
_STEP = 1 << 20  # bytes that are decompressed at once
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 10
_URL_LIMIT = 4_000  # characters
_HOST = re.compile(rb"[a-z0-9._-]+|[0-9a-f:.]+", re.IGNORECASE)
_ACCEPT = "text/html,application/xhtml+xml,application/pdf,text/*;q=0.9,*/*;q=0.5"


class BoundedBody:
    """Collects a body, decompresses it, and stops after `limit` bytes of the result.

    Raises `ValueError` for an unknown content coding, and for damaged data.

    >>> body = BoundedBody("gzip", limit=10)
    >>> import gzip
    >>> body.add(gzip.compress(b"." * 1_000_000)), len(body.data), body.cut
    (False, 10, True)
    """

    def __init__(self, coding: str, limit: int) -> None:
        self._coding = coding.strip().lower()
        if self._coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ValueError(f"the answer is encoded as {coding[:50]}, which was not asked for")
        self._room = limit
        self._decompressor: zlib._Decompress | None = None
        self._head = b""  # too few bytes to choose a decompressor
        self._pieces = list[bytes]()
        self.cut = False
        """True if the body is larger than the limit."""

    @property
    def data(self) -> bytes:
        """The bytes collected so far."""
        return b"".join(self._pieces)

    def add(self, piece: bytes) -> bool:
        """Add a piece as it was sent; return whether there is room for more."""
        if self._coding in ("", "identity"):
            self._store(piece)
            return not self.cut
        piece, self._head = self._head + piece, b""
        while piece and not self.cut:
            if self._decompressor is None or self._decompressor.eof:  # one file may follow another
                if len(piece) < 2:
                    self._head = piece
                    break
                self._decompressor = self._new_decompressor(piece)
            try:
                # In steps, because a small piece may decompress to gigabytes.
                self._store(self._decompressor.decompress(piece, _STEP))
            except zlib.error as error:
                raise ValueError(f"the answer cannot be decompressed: {error}") from error
            piece = self._decompressor.unconsumed_tail or self._decompressor.unused_data
        return not self.cut

    def _new_decompressor(self, head: bytes) -> zlib._Decompress:
        if "gzip" in self._coding:
            return zlib.decompressobj(16 + zlib.MAX_WBITS)
        # Some servers send deflate without the header that the standard requires.
        has_header = head[0] & 15 == 8 and int.from_bytes(head[:2], "big") % 31 == 0
        return zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)

    def _store(self, decoded: bytes) -> None:
        self.cut = len(decoded) > self._room
        self._pieces.append(decoded[: self._room])
        self._room -= len(self._pieces[-1])


async def resolve(host: str, port: int) -> list[str]:
    """Ask the system for the addresses of a host."""
    infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in infos))


class PinnedNetwork(httpcore2.AsyncNetworkBackend):
    """Resolves each host once, checks all its addresses, and connects to one of them.

    Each fetch, with all its redirects, has its own: a host cannot get other addresses later. The
    layers above, such as TLS, see only the name of the host.
    """

    def __init__(self, rules: AddressRules, resolve: Resolve = resolve) -> None:
        self._rules = rules
        self._resolve = resolve
        self._sockets = httpcore2.AnyIOBackend()
        self._addresses: dict[str, Sequence[str]] = {}

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to a host; raises `ToolError` if no address is allowed or reachable."""
        failure: Exception | None = None
        for address in (await self._checked(host, port))[:_TRIES]:
            try:
                return await self._sockets.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise ToolError(f"cannot connect to {host}: {failure or 'it has no address'}")

    async def _checked(self, host: str, port: int) -> Sequence[str]:
        if not self._rules.allows_port(port):
            raise ToolError(f"port {port} of {host} may not be opened")
        if host not in self._addresses:
            try:
                self._addresses[host] = await self._resolve(host, port)
            except (OSError, UnicodeError) as error:
                raise ToolError(f"there is no host {host}: {error}") from error
        if not all(map(self._rules.allows, self._addresses[host])):
            raise ToolError(f"{host} is not on the public Internet, and may not be opened")
        return self._addresses[host]


@dataclass(frozen=True)
class Fetched:
    """A fetched document; `url` is its address after all redirects."""

    url: str
    status: int
    content_type: str
    body: bytes
    cut: bool
    """True if the body is only the beginning of the document."""


class WebFetch:
    """Fetches with GET: no cookies, no credentials, no referrer, and no proxy of the environment.

    Each fetch opens its own connections, only to addresses that `rules` allow. Connecting takes
    `patience` seconds at most, and so does each wait for more bytes; the caller limits the total
    time. All errors are `ToolError`.
    """

    def __init__(
        self,
        *,
        user_agent: str,
        rules: AddressRules,
        patience: float,
        resolve: Resolve,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._headers = [
            (b"User-Agent", user_agent.encode()),
            (b"Accept", _ACCEPT.encode()),
            (b"Accept-Encoding", ACCEPTED_CODINGS.encode()),
        ]
        self._timeouts = dict.fromkeys(("connect", "read", "write", "pool"), patience)
        self._rules = rules
        self._resolve = resolve
        self._ssl_context = ssl_context

    async def fetch(
        self, url: str, *, most: int, permit: Callable[[str], Awaitable[None]] | None = None
    ) -> Fetched:
        """Fetch at most `most` bytes; `permit` can refuse any redirect by raising `ToolError`."""
        address = _parsed(url)
        if self._ssl_context is None:  # made late, because it is slow and often not needed
            self._ssl_context = httpcore2.default_ssl_context()
        async with httpcore2.AsyncConnectionPool(
            ssl_context=self._ssl_context, network_backend=PinnedNetwork(self._rules, self._resolve)
        ) as pool:
            for _ in range(_MOST_REDIRECTS + 1):
                try:
                    if permit is not None:
                        await permit(str(address))
                    response = await self._get(pool, address, most)
                except (httpcore2.TimeoutException, httpcore2.NetworkError) as error:
                    why = str(error) or type(error).__name__
                    raise ToolError(f"cannot fetch {address}: {why}") from error
                except (httpcore2.ProtocolError, ValueError) as error:
                    raise ToolError(f"{address} does not answer as it should: {error}") from error
                if isinstance(response, Fetched):
                    return response
                address = _parsed(response, address)
        raise ToolError(f"{url} redirects more than {_MOST_REDIRECTS} times")

    async def _get(
        self, pool: httpcore2.AsyncConnectionPool, address: httpx2.URL, most: int
    ) -> Fetched | str:
        """Return the document at an address, or the address that it redirects to."""
        target = httpcore2.URL(
            scheme=address.raw_scheme,
            host=address.raw_host,
            port=address.port,
            target=address.raw_path,
        )
        async with pool.stream(
            "GET",
            target,
            headers=[(b"Host", address.netloc), *self._headers],
            extensions={"timeout": self._timeouts},
        ) as response:
            headers = httpx2.Headers(response.headers)
            if response.status in _REDIRECTS and "location" in headers:
                return headers["location"]
            body = BoundedBody(headers.get("content-encoding", ""), most)
            async for piece in response.aiter_stream():
                if not body.add(piece):
                    break
        return Fetched(
            str(address), response.status, headers.get("content-type", ""), body.data, body.cut
        )


def _parsed(url: str, base: httpx2.URL | None = None) -> httpx2.URL:
    """Parse an address, relative to `base` if given; raises `ToolError` if it may not be opened."""
    if len(url) > _URL_LIMIT:
        raise ToolError(f"the URL is longer than {_URL_LIMIT} characters: {url[:100]}…")
    try:
        address = httpx2.URL(url) if base is None else base.join(url)
    except (httpx2.InvalidURL, ValueError) as error:
        raise ToolError(f"`{url[:200]}` is not a URL: {error}") from error
    if address.scheme not in ("http", "https"):
        raise ToolError(f"only http:// and https:// can be opened, not `{url[:200]}`")
    if not _HOST.fullmatch(address.raw_host):
        raise ToolError(f"`{url[:200]}` names no host")
    if address.userinfo:
        raise ToolError("a URL with a user name or a password is not opened")
    return address.copy_with(fragment=None)
