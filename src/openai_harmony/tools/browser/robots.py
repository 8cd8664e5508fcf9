"""Robots: what sites ask programs not to fetch (RFC 9309)."""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.robotparser import RobotFileParser

from ..tool_error import ToolError
from .expiring_cache import ExpiringCache
from .web_fetch import WebFetch

__all__ = ["Robots"]

_SIZE = 500 * 1024  # bytes of a file that are read, as the RFC says
_KEPT = 10_000_000  # bytes of files
_SECONDS = 3600  # for which they are kept
_FORBIDDING = "User-agent: *\nDisallow: /"


class Robots:
    """Asks each site once an hour.

    A site without such a file forbids nothing; one that fails to say whether it has one forbids
    everything, as the RFC says.
    """

    def __init__(self, web: WebFetch, agent: str) -> None:
        self._web = web
        self._agent = agent
        self._files = ExpiringCache[str](
            limit=_KEPT, seconds=_SECONDS, size=lambda file: len(file) + 100
        )

    async def permit(self, url: str) -> None:
        """Raise `ToolError` where the site of a page asks that it is not fetched."""
        parts = urlsplit(url)
        site = f"{parts.scheme}://{parts.netloc}"
        file = self._files.get(site)
        if file is None:
            file = await self._fetch(site)
            self._files.put(site, file)
        rules = RobotFileParser()
        rules.parse(file.splitlines())
        if not rules.can_fetch(self._agent, url):
            raise ToolError(f"{site}/robots.txt asks programs not to fetch {url}")

    async def _fetch(self, site: str) -> str:
        found = await self._web.fetch(f"{site}/robots.txt", most=_SIZE)
        if found.status >= 500:
            return _FORBIDDING
        return "" if found.status >= 400 else found.body.decode("utf-8", "replace")
