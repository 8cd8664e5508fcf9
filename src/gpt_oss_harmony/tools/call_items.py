"""What the items of calls of the server's tools contain: web searches, code, and MCP calls.

`CALL_FIELDS` has the functions for each built-in tool. All else about their items is in `CallItem`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ..conversation.built_in_tools import is_built_in
from ..conversation.messages import Message
from ..conversation.tool_namespaces import ToolNamespaceConfig
from .tool import ToolError, ToolMessage, ToolSession
from .tool_call import read_call

if TYPE_CHECKING:  # it needs the extra `tools`, which every user of such a session has
    from .browser import BrowserSession, Page

__all__ = [
    "CALL_FIELDS",
    "CallFields",
    "FinishedCall",
    "call_fields",
    "pages_of",
]


@dataclass(frozen=True)
class FinishedCall:
    """A call after its end: the fields before it ran, the tool's messages, what clients include."""

    planned: dict[str, Any]
    session: ToolSession
    messages: Sequence[ToolMessage]
    include: Collection[str] = ()

    @property
    def has_failed(self) -> bool:
        """Whether the tool reported an error."""
        return any(message.is_error for message in self.messages)


class CallFields(NamedTuple):
    """The functions that return fields of a call's item: before it runs, and after its end."""

    planned: Callable[[Message, ToolSession], dict[str, Any]]
    done: Callable[[FinishedCall], dict[str, Any]]


def call_fields(tool: str) -> CallFields:
    """Return the functions for a tool of the server, which may be that of an MCP server."""
    return CALL_FIELDS.get(tool, _NO_FIELDS) if is_built_in(tool) else _MCP_FIELDS


# Web searches


def pages_of(session: ToolSession) -> BrowserSession | None:
    """Return the session if it is of the library's browser; None for another tool's."""
    return cast("BrowserSession", session) if hasattr(session, "views") else None


def _planned_search(call: Message, session: ToolSession) -> dict[str, Any]:
    """Return the action of a call, as far as it can be read; `session` is from before the call."""
    pages = pages_of(session)
    try:
        name, arguments = read_call(call, ToolNamespaceConfig.browser(), {"top_n": "topn"})
    except ToolError:
        name, arguments = (call.recipient or "").rpartition(".")[2], {}
    if name == "open":
        id = arguments.get("id", -1)
        if isinstance(id, str):
            return {"action": {"type": "open_page", "url": id}}
        url = None
        page = _page(pages, arguments.get("cursor", -1))
        if page is not None and pages is not None:
            if id < 0:
                url = _address(page, pages) or None
            elif id < len(page.links):
                url = page.links[id].url
        return {"action": {"type": "open_page", "url": url}}
    if name == "find":
        page = _page(pages, arguments.get("cursor", -1))
        url = "" if page is None or pages is None else _address(page, pages)
        pattern = arguments.get("pattern", "")
        return {"action": {"type": "find_in_page", "url": url, "pattern": pattern}}
    query = arguments.get("query", "")
    return {"action": {"type": "search", "query": query, "queries": [query]}}


def _done_search(call: FinishedCall) -> dict[str, Any]:
    """Complete the action of a successful call with the page that it opened, or what it found."""
    pages, action = pages_of(call.session), call.planned["action"]
    if pages is None or call.has_failed:
        return call.planned
    page = _page(pages, -1)
    if action["type"] == "open_page" and page is not None:
        action = {**action, "url": _address(page, pages) or None}
    if action["type"] == "search" and "web_search_call.action.sources" in call.include:
        links = page.links if page is not None and page.kind == "search" else []
        action = {**action, "sources": [{"type": "url", "url": link.url} for link in links]}
    return {"action": action}


def _address(page: Page, session: BrowserSession) -> str:
    """Return the address of a page; for results of `find`, that of the searched page."""
    return page.url if page.found_in is None else session.pages[page.found_in].url


def _page(session: BrowserSession | None, cursor: int) -> Page | None:
    try:
        return None if session is None else session.page(cursor)
    except ToolError:
        return None


# Code

_MAX_IMAGE_BYTES = 4 << 20  # within a response; larger images are only files


def _done_code(call: FinishedCall) -> dict[str, Any]:
    """List the output of a call if the client asked for it: texts, and images as data URLs."""
    if "code_interpreter_call.outputs" not in call.include:
        return {"outputs": None}
    texts = filter(None, (message.text for message in call.messages))
    logs: list[dict[str, Any]] = [{"type": "logs", "logs": text} for text in texts]
    images = [
        {
            "type": "image",
            "url": f"data:{file.mime_type};base64,{base64.b64encode(file.data).decode()}",
        }
        for message in call.messages
        for file in message.attachments
        if file.mime_type.startswith("image/") and len(file.data) <= _MAX_IMAGE_BYTES
    ]
    return {"outputs": logs + images}


# MCP calls

_ERROR = "Error: "  # the prefix of failures for the model; clients have a field for them


def _done_mcp(call: FinishedCall) -> dict[str, Any]:
    """Return the output of a call, or its error."""
    text = "\n".join(message.text for message in call.messages)
    if not call.has_failed:
        return {"output": text, "error": None}
    content = [{"type": "text", "text": text.removeprefix(_ERROR)}]
    return {"output": None, "error": {"type": "mcp_tool_execution_error", "content": content}}


def _nothing(*_: object) -> dict[str, Any]:
    return {}


_NO_FIELDS = CallFields(_nothing, _nothing)
_MCP_FIELDS = CallFields(_nothing, _done_mcp)
CALL_FIELDS = {
    "browser": CallFields(_planned_search, _done_search),
    "python": CallFields(_nothing, _done_code),
}
"""The functions for each built-in tool whose items have fields that depend on its calls."""
