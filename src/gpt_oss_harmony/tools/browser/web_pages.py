"""Pages of the web: opened with respect for robots.txt, read in processes of their own, cached."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import anyio

from ... import __version__
from ...rendering.cache import BoundedCache
from ..tool import ToolError
from .addresses import AddressRules
from .backends import document_page
from .page import Page
from .page_reading import ReadPage
from .robots import RobotsRule, may_fetch, robots_rules
from .web_fetch import Resolve, WebFetch, resolve

_AGENT = "HarmonyBrowser"
_ROBOTS_SIZE = 500 * 1024  # bytes of a file that are read; RFC 9309 demands this
_ROBOTS_CACHE = 10_000_000  # bytes of all rules in the cache
_ROBOTS_SECONDS = 3600  # that they stay in the cache
_FEWEST_CHARACTERS = 2_000  # of a page: its address alone can have a thousand
_FORBIDDING = [RobotsRule("/", is_allowed=False)]

# Isolated: the current folder and the environment cannot change what is imported. `page_reading` is
# imported by the paths of this process, without its parents, which are slow to import.
_PROGRAM = (
    "import runpy, sys; sys.path += sys.argv[1:]; "
    "runpy.run_module('page_reading', run_name='__main__', alter_sys=True)"
)

_Value = TypeVar("_Value")


class ExpiringCache(Generic[_Value]):
    """A cache that keeps values for `seconds` and evicts some if they no longer fit.

    `limit` is the most that the values may have of `size` together; 0 stores nothing.

    >>> cache = ExpiringCache[str](limit=100, seconds=60, size=len)
    >>> cache.put("a", "value"); cache.get("a")
    'value'
    """

    def __init__(self, *, limit: int, seconds: float, size: Callable[[_Value], int]) -> None:
        self._seconds = seconds
        self._values = BoundedCache[str, tuple[float, _Value]](limit, lambda entry: size(entry[1]))

    def get(self, key: str) -> _Value | None:
        """Return a value; None if there is none, or if it has expired."""
        entry = self._values.get(key)
        if entry is None or time.monotonic() - entry[0] > self._seconds:
            return None
        return entry[1]

    def put(self, key: str, value: _Value) -> None:
        """Store a value, unless it is too large."""
        self._values.put(key, (time.monotonic(), value))


class Robots:
    """Obeys robots.txt (RFC 9309); it fetches the file of each site once an hour.

    A site without the file allows everything. A site that fails to serve it forbids everything, as
    the RFC demands.
    """

    def __init__(self, web: WebFetch, agent: str) -> None:
        self._web = web
        self._agent = agent
        self._sites = ExpiringCache[list[RobotsRule]](
            limit=_ROBOTS_CACHE,
            seconds=_ROBOTS_SECONDS,
            size=lambda rules: 200 + sum(200 + len(rule.pattern) for rule in rules),
        )

    async def permit(self, url: str) -> None:
        """Raise `ToolError` if the site of a page asks programs not to fetch it."""
        parts = urlsplit(url)
        site = f"{parts.scheme}://{parts.netloc}"
        rules = self._sites.get(site)
        if rules is None:
            response = await self._web.fetch(f"{site}/robots.txt", most=_ROBOTS_SIZE)
            if response.status >= 500:
                rules = _FORBIDDING
            else:
                rules = [] if response.status >= 400 else robots_rules(response.body, self._agent)
            self._sites.put(site, rules)
        if not may_fetch(rules, url):
            raise ToolError(f"{site}/robots.txt asks programs not to fetch {url}")


class ReadingProcesses:
    """Reads each document in a process of its own, at most `at_once` at the same time.

    `seconds` limits the time of a process, `memory` the bytes of its address space.
    """

    def __init__(self, *, seconds: int, memory: int, at_once: int) -> None:
        self._seconds = seconds
        self._memory = memory
        self._slots = asyncio.Semaphore(at_once)

    async def read(
        self, body: bytes, *, content_type: str, address: str, limit: int, source: bool, cut: bool
    ) -> ReadPage:
        """Read a document as `read_body` does; all errors are `ToolError`."""
        request = {
            "content_type": content_type,
            "address": address,
            "limit": limit,
            "source": source,
            "cut": cut,
            "seconds": self._seconds,
            "memory": self._memory,
        }
        async with self._slots:
            response = await self._run(json.dumps(request).encode() + b"\n" + body, address)
        if "error" in response:
            raise ToolError(f"cannot show {address}: {response['error']}")
        return ReadPage(**response["page"])

    async def _run(self, request: bytes, address: str) -> dict[str, Any]:
        # The empty path is the current folder.
        paths = [path for path in sys.path if path]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-c", _PROGRAM, *paths, str(Path(__file__).parent)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env={},
        )
        try:
            with anyio.fail_after(self._seconds):
                output, _ = await process.communicate(request)
        except TimeoutError:
            raise ToolError(
                f"cannot show {address}: reading it takes longer than {self._seconds} seconds"
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        # At its limits of processor time and memory, it ends in this way.
        if process.returncode != 0:
            raise ToolError(f"cannot show {address}: it takes too long to read, or is too large")
        response: dict[str, Any] = json.loads(output)
        return response


@dataclass(frozen=True)
class WebLimits:
    """The limits of opening a page."""

    seconds: float = 30
    """Time to fetch a page, with all redirects."""

    patience: float = 10
    """Seconds for a connection, and between two pieces of a response."""

    size: int = 16 << 20
    """The most bytes of a document, decompressed; the rest is not fetched."""

    characters: int = 1_000_000
    """The most characters of a page's text, and of the addresses of its links; at least 2,000."""

    reading_seconds: int = 20
    """Time to turn a fetched document into text."""

    reading_memory: int = 1 << 30
    """The most bytes of memory for this."""

    at_once: int = 4
    """Documents that are turned into text at the same time."""

    cache: int = 64_000_000
    """The most characters of cached pages, which all conversations share; 0 disables the cache."""

    cache_seconds: float = 300
    """Time that pages stay in the cache."""

    def __post_init__(self) -> None:
        if self.characters < _FEWEST_CHARACTERS:
            raise ValueError(f"characters must be {_FEWEST_CHARACTERS:,} or more")


