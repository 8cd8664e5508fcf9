"""Exa."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .search_backend import SearchResult
from .search_service import SearchService

__all__ = ["Exa"]

_HIGHLIGHTS = 600  # characters for each result


class Exa(SearchService):
    """Asks the search API with a key; highlights of a page are its summary."""

    name = "Exa"

    def __init__(self, api_key: str, url: str = "https://api.exa.ai/search") -> None:
        super().__init__(url, {"x-api-key": api_key})

    def request(self, query: str, topn: int) -> dict[str, Any]:
        """Ask for results with highlights."""
        contents = {"highlights": {"maxCharacters": _HIGHLIGHTS}}
        return {
            "method": "POST",
            "json": {"query": query, "numResults": topn, "contents": contents},
        }

    def results(self, answer: Any) -> Sequence[SearchResult]:
        """Read the results; a page is first shown at its first highlight."""
        return [
            SearchResult(
                found["url"],
                found.get("title") or "",
                " … ".join(highlights) or found.get("summary") or "",
                highlights[0] if highlights else None,
            )
            for found in answer["results"]
            for highlights in [found.get("highlights") or []]
        ]
