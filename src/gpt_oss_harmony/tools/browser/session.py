"""The state of the browser in one conversation: the pages that were shown, in order."""

from __future__ import annotations

from pydantic import BaseModel, Field, model_validator

from ..tool import ToolError
from .page import Page

_CHARACTERS = 4_000_000
"""The most characters of texts and links in a session; then the oldest pages are forgotten."""


class BrowserSession(BaseModel):
    """A stack of views of pages; the index of a view in the stack is its cursor.

    Several views of a page, such as further down, share one stored page.

    >>> session = BrowserSession()
    >>> session.show(Page(url="https://example.com/", title="Example", text="Hi"))
    0
    >>> BrowserSession.from_json(session.to_json()).page(0).title
    'Example'
    """

    pages: list[Page] = Field(default_factory=list)
    views: list[int] = Field(default_factory=list)
    """The index in `pages` of the page of each cursor."""

    @model_validator(mode="after")
    def _check(self) -> BrowserSession:
        referenced = [*self.views, *(page.found_in or 0 for page in self.pages)]
        if not all(index in range(len(self.pages)) for index in referenced):
            raise ValueError("a view is of a page that is not there")
        return self

    def to_json(self) -> str:
        """Return the session as JSON text."""
        return self.model_dump_json(exclude_defaults=True)

    @classmethod
    def from_json(cls, stored: str) -> BrowserSession:
        """Read the JSON text of a session; raises `ValueError` if it is invalid."""
        return cls.model_validate_json(stored)

    def page_index(self, cursor: int = -1) -> int:
        """Return the index of the page at a cursor; a negative cursor means the last view.

        Raises `ToolError` if there is no such page, or if it was forgotten.
        """
        last = len(self.views) - 1
        if last < 0:
            raise ToolError("no page is open yet; use `browser.search`, or open a URL")
        if cursor > last:
            raise ToolError(f"there is no page at cursor {cursor}; the cursors are 0 to {last}")
        index = self.views[cursor if cursor >= 0 else last]
        if self.pages[index].forgotten:
            raise ToolError(
                f"the page at cursor {cursor} is no longer kept; open it again by its URL, "
                f"{self.pages[index].url}"
            )
        return index

    def page(self, cursor: int = -1) -> Page:
        """Return the page at a cursor; raises `ToolError` as `page_index` does."""
        return self.pages[self.page_index(cursor)]

    def show(self, page: Page) -> int:
        """Add a view of a page, and the page if it is new; return the cursor."""
        if page in self.pages:
            return self.show_again(self.pages.index(page))
        self.pages.append(page)
        size = sum(stored.size for stored in self.pages)
        for index, oldest in enumerate(self.pages[:-1]):
            if size <= _CHARACTERS:
                break
            size -= oldest.size
            emptied = {"text": "", "links": (), "forgotten": True}
            self.pages[index] = oldest.model_copy(update=emptied)
        return self.show_again(len(self.pages) - 1)

    def show_again(self, index: int) -> int:
        """Add a view of the stored page at `index`; return the cursor."""
        self.views.append(index)
        return len(self.views) - 1
