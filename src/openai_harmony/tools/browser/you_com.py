"""You.com."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .search_backend import SearchResult
from .search_service import SearchService

__all__ = ["YouCom"]

_SNIPPETS = 2  # of each result


class YouCom(SearchService):
    """Asks the Search API with a key."""

    name = "You.com"

    def __init__(self, api_key: str, url: str = "https://ydc-index.io/v1/search") -> None:
        super().__init__(url, {"X-API-Key": api_key})

    def request(self, query: str, topn: int) -> dict[str, Any]:
        """Ask for so many results of each kind."""
        return {"method": "GET", "params": {"query": query, "count": topn}}

    def results(self, answer: Any) -> Sequence[SearchResult]:
        """Read the results of the web, and then the news."""
        kinds = answer["results"]
        return [
            SearchResult(
                found["url"],
                found.get("title") or "",
                " … ".join((found.get("snippets") or ())[:_SNIPPETS])
                or found.get("description")
                or "",
            )
            for kind in ("web", "news")
            for found in kinds.get(kind) or ()
        ]
