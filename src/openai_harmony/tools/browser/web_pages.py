"""Pages of the web."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

from ... import __version__
from ..tool_error import ToolError
from .addresses import AddressRules
from .expiring_cache import ExpiringCache
from .page import Page
from .page_source import document_page
from .pinned_network import Resolve, resolve
from .reading_process import ReadingProcesses
from .robots import Robots
from .web_fetch import Fetched, WebFetch

__all__ = ["WebLimits", "WebPages"]

_AGENT = "HarmonyBrowser"


@dataclass(frozen=True)
class WebLimits:
    """What opening a page may take."""

    seconds: float = 30
    """For a page to come, with all redirects."""

    patience: float = 10
    """Seconds for a connection, and between two pieces of an answer."""

    size: int = 16 << 20
    """Bytes of a document, decompressed; what is beyond is not fetched."""

    characters: int = 1_000_000
    """Text of a page; what is beyond is left out."""

    reading_seconds: int = 20
    """For a document that has come to become text."""

    reading_memory: int = 1 << 30
    """Bytes that this may take."""

    at_once: int = 4
    """Documents that become text at the same time."""

    cache: int = 64_000_000
    """Characters of pages that are kept for others that ask for them; 0 keeps none."""

    cache_seconds: float = 300
    """For how long."""


class WebPages:
    """Opens pages with http:// and https://, each at an address that `rules` allow.

    `robots` is whether robots.txt is heeded; `ssl_context` decides about certificates, which are
    otherwise checked as the system does it. `resolve` finds the addresses of a host.
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
        self._robots = Robots(self._web, user_agent.partition("/")[0]) if robots else None
        self._reader = ReadingProcesses(
            seconds=limits.reading_seconds, memory=limits.reading_memory, at_once=limits.at_once
        )
        self._pages = ExpiringCache[Page](
            limit=limits.cache,
            seconds=limits.cache_seconds,
            size=lambda page: len(page.text) + sum(len(link.url) for link in page.links),
        )

    async def open(self, url: str, *, source: bool = False) -> Page:
        """Fetch and read a page, or its `source`; raises `ToolError` where that fails."""
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
            found = await asyncio.wait_for(self._fetch(url), limits.seconds)
        except asyncio.TimeoutError:
            raise ToolError(f"{url} takes longer than {limits.seconds:g} seconds to come") from None
        if found.status >= 400:
            raise ToolError(f"{found.url} answers with the error {found.status}")
        document = await self._reader.read(
            found.body,
            content_type=found.content_type,
            address=found.url,
            limit=limits.characters,
            source=source,
            cut=found.cut,
        )
        return document_page(found.url, document, source=source)

    async def _fetch(self, url: str) -> Fetched:
        if self._robots is None:
            return await self._web.fetch(url, most=self._limits.size)
        return await self._web.fetch(url, most=self._limits.size, permit=self._robots.permit)
