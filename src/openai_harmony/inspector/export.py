"""A conversation to take away: as JSON, as a program, or as what tests compare."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict  # of Python 3.12, which tells pydantic more

from ..conversation.messages import Conversation
from ..encoding import load_harmony_encoding
from .python_program import python_program
from .rendering import rendered_conversation
from .source import conversation_json, read_source
from .wire import ExportBody

__all__ = ["Exported", "exported"]

_SURROGATE = re.compile("[\ud800-\udfff]")


class Exported(TypedDict):
    """A file: its name and its text."""

    name: str
    text: str


def exported(body: ExportBody) -> Exported:
    """Write a file; raises `HarmonyError`, which names the field at fault."""
    conversation = read_source(body).conversation
    if body.format == "python":
        return {"name": "conversation.py", "text": python_program(conversation, body)}
    if body.format == "json":
        text = _json(conversation_json(conversation), indent=2)
        return {"name": "conversation.json", "text": f"{text}\n"}
    return {"name": "vector.json", "text": _lines(_vector(conversation, body))}


def _vector(conversation: Conversation, body: ExportBody) -> dict[str, Any]:
    tokens = rendered_conversation(conversation, body).tokens
    options = ("ending", "example", "header_style", "schema_dialect", "reasoning")
    return {
        "conversation": conversation_json(conversation),
        "options": {name: getattr(body, name) for name in options},
        "text": load_harmony_encoding("HarmonyGptOss").decode(tokens),
        "tokens": tokens,
    }


def _lines(fields: Mapping[str, Any]) -> str:
    """Write an object with a line for each field."""
    return (
        "{\n" + ",\n".join(f'  "{key}": {_json(value)}' for key, value in fields.items()) + "\n}\n"
    )


def _json(value: Any, indent: int | None = None) -> str:
    """Write JSON, readable where the text can be; half of a character can only be escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return json.dumps(value, indent=indent) if _SURROGATE.search(text) else text
