"""Brave Search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .search_backend import SearchResult
from .search_service import SearchService, tagless

__all__ = ["Brave"]

_MOST_RESULTS = 20
_MOST_CHARACTERS = 400
_MOST_WORDS = 50


class Brave(SearchService):
    """Asks the Web Search API with a subscription token."""

    name = "Brave Search"

    def __init__(
        self, api_key: str, url: str = "https://api.search.brave.com/res/v1/web/search"
    ) -> None:
        super().__init__(url, {"X-Subscription-Token": api_key, "Accept": "application/json"})

    def request(self, query: str, topn: int) -> dict[str, Any]:
        """Ask within the API's limits: 400 characters and 50 words, 20 results."""
        words = " ".join(query.split()[:_MOST_WORDS])[:_MOST_CHARACTERS]
        params = {"q": words, "count": min(topn, _MOST_RESULTS), "text_decorations": "false"}
        return {"method": "GET", "params": params}

    def results(self, answer: Any) -> Sequence[SearchResult]:
        """Read the results of the web; an answer without them has none."""
        return [
            SearchResult(
                found["url"],
                tagless(found.get("title")),
                " … ".join(
                    tagless(text)
                    for text in (found.get("description"), *(found.get("extra_snippets") or ())[:2])
                    if text
                ),
            )
            for found in (answer.get("web") or {}).get("results") or ()
        ]
