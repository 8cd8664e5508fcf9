"""Pages of the browser: their text, their links, their lines."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import pairwise
from typing import Literal

from pydantic import BaseModel, ConfigDict

from .line_wrapping import line_spans
from .plain_text import PlainText

__all__ = ["Link", "Page"]


class Link(BaseModel):
    """Where a link of a page leads."""

    model_config = ConfigDict(frozen=True)

    url: str
    title: str = ""
    """The title of the page it leads to, where it is known."""

    passage: str | None = None
    """Text of the page it leads to, at which that page is shown first."""

    line: int | None = None
    """The line of a page that is open already; `url` is then the address of that page."""


class Page(BaseModel):
    """A page as the model reads it; brackets in its text are those of its links alone.

    >>> page = Page(url="https://example.com/", title="Example", text="One\\nTwo")
    >>> page.lines
    ['One', 'Two']
    """

    model_config = ConfigDict(frozen=True)

    url: str
    """The address, empty for a page of search results."""

    title: str
    text: str
    links: tuple[Link, ...] = ()
    """The links, each at its number in the text."""

    kind: Literal["document", "search", "find"] = "document"
    found_in: int | None = None
    """For the results of a `find`: the place of the page that was searched, in the session."""

    forgotten: bool = False
    """Whether text and links were dropped, since the session grew too large."""

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        return line_spans(self.text)

    @cached_property
    def lines(self) -> list[str]:
        """The lines, wrapped at 80 columns; there is always one."""
        return [self.text[start:end] for start, end in self._spans]

    @cached_property
    def plain(self) -> PlainText:
        """The text without the marks of links."""
        return PlainText(self.text)

    def line_at(self, offset: int) -> int:
        """Return the line that holds the character at `offset` of the text."""
        return max(0, bisect_right(self._spans, (offset, len(self.text) + 1)) - 1)

    def plain_lines(self, first: int, last: int) -> list[str]:
        """Return the lines from `first` to `last`, both included, without the marks of links."""
        starts = [start for start, _ in self._spans[first : last + 2]]
        if last + 1 >= len(self._spans):
            starts.append(len(self.text))
        return [self.plain.between(start, end).rstrip("\n") for start, end in pairwise(starts)]

    def links_in(self, first: int, last: int) -> list[int]:
        """Return the numbers of the links whose marks begin in the lines `first` to `last`."""
        return self.plain.links_between(self._spans[first][0], self._spans[last][1])
