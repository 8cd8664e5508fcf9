"""The interface of what searches, and its results as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .page import Link, Page
from .page_reading.clean_text import clean_line
from .page_reading.link_list import domain_of

__all__ = ["SearchBackend", "SearchResult", "search_page"]

_TITLE_LIMIT = 200  # characters
_SUMMARY_LIMIT = 1000  # characters


@dataclass(frozen=True)
class SearchResult:
    """A page that was found."""

    url: str
    title: str
    summary: str
    passage: str | None = None
    """A passage of the page, to the letter: the page is first shown there."""


class SearchBackend(Protocol):
    """Finds pages."""

    async def search(
        self, query: str, topn: int, source: str | None = None
    ) -> Sequence[SearchResult]:
        """Return at most `topn` results, the best first.

        `source` is what the model wrote as such; one that a backend does not know is ignored.
        Raises `ToolError` where the search cannot be done.
        """
        ...

    async def close(self) -> None:
        """Free what the backend holds."""
        ...


def search_page(query: str, results: Sequence[SearchResult]) -> Page:
    """Write results as a page, each with its link."""
    items = [
        f"  * 【{number}†{_title(result)}†{domain_of(result.url)}】 "
        f"{clean_line(result.summary, _SUMMARY_LIMIT)}".rstrip()
        for number, result in enumerate(results)
    ]
    shown = "\n".join(items) or "No results. Try other or fewer words."
    return Page(
        url="",
        title=clean_line(query, _TITLE_LIMIT),
        text=f"\nURL: \n# Search Results\n\n{shown}",
        links=tuple(
            Link(url=result.url, title=_title(result), passage=result.passage) for result in results
        ),
        kind="search",
    )


def _title(result: SearchResult) -> str:
    return clean_line(result.title or result.url, _TITLE_LIMIT).replace("†", "‡")
