"""The built-in tool `browser`: search, open, find."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from ...conversation.messages import Message
from ...conversation.tool_namespaces import ToolNamespaceConfig
from ..tool import Tool, ToolError
from ..tool_call import read_call
from ..tool_message import ToolMessage, failure_message, tool_message
from .backends import PageSource, SearchBackend, search_page
from .find_in_page import find_in_page, line_of_passage
from .page import Link, Page, write_view
from .session import BrowserSession

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
