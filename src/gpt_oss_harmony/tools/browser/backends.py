"""Interfaces of the browser to search engines and sources of pages, and their results as pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from .page import Link, Page
from .page_reading import ReadPage
from .page_reading.characters import clean_line
from .page_reading.links import cut_text, domain_of

_TITLE_LIMIT = 200  # characters
_SUMMARY_LIMIT = 1000  # characters
_URL_LIMIT = 1024  # characters that are shown
_ADDRESS_LIMIT = 4_000  # characters; no longer address is opened
_PASSAGE_LIMIT = 2_000  # characters
_CUT = "\n\n[The document goes on; only its beginning was read.]"


@dataclass(frozen=True)
class SearchResult:
    """One result of a search."""

    url: str
    title: str
    summary: str
    passage: str | None = None
    """An exact passage of the page, at which its first view begins."""


class SearchBackend(Protocol):
    """Searches for pages."""

    async def search(
        self, query: str, topn: int, source: str | None = None
    ) -> Sequence[SearchResult]:
        """Return at most `topn` results, the best first.

        `source` is the argument of that name that the model wrote; backends ignore unknown ones.
        Raises `ToolError` if the search fails.
        """
        ...

    async def close(self) -> None:
        """Free the resources of the backend."""
        ...


def search_page(query: str, results: Sequence[SearchResult]) -> Page:
    """Make a page of search results, each with a link."""
    results = [result for result in results if len(result.url) <= _ADDRESS_LIMIT]
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
            Link(
                url=result.url,
                title=_title(result),
                passage=result.passage and result.passage[:_PASSAGE_LIMIT],
            )
            for result in results
        ),
        kind="search",
    )


def _title(result: SearchResult) -> str:
    return clean_line(result.title or result.url, _TITLE_LIMIT).replace("†", "‡")


class PageSource(Protocol):
    """Opens the pages whose addresses have certain schemes."""

    @property
    def schemes(self) -> Collection[str]:
        """The schemes, such as ``https``."""
        ...

    async def open(self, url: str, *, source: bool = False) -> Page:
        """Return the page at an address; its `source` is the text as it was written.

        Raises `ToolError` if there is none, or if it may not be opened.
        """
        ...

    async def close(self) -> None:
        """Free the resources of the source."""
        ...


def document_page(url: str, document: ReadPage, *, limit: int, source: bool = False) -> Page:
    """Make a page of a document; it begins with its address, as in the model's training.

    The text has at most `limit` characters, with the address.
    """
    shown = clean_line(url, _URL_LIMIT)
    title = f"Source of {shown}" if source else document.title or shown
    head, text, end = f"\nURL: {shown}\n", document.text.rstrip(), ""
    if document.cut or len(head) + len(text) > limit:
        end = _CUT
        text = cut_text(text, max(0, limit - len(head) - len(end)))
    return Page(
        url=url,
        title=title,
        text=head + text + end,
        links=tuple(Link(url=address) for address in document.links),
    )
