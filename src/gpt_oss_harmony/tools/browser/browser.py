"""The built-in tool `browser`: search, open, find; the pages that a conversation has seen."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from itertools import accumulate
from urllib.parse import quote

from pydantic import BaseModel, Field, model_validator

from ...conversation.messages import Message
from ...conversation.tool_namespaces import ToolNamespaceConfig
from ..tool import Tool, ToolError, ToolMessage, failure_message, tool_message
from ..tool_call import read_call
from .backends import PageSource, SearchBackend, search_page
from .page import Link, Page, PlainText, write_view
from .page_reading.characters import clean_line, clean_text

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


# Finding text in a page

# As in the browser of openai/gpt-oss: so many results, and so many lines of each.
_RESULTS = 50
_LINES = 4  # that each result shows
_PATTERN_LIMIT = 500  # characters
_PASSAGE_WORDS = 30  # that identify a passage


def find_in_page(page: Page, index: int, pattern: str) -> Page:
    """Return the matches of `pattern` as a page of results, each with a link to its line.

    `index` is the index of the page in the session. Case, line ends and marks of links do not
    matter. Raises `ToolError` for a pattern without words.
    """
    words = clean_text(PlainText(pattern).text).split()
    if not words:
        raise ToolError("`pattern` is empty; give the text to look for")
    if len(pattern) > _PATTERN_LIMIT:
        raise ToolError(f"`pattern` is longer than {_PATTERN_LIMIT} characters; look for less")
    shown = clean_line(pattern, _PATTERN_LIMIT)
    lines = list[int]()
    for line in _lines_with(page, words):
        if not lines or line >= lines[-1] + _LINES:  # else the result before shows it
            lines.append(line)
        if len(lines) == _RESULTS:
            break
    results = list[str]()
    for number, line in enumerate(lines):
        last = min(line + _LINES, len(page.lines)) - 1
        snippet = "\n".join(page.plain_lines(line, last))
        results.append(f"# 【{number}†match at L{line}】\n{snippet}")
    return Page(
        url=f"{page.url}/find?pattern={quote(shown)}",
        title=f"Find results for text: `{shown}` in `{page.title}`",
        text="\n\n".join(results) or f"No `find` results for pattern: `{shown}`",
        links=tuple(Link(url=page.url, line=line) for line in lines),
        kind="find",
        found_in=index,
    )


def line_of_passage(page: Page, passage: str) -> int | None:
    """Return the line in which a passage of the page begins; None if it is not found."""
    words = clean_text(passage).split()[:_PASSAGE_WORDS]
    return next(_lines_with(page, words), None) if words else None


def _lines_with(page: Page, words: list[str]) -> Iterator[int]:
    """Yield the line of each occurrence of the words in this order."""
    folded = _FoldedText(page.plain.text)
    pattern = _FoldedText(" ".join(words)).text
    offset = folded.text.find(pattern)
    while offset >= 0:
        yield page.line_at(page.plain.origin(folded.origin(offset)))
        offset = folded.text.find(pattern, offset + len(pattern))


class _FoldedText:
    """A text in lower case with single spaces, and the origin of each of its characters.

    Searching it takes linear time; a regular expression that allows any spaces would not.
    """

    def __init__(self, text: str) -> None:
        lower = text.replace("İ", "I").lower()  # the only character with a longer lower case
        words = [(word.start(), word[0]) for word in re.finditer(r"\S+", lower)]
        self.text = " ".join(word for _, word in words)
        self._origins = [start for start, _ in words]
        self._starts = list(accumulate((len(word) + 1 for _, word in words), initial=0))[:-1]

    def origin(self, offset: int) -> int:
        """Return the offset in the original text of the character at `offset`."""
        word = bisect_right(self._starts, offset) - 1
        return self._origins[word] + offset - self._starts[word]


# The tool

# The browser of openai/gpt-oss asks for so many, whatever the model writes.
_MOST_RESULTS = 20
_QUERY_LIMIT = 1000  # characters
_ABOVE = 4  # lines that a view shows before a passage
_SOURCE = "view-source:"


class Browser(Tool[BrowserSession]):
    """The tool: it searches with one backend, and opens pages from the source for their scheme.

    A call that fails does not change the session.
    """

    def __init__(self, search: SearchBackend, pages: Sequence[PageSource]) -> None:
        self._backend = search
        self._sources = {scheme: source for source in pages for scheme in source.schemes}
        self._functions: dict[str, Callable[..., Awaitable[str]]] = {
            "search": self._search,
            "open": self._open,
            "find": self._find,
        }

    @property
    def namespace(self) -> ToolNamespaceConfig:
        """The declaration that the models were trained with."""
        return ToolNamespaceConfig.browser()

    def new_session(self) -> BrowserSession:
        """Begin a conversation, without pages."""
        return BrowserSession()

    def load_session(self, stored: str) -> BrowserSession:
        """Read the JSON of a session; raises `ValueError` if it is invalid."""
        return BrowserSession.from_json(stored)

    async def call(self, message: Message, session: BrowserSession) -> AsyncIterator[ToolMessage]:
        """Run the call of a message; yield one message with a view of a page, or an error."""
        try:
            # The browser of openai/gpt-oss takes both names.
            name, arguments = read_call(message, self.namespace, {"top_n": "topn"})
            response = tool_message(message, await self._functions[name](session, **arguments))
        except ToolError as error:
            response = failure_message(message, error)
        yield response

    async def close(self) -> None:
        """Close the backend and the sources."""
        parts: list[SearchBackend | PageSource] = [self._backend, *self._sources.values()]
        for part in {id(part): part for part in parts}.values():  # one may be both
            await part.close()

    async def _search(
        self, session: BrowserSession, query: str, topn: int, source: str | None = None
    ) -> str:
        if not query.strip():
            raise ToolError("`query` is empty; say what to search for")
        if len(query) > _QUERY_LIMIT:
            raise ToolError(f"`query` is longer than {_QUERY_LIMIT} characters; use fewer words")
        most = min(max(topn, 1), _MOST_RESULTS)
        results = await self._backend.search(query.strip(), most, source)
        return self._show(session, search_page(query, results[:most]))

    async def _find(self, session: BrowserSession, pattern: str, cursor: int) -> str:
        index = _document_index(session, cursor)
        return self._show(session, find_in_page(session.pages[index], index, pattern))

    async def _open(
        self,
        session: BrowserSession,
        id: int | str,
        cursor: int,
        loc: int,
        num_lines: int,
        view_source: bool,
        source: str | None = None,
    ) -> str:
        link: Link | None
        if isinstance(id, str):
            link = Link(url=id.strip())
        else:
            link = _link(session.page(cursor), id, cursor) if id >= 0 else None
        if link is None and not view_source:
            return self._show_again(session, session.page_index(cursor), max(loc, 0), num_lines)
        if link is not None and link.line is not None and not view_source:
            first = loc if loc >= 0 else max(link.line - _ABOVE, 0)
            return self._show_again(session, _document_index(session, cursor), first, num_lines)
        if link is None:
            shown = session.pages[_document_index(session, cursor)]
            if shown.kind == "search":
                raise ToolError("search results have no source; open one of them with its `id`")
            link = Link(url=shown.url)
        page = await self._page(link.url, view_source=view_source)
        line = None if link.passage is None else line_of_passage(page, link.passage)
        first = loc if loc >= 0 else max((line or 0) - _ABOVE, 0)
        return self._show(session, page, first, num_lines)

    async def _page(self, url: str, *, view_source: bool) -> Page:
        if url.lower().startswith(_SOURCE):
            url, view_source = url[len(_SOURCE) :], True
        scheme, colon, _ = url.partition("://")
        source = self._sources.get(scheme.lower())
        if source is None:
            schemes = ", ".join(f"{scheme}://" for scheme in self._sources) or "nothing"
            hint = "" if colon else "; a URL is written in full"
            raise ToolError(f"cannot open `{url[:200]}`: this browser opens {schemes}{hint}")
        return await source.open(url, source=view_source)

    def _show(
        self, session: BrowserSession, page: Page, first: int = 0, num_lines: int = -1
    ) -> str:
        # It may fail, and the session must then stay as it is.
        view = write_view(page, len(session.views), first, num_lines)
        session.show(page)
        return view

    def _show_again(self, session: BrowserSession, index: int, first: int, num_lines: int) -> str:
        view = write_view(session.pages[index], len(session.views), first, num_lines)
        session.show_again(index)
        return view


def _link(page: Page, number: int, cursor: int) -> Link:
    if number < len(page.links):
        return page.links[number]
    where = "the most recent page" if cursor < 0 else f"the page at cursor {cursor}"
    links = f"its links are 0 to {len(page.links) - 1}" if page.links else "it has no links"
    raise ToolError(f"there is no link {number} on {where}; {links}")


def _document_index(session: BrowserSession, cursor: int) -> int:
    """Return the index of the page at a cursor; for `find` results, of the searched page."""
    index = session.page_index(cursor)
    found_in = session.pages[index].found_in
    if found_in is None:
        return index
    if session.pages[found_in].forgotten:
        raise ToolError(
            f"the page is no longer kept; open it again by its URL, {session.pages[found_in].url}"
        )
    return found_in
