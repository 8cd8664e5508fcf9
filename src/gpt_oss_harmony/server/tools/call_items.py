"""The items of calls of the server's tools: web searches, code, and MCP calls."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...apis.items import message_text
from ...conversation.messages import Message
from ...conversation.tool_namespaces import ToolNamespaceConfig
from ...tools.tool import ToolError
from ...tools.tool_call import read_call, read_code
from ...tools.tool_message import ToolMessage

if TYPE_CHECKING:  # it needs the extra `tools`, which every user of such a session has
    from ...tools.browser import BrowserSession, Page

__all__ = [
    "ShownCode",
    "done_action",
    "found_sources",
    "mcp_outcome",
    "outputs_of",
    "planned_action",
]


def planned_action(call: Message, session: BrowserSession | None) -> dict[str, Any]:
    """Return the action of a call, as far as it can be read; `session` is from before the call."""
    try:
        name, arguments = read_call(call, ToolNamespaceConfig.browser(), {"top_n": "topn"})
    except ToolError:
        name, arguments = (call.recipient or "").rpartition(".")[2], {}
    if name == "open":
        id = arguments.get("id", -1)
        if isinstance(id, str):
            return {"type": "open_page", "url": id}
        url = None
        page = _page(session, arguments.get("cursor", -1))
        if page is not None and session is not None:
            if id < 0:
                url = _address(page, session) or None
            elif id < len(page.links):
                url = page.links[id].url
        return {"type": "open_page", "url": url}
    if name == "find":
        page = _page(session, arguments.get("cursor", -1))
        url = "" if page is None or session is None else _address(page, session)
        return {"type": "find_in_page", "url": url, "pattern": arguments.get("pattern", "")}
    query = arguments.get("query", "")
    return {"type": "search", "query": query, "queries": [query]}


def done_action(action: dict[str, Any], session: BrowserSession) -> dict[str, Any]:
    """Complete an action whose call succeeded with the page that it opened."""
    if action["type"] != "open_page":
        return action
    page = _page(session, -1)
    return action if page is None else {**action, "url": _address(page, session) or None}


def found_sources(action: dict[str, Any], session: BrowserSession) -> list[dict[str, Any]]:
    """List the pages that the last call, a search, found."""
    page = _page(session, -1)
    if action["type"] != "search" or page is None or page.kind != "search":
        return []
    return [{"type": "url", "url": link.url} for link in page.links]


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


class ShownCode:
    """The code for clients while the model writes it; a wrapper is removed at the end.

    >>> code = ShownCode()
    >>> [code.feed("1 +"), code.feed(" 1"), code.rest()]
    ['1 +', ' 1', '']
    >>> code = ShownCode()
    >>> [code.feed('{"code": "1'), code.feed(' + 1"}'), code.rest()]
    ['', '', '1 + 1']
    """

    def __init__(self) -> None:
        self._pending = ""
        self._is_plain = False

    def feed(self, text: str) -> str:
        """Take text; return the code that is safe to emit."""
        if self._is_plain:
            return text
        self._pending += text
        beginning = self._pending.lstrip()
        if not beginning or beginning[0] in "{`":
            return ""
        self._is_plain = True
        return self._pending

    def rest(self) -> str:
        """Return the rest of the code."""
        return "" if self._is_plain else read_code(self._pending)


def outputs_of(messages: Iterable[ToolMessage]) -> list[dict[str, Any]]:
    """List the output of a call: its texts, and its images as data URLs."""
    messages = list(messages)
    texts = filter(None, map(message_text, messages))
    logs: list[dict[str, Any]] = [{"type": "logs", "logs": text} for text in texts]
    images = [
        {
            "type": "image",
            "url": f"data:{file.mime_type};base64,{base64.b64encode(file.data).decode()}",
        }
        for message in messages
        for file in message.attachments
        if file.mime_type.startswith("image/") and len(file.data) <= _MAX_IMAGE_BYTES
    ]
    return logs + images


# MCP calls

_ERROR = "Error: "  # the prefix of failures for the model; clients have a field for them


def mcp_outcome(messages: Iterable[ToolMessage]) -> dict[str, Any]:
    """Return the output of a call, or its error.

    >>> call = ToolMessage.from_role_and_content("assistant", "{}")
    >>> from gpt_oss_harmony.tools.tool_message import failure_message
    >>> mcp_outcome([failure_message(call, "no such city")])["error"]["content"]
    [{'type': 'text', 'text': 'no such city'}]
    """
    messages = list(messages)
    text = "\n".join(map(message_text, messages))
    if not any(message.is_error for message in messages):
        return {"output": text, "error": None}
    content = [{"type": "text", "text": text.removeprefix(_ERROR)}]
    return {"output": None, "error": {"type": "mcp_tool_execution_error", "content": content}}
