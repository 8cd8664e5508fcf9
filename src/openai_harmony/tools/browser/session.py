"""The browser's state in one conversation: the pages that were shown, in order."""

from __future__ import annotations

from pydantic import BaseModel, Field, model_validator

from ..tool_error import ToolError
from .page import Page

__all__ = ["BrowserSession"]

_CHARACTERS = 4_000_000
"""Text that a session keeps; beyond that, the pages opened first are forgotten."""


class BrowserSession(BaseModel):
    """A stack of views: each is of one page, and its place in the stack is its cursor.

    A page that is shown again, further down, is stored once.

    >>> session = BrowserSession()
    >>> session.show(Page(url="https://example.com/", title="Example", text="Hi"))
    0
    >>> BrowserSession.from_json(session.to_json()).page(0).title
    'Example'
    """

    pages: list[Page] = Field(default_factory=list)
    views: list[int] = Field(default_factory=list)
    """For each cursor, the place of its page in `pages`."""

    @model_validator(mode="after")
    def _check(self) -> BrowserSession:
        places = range(len(self.pages))
        named = [*self.views, *(page.found_in or 0 for page in self.pages)]
        if not all(place in places for place in named):
            raise ValueError("a view is of a page that is not there")
        return self

    def to_json(self) -> str:
        """Return the session as JSON text."""
        return self.model_dump_json(exclude_defaults=True)

    @classmethod
    def from_json(cls, stored: str) -> BrowserSession:
        """Read the JSON text of a session; raises `ValueError` where it is none."""
        return cls.model_validate_json(stored)

    def place(self, cursor: int = -1) -> int:
        """Return the place in `pages` of the page at a cursor; a negative one means the last.

        Raises `ToolError` where there is no such page, or no longer.
        """
        last = len(self.views) - 1
        if last < 0:
            raise ToolError("no page is open yet; use `browser.search`, or open a URL")
        if cursor > last:
            raise ToolError(f"there is no page at cursor {cursor}; the cursors are 0 to {last}")
        place = self.views[cursor if cursor >= 0 else last]
        if self.pages[place].forgotten:
            raise ToolError(
                f"the page at cursor {cursor} is no longer kept; open it again by its URL, "
                f"{self.pages[place].url}"
            )
        return place

    def page(self, cursor: int = -1) -> Page:
        """Return the page at a cursor; raises `ToolError` as `place` does."""
        return self.pages[self.place(cursor)]

    def show(self, page: Page) -> int:
        """Add a view of a page, and the page if it is not there; return the cursor."""
        for place, known in enumerate(self.pages):
            if known == page:
                return self.show_again(place)
        self.pages.append(page)
        self._forget()
        return self.show_again(len(self.pages) - 1)

    def show_again(self, place: int) -> int:
        """Add another view of a page that is there; return the cursor."""
        self.views.append(place)
        return len(self.views) - 1

    def _forget(self) -> None:
        size = sum(len(page.text) for page in self.pages)
        for place, page in enumerate(self.pages[:-1]):
            if size <= _CHARACTERS:
                return
            size -= len(page.text)
            self.pages[place] = page.model_copy(update={"text": "", "links": (), "forgotten": True})
