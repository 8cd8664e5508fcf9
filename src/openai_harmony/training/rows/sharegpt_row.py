"""A row in the form of ShareGPT to a row in the form of Chat Completions.

``conversations`` has messages of ``from`` and ``value``; ``system`` and ``tools`` may stand beside
it. What other models' formats put into the text is taken out of it: reasoning in ``<think>``, calls
in ``<tool_call>``, results in ``<tool_response>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...conversation.json_field import JsonField
from .embedded_json import as_text, parsed

__all__ = ["sharegpt_as_chat"]

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "developer",
    "tool": "tool",
    "observation": "tool",
    "function_response": "tool",
    "tool_response": "tool",
    "function_call": "call",
    "tool_call": "call",
}

_THOUGHT = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_RESULT = re.compile(r"<tool_response>(.*?)</tool_response>", re.DOTALL)


def sharegpt_as_chat(row: JsonField) -> dict[str, Any]:
    """Write a row as Chat Completions; raises `ConversationError` where it cannot be read."""
    messages: list[dict[str, Any]] = []
    system = row["system"].optional_text()
    if system:
        messages.append({"role": "system", "content": system})
    for message in parsed(row["conversations"]).items():
        for one in _messages(message):
            weight = message.object().get("weight")
            messages.append(one if weight is None else {**one, "weight": weight})
    return {**row.object(), "messages": messages, "conversations": None}


def _messages(message: JsonField) -> Iterator[dict[str, Any]]:
    role = _ROLES.get(message["from"].text())
    value = message["value"]
    if role is None:
        raise message["from"].unexpected(f"one of {', '.join(_ROLES)}")
    if role == "assistant":
        yield _spoken(value)
    elif role == "call":
        calls = parsed(value)
        found = calls.value if isinstance(calls.value, list) else [calls.value]
        yield {"role": "assistant", "tool_calls": found}
    elif role == "tool":
        yield from _results(value)
    else:
        yield {"role": role, "content": value.text()}


def _spoken(value: JsonField) -> dict[str, Any]:
    text = value.text()
    message: dict[str, Any] = {"role": "assistant"}
    thought = _THOUGHT.match(text)
    if thought:
        message["reasoning"] = thought[1].strip()
        text = text[thought.end() :]
    calls = [parsed(JsonField(match[1], value.place)).value for match in _CALL.finditer(text)]
    if calls:
        message["tool_calls"] = calls
        text = _CALL.sub("", text).strip()
    if text or not (thought or calls):
        message["content"] = text
    return message


def _results(value: JsonField) -> Iterator[dict[str, Any]]:
    if not isinstance(value.value, str):
        yield {"role": "tool", "content": value.value}
        return
    found = _RESULT.findall(value.value)
    for text in found or [value.value]:
        yield {
            "role": "tool",
            "content": text.strip() if found else text,
            **_name(text, bool(found)),
        }


def _name(text: str, marked: bool) -> dict[str, Any]:
    """Tell a result of the form ``{"name": ..., "content": ...}`` from a text."""
    if not marked:
        return {}
    try:
        result = parsed(JsonField(text)).value
    except ValueError:
        return {}
    if not isinstance(result, dict) or set(result) != {"name", "content"}:
        return {}
    content = result["content"]
    written = content if isinstance(content, str) else as_text(content)
    return {"name": result["name"], "content": written}
