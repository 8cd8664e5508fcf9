"""A page of the browser: its text, its links, its numbered lines, and the view that the model gets.

A link is a mark in the text, ``【0†words†domain】``, with its number. Lines are wrapped at
80 columns, because the model counts and cites them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from itertools import islice, pairwise
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ... import HarmonyEncodingName, load_harmony_encoding
from ..tool import ToolError

# This and the next one are those of the browser of openai/gpt-oss, as is the form of a view.
WIDTH = 80
"""The most characters of a line."""

WINDOW = 1024
"""The most tokens of a view if the model does not request a number of lines."""

MOST_TOKENS = 8192
"""The most tokens of a view if it does."""

_URL_LIMIT = 1024  # characters
_MARK = re.compile(r"【(\d+)†([^【】†]*)(?:†[^【】]*)?】")
# Spaces, or a word; a hyphen between letters ends a piece of a word.
_PIECE = re.compile(r" +|(?:[^ -]|-(?![^\W\d_]{2})|(?<![^\W\d_]{2})-)+-?|-")


def line_spans(text: str, width: int = WIDTH) -> list[tuple[int, int]]:
    """Return the start and end of each line; lines omit only the line ends of the text.

    Lines break before and after spaces, which are kept, and within words that are too long.

    >>> [("one two-three"[a:b]) for a, b in line_spans("one two-three", width=8)]
    ['one two-', 'three']
    """
    spans = list[tuple[int, int]]()
    start = 0
    while True:
        end = text.find("\n", start)
        line_end = len(text) if end < 0 else end
        if line_end - start > width:
            for piece in _PIECE.finditer(text, start, line_end):
                if piece.end() - start > width >= len(piece[0]):
                    spans.append((start, piece.start()))
                    start = piece.start()
                while piece.end() - start > width:
                    spans.append((start, start + width))
                    start += width
        spans.append((start, line_end))
        if end < 0:
            return spans
        start = end + 1


class PlainText:
    """The text of a page with only the words of its links, and the origin of each character.

    >>> plain = PlainText("See 【0†the manual†example.com】.")
    >>> plain.text, plain.origin(4)
    ('See the manual.', 7)
    """

    def __init__(self, text: str) -> None:
        self._origins = list[int]()  # the start in the text of each piece that is kept
        self._starts = list[int]()  # its start in the plain text
        self._links = list[tuple[int, int]]()  # the start of each mark, and its number
        pieces, length, done = list[str](), 0, 0
        for mark in _MARK.finditer(text):
            self._links.append((mark.start(), int(mark[1])))
            for start, end in ((done, mark.start()), mark.span(2)):
                length += self._keep(start, end, length)
                pieces.append(text[start:end])
            done = mark.end()
        self._keep(done, len(text), length)
        self.text = "".join((*pieces, text[done:]))

    def _keep(self, start: int, end: int, plain_start: int) -> int:
        if end > start:
            self._origins.append(start)
            self._starts.append(plain_start)
        return end - start

    def origin(self, offset: int) -> int:
        """Return the offset in the text of the character at `offset` of the plain text."""
        piece = bisect_right(self._starts, offset) - 1
        return self._origins[piece] + offset - self._starts[piece]

    def between(self, start: int, end: int) -> str:
        """Return the plain text between two offsets of the text."""
        return self.text[self._plain_offset(start) : self._plain_offset(end)]

    def links_between(self, start: int, end: int) -> list[int]:
        """Return the numbers of the links whose marks begin between two offsets of the text."""
        return [number for offset, number in self._links if start <= offset < end]

    def _plain_offset(self, offset: int) -> int:
        """Return the plain offset of the first plain character at `offset` of the text or after."""
        piece = bisect_right(self._origins, offset) - 1
        if piece < 0:
            return 0
        last = piece + 1 == len(self._starts)
        most = len(self.text) if last else self._starts[piece + 1]
        return min(self._starts[piece] + offset - self._origins[piece], most)


class Link(BaseModel):
    """The target of a link."""

    model_config = ConfigDict(frozen=True)

    url: str
    title: str = ""
    """The title of the target, if it is known."""

    passage: str | None = None
    """Text of the target, at which its first view begins."""

    line: int | None = None
    """The line of a page that is already open; `url` is then the address of that page."""


class Page(BaseModel):
    """A page as the model reads it; brackets in its text belong only to its links.

    >>> page = Page(url="https://example.com/", title="Example", text="One\\nTwo")
    >>> page.lines
    ['One', 'Two']
    """

    model_config = ConfigDict(frozen=True)

    url: str
    """The address; empty for a page of search results."""

    title: str
    text: str
    links: tuple[Link, ...] = ()
    """The links, by their numbers in the text."""

    kind: Literal["document", "search", "find"] = "document"
    found_in: int | None = None
    """The index of the searched page in the session, if this page has the results of a `find`."""

    forgotten: bool = False
    """True if text and links were dropped because the session grew too large."""

    @property
    def size(self) -> int:
        """The number of characters of its text and its links."""
        links = (len(link.url) + len(link.title) + len(link.passage or "") for link in self.links)
        return len(self.text) + sum(links)

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
        """Return the line that contains the character at `offset` of the text."""
        # No span ends there, so the pair comes after the line that begins at the offset.
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


def write_view(page: Page, cursor: int, first: int, count: int = -1) -> str:
    """Show a page from line `first` on: `count` lines, or as many as fit if that is not positive.

    Raises `ToolError` if there is no such line.
    """
    last = len(page.lines) - 1
    if first > last:
        raise ToolError(f"there is no line {first}; the last line of the page is {last}")
    end = window_end(page, first, count)
    address = f" ({page.url[:_URL_LIMIT]})" if page.url else ""
    return (
        f"[{cursor}] {page.title}{address}\n"
        f"**viewing lines [{first} - {end - 1}] of {last}**\n\n{_body(page, first, end)}"
    )


def window_end(page: Page, first: int, count: int = -1) -> int:
    """Return the line after the last one of a view; a view has at least one line."""
    encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    limit = MOST_TOKENS if count > 0 else WINDOW
    end, tokens = first, 0
    for line in islice(page.lines, first, first + count if count > 0 else None):
        tokens += len(encoding.encode(f"L{end}: {line}\n", disallowed_special=()))
        if tokens > limit and end > first:
            break
        end += 1
    while end > first + 1 and (
        len(encoding.encode(_body(page, first, end), disallowed_special=())) > limit
    ):
        end -= 1  # joined lines may have more tokens than single ones
    return end


def _body(page: Page, first: int, end: int) -> str:
    return "\n".join(f"L{line}: {page.lines[line]}" for line in range(first, end))
