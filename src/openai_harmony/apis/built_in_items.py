"""Items for calls of the tools that the server runs."""

from __future__ import annotations

from typing import Any

from .item_kind import ItemKind

__all__ = ["built_in_item"]

_MCP_CALL = {
    "server_label": "",
    "name": "",
    "arguments": "",
    "approval_request_id": None,
    "output": None,
    "error": None,
}


def built_in_item(kind: ItemKind, *, id: str, status: str, **fields: Any) -> dict[str, Any]:
    """Make the item of a call.

    `status` is in_progress, searching or interpreting, completed, failed or incomplete. The fields
    of a web search are its ``action``; those of code its ``code``, the ``container_id`` of what it
    runs in, and its ``outputs``, null where nobody asked for them; those of an MCP server's tool
    its ``server_label``, ``name`` and ``arguments``, and its ``output`` or ``error``.

    >>> action = {"type": "open_page", "url": "https://example.com/"}
    >>> item = built_in_item(ItemKind.WEB_SEARCH_CALL, id="ws_1", status="completed", action=action)
    >>> item["type"], item["action"]["url"]
    ('web_search_call', 'https://example.com/')
    """
    known = {"type": kind.value, "id": id, "status": status}
    if kind is ItemKind.WEB_SEARCH_CALL:
        return {**known, "action": {"type": "search", "query": "", "queries": []}, **fields}
    if kind is ItemKind.MCP_CALL:
        return {**known, **_MCP_CALL, **fields}
    return {**known, "code": "", "container_id": "", "outputs": None, **fields}
