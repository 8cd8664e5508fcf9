"""The interface of what opens pages, and a document that was read as a page."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from .page import Link, Page
from .page_reading import ReadPage
from .page_reading.clean_text import clean_line

__all__ = ["PageSource", "document_page"]

_URL_LIMIT = 1024  # characters
_CUT = "\n\n[The document goes on; only its beginning was read.]"


class PageSource(Protocol):
    """Opens the pages whose addresses have certain schemes."""

    @property
    def schemes(self) -> Collection[str]:
        """The schemes, such as ``https``."""
        ...

    async def open(self, url: str, *, source: bool = False) -> Page:
        """Return the page at an address; its `source` is the text as it was written.

        Raises `ToolError` where there is none, or none that may be opened.
        """
        ...

    async def close(self) -> None:
        """Free what the source holds."""
        ...


def document_page(url: str, document: ReadPage, *, source: bool = False) -> Page:
    """Make a page of a document; it begins with its address, as the model knows pages."""
    shown = clean_line(url, _URL_LIMIT)
    title = f"Source of {shown}" if source else document.title or shown
    return Page(
        url=url,
        title=title,
        text=f"\nURL: {shown}\n{document.text.rstrip()}{_CUT if document.cut else ''}",
        links=tuple(Link(url=address) for address in document.links),
    )