class WebPages:
    """Opens pages with http:// and https://, only at addresses that `rules` allow.

    `robots` says whether to obey robots.txt. `ssl_context` checks certificates, by default as the
    system does. `resolve` returns the addresses of a host.
    """

    schemes = ("http", "https")

    def __init__(
        self,
        *,
        rules: AddressRules | None = None,
        limits: WebLimits | None = None,
        robots: bool = True,
        user_agent: str = f"{_AGENT}/{__version__}",
        ssl_context: ssl.SSLContext | None = None,
        resolve: Resolve = resolve,
    ) -> None:
        self._limits = limits = limits or WebLimits()
        self._web = WebFetch(
            user_agent=user_agent,
            rules=rules or AddressRules(),
            patience=limits.patience,
            resolve=resolve,
            ssl_context=ssl_context,
        )
        self._robots = Robots(self._web, user_agent) if robots else None
        self._reader = ReadingProcesses(
            seconds=limits.reading_seconds, memory=limits.reading_memory, at_once=limits.at_once
        )
        self._pages = ExpiringCache[Page](
            limit=limits.cache,
            seconds=limits.cache_seconds,
            size=lambda page: page.size,
        )

    async def open(self, url: str, *, source: bool = False) -> Page:
        """Fetch and read a page, or its `source`; raises `ToolError` if that fails."""
        key = f"{source} {url}"
        page = self._pages.get(key)
        if page is None:
            page = await self._open(url, source)
            self._pages.put(key, page)
        return page

    async def close(self) -> None:
        """Do nothing: no connection or process outlives the call that made it."""

    async def _open(self, url: str, source: bool) -> Page:
        limits = self._limits
        try:
            permit = None if self._robots is None else self._robots.permit
            with anyio.fail_after(limits.seconds):
                fetched = await self._web.fetch(url, most=limits.size, permit=permit)
        except TimeoutError:
            raise ToolError(f"{url} takes longer than {limits.seconds:g} seconds to come") from None
        if fetched.status >= 400:
            raise ToolError(f"{fetched.url} answers with the error {fetched.status}")
        document = await self._reader.read(
            fetched.body,
            content_type=fetched.content_type,
            address=fetched.url,
            limit=limits.characters,
            source=source,
            cut=fetched.cut,
        )
        return document_page(fetched.url, document, limit=limits.characters, source=source)
