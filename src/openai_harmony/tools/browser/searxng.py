"""SearXNG, a search engine of engines that one can run oneself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .search_backend import SearchResult
from .search_service import SearchService, tagless

__all__ = ["SearXng"]


class SearXng(SearchService):
    """Asks the instance at `url`, whose settings must list ``json`` under ``search: formats``."""

    name = "SearXNG"

    def __init__(self, url: str) -> None:
        super().__init__(url.rstrip("/") + "/search")

    def request(self, query: str, topn: int) -> dict[str, Any]:
        """Ask for JSON; there is no number of results to ask for."""
        return {"method": "GET", "params": {"q": query, "format": "json"}}

    def results(self, answer: Any) -> Sequence[SearchResult]:
        """Read the results of all engines."""
        return [
            SearchResult(found["url"], tagless(found.get("title")), tagless(found.get("content")))
            for found in answer["results"]
        ]
