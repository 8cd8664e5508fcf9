"""The input of a request as the items that are stored, listed, and read again next time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .history import HistoryItem, NewId
from .responses_request import ResponsesRequest

__all__ = ["input_items_of", "whole_item"]

_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "compaction": "cmp",
}
_OF_OUTPUT_TEXT: dict[str, Any] = {"annotations": [], "logprobs": []}
_OF_IMAGE = {"image_url": None, "detail": "auto"}
_WITH_STATUS = {"message", "function_call", "function_call_output"}


def input_items_of(
    request: ResponsesRequest,
    new_id: NewId,
    references: Mapping[str, HistoryItem] | None = None,
) -> list[HistoryItem]:
    """List the input: every item whole, with an id, and references replaced by what they name.

    Call it with what `turn_of_response` has read without an error.

    >>> (item,) = input_items_of(ResponsesRequest(input="hi"), lambda prefix: f"{prefix}_1")
    >>> item.item["id"], item.item["content"]
    ('msg_1', [{'type': 'input_text', 'text': 'hi'}])
    """
    known = references or {}
    return [
        known[item["id"]]
        if _is_reference(item) and item["id"] in known
        else HistoryItem(whole_item(item, new_id))
        for item in request.items
    ]


def whole_item(item: Mapping[str, Any], new_id: NewId) -> dict[str, Any]:
    """Give an item all its fields.

    >>> whole_item({"role": "assistant", "content": "Hi!"}, str)["content"][0]["type"]
    'output_text'
    """
    kind = item.get("type") or "message"
    whole = {**item, "type": kind}
    if not isinstance(whole.get("id"), str):
        whole["id"] = new_id(_PREFIXES.get(kind, "item"))
    if kind in _WITH_STATUS and not isinstance(whole.get("status"), str):
        whole["status"] = "completed"
    if kind == "message":
        whole["content"] = _parts(whole.get("role"), whole.get("content"))
    elif kind == "reasoning":
        whole["summary"] = whole.get("summary") or []
    return {name: value for name, value in whole.items() if value is not None}


def _is_reference(item: Mapping[str, Any]) -> bool:
    kind = item.get("type")
    return kind == "item_reference" or (kind is None and item.get("role") is None)


def _parts(role: object, content: object) -> list[Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    if isinstance(content, str):
        content = [{"type": kind, "text": content}]
    return [_part(part, kind) for part in content] if isinstance(content, list) else []


def _part(part: object, text_kind: str) -> object:
    if not isinstance(part, Mapping):
        return part
    kind = part.get("type")
    if kind in ("text", "input_text", "output_text"):
        whole = {**part, "type": text_kind}
        needed: dict[str, Any] = {} if text_kind == "input_text" else _OF_OUTPUT_TEXT
    else:
        whole, needed = dict(part), _OF_IMAGE if kind == "input_image" else {}
    return {**whole, **{name: whole.get(name) or value for name, value in needed.items()}}
