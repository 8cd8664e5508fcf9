"""What a call of the browser does, as a ``web_search_call`` shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...conversation.messages import Message
from ...conversation.tool_namespaces import ToolNamespaceConfig
from ...tools.called_function import read_call
from ...tools.tool_error import ToolError

if TYPE_CHECKING:  # it needs the extra `tools`; whoever has such a session has it
    from ...tools.browser import BrowserSession, Page

__all__ = ["done_action", "found_sources", "planned_action"]


def planned_action(call: Message, session: BrowserSession | None) -> dict[str, Any]:
    """Say what a call asks for, as far as it can be read; `session` is as it was before it."""
    try:
        name, arguments = read_call(call, ToolNamespaceConfig.browser(), {"top_n": "topn"})
    except ToolError:
        name, arguments = (call.recipient or "").rpartition(".")[2], {}
    if name == "open":
        return {"type": "open_page", "url": _opened_url(arguments, session)}
    if name == "find":
        page = _page(session, arguments.get("cursor", -1))
        url = "" if page is None or session is None else _address(page, session)
        return {"type": "find_in_page", "url": url, "pattern": arguments.get("pattern", "")}
    query = arguments.get("query", "")
    return {"type": "search", "query": query, "queries": [query]}


def done_action(action: dict[str, Any], session: BrowserSession) -> dict[str, Any]:
    """Complete an action whose call succeeded: by now it is known which page was opened."""
    if action["type"] != "open_page":
        return action
    page = _page(session, -1)
    return action if page is None else {**action, "url": _address(page, session) or None}


def found_sources(action: dict[str, Any], session: BrowserSession) -> list[dict[str, Any]]:
    """List the pages that a search, which was the last call, has found."""
    page = _page(session, -1)
    if action["type"] != "search" or page is None or page.kind != "search":
        return []
    return [{"type": "url", "url": link.url} for link in page.links]


def _opened_url(arguments: dict[str, Any], session: BrowserSession | None) -> str | None:
    id = arguments.get("id", -1)
    if isinstance(id, str):
        return id
    page = _page(session, arguments.get("cursor", -1))
    if page is None or session is None:
        return None
    if id < 0:
        return _address(page, session) or None
    return page.links[id].url if id < len(page.links) else None


def _address(page: Page, session: BrowserSession) -> str:
    """Return the address of a page; that of `find` results is the page that was searched."""
    return page.url if page.found_in is None else session.pages[page.found_in].url


def _page(session: BrowserSession | None, cursor: int) -> Page | None:
    try:
        return None if session is None else session.page(cursor)
    except ToolError:
        return None
