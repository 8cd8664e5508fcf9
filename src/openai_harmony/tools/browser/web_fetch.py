"""Fetching documents from the web: redirects, sizes, and no more of the caller than its name."""

from __future__ import annotations

import re
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpcore2
import httpx2

from ..tool_error import ToolError
from .addresses import AddressRules
from .content_coding import ACCEPTED_CODINGS, BoundedBody
from .pinned_network import PinnedNetwork, Resolve

__all__ = ["Fetched", "WebFetch"]

_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 10
_URL_LIMIT = 4_000  # characters
_HOST = re.compile(rb"[a-z0-9._-]+|[0-9a-f:.]+", re.IGNORECASE)
_ACCEPT = "text/html,application/xhtml+xml,application/pdf,text/*;q=0.9,*/*;q=0.5"


@dataclass(frozen=True)
class Fetched:
    """What was fetched: `url` is where it was found, after all redirects."""

    url: str
    status: int
    content_type: str
    body: bytes
    cut: bool
    """Whether the body is only the beginning."""


async def _any(_: str) -> None:
    pass


class WebFetch:
    """Fetches with GET: no cookies, no credentials, no referrer, and no proxy of the environment.

    Each fetch has connections of its own, each to an address that `rules` allow. `patience` is how
    many seconds a connection may take, and how many may pass without a byte; the whole time is the
    caller's to limit. All errors are `ToolError`.
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
        self, url: str, *, most: int, permit: Callable[[str], Awaitable[None]] = _any
    ) -> Fetched:
        """Fetch at most `most` bytes; `permit` may raise `ToolError` for any address on the way."""
        address = _parsed(url)
        async with httpcore2.AsyncConnectionPool(
            ssl_context=self._tls(), network_backend=PinnedNetwork(self._rules, self._resolve)
        ) as pool:
            for _ in range(_MOST_REDIRECTS + 1):
                await permit(str(address))
                try:
                    found = await self._get(pool, address, most)
                except (httpcore2.TimeoutException, httpcore2.NetworkError) as error:
                    why = str(error) or type(error).__name__
                    raise ToolError(f"cannot fetch {address}: {why}") from error
                except (httpcore2.ProtocolError, ValueError) as error:
                    raise ToolError(f"{address} does not answer as it should: {error}") from error
                if isinstance(found, Fetched):
                    return found
                address = _parsed(found, address)
        raise ToolError(f"{url} redirects more than {_MOST_REDIRECTS} times")

    async def _get(
        self, pool: httpcore2.AsyncConnectionPool, address: httpx2.URL, most: int
    ) -> Fetched | str:
        """Return what is at an address, or where it redirects to."""
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

    def _tls(self) -> ssl.SSLContext:
        if self._ssl_context is None:  # it takes time, and many conversations never need it
            self._ssl_context = httpcore2.default_ssl_context()
        return self._ssl_context


def _parsed(url: str, base: httpx2.URL | None = None) -> httpx2.URL:
    """Read an address, relative to another one; raises `ToolError` where it may not be opened."""
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
