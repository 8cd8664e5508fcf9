"""JSON text of anything that clients and models write, also with lone surrogates.

UTF-8 cannot encode half a surrogate pair, but JSON can escape it.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

__all__ = ["PLACEHOLDER", "json_around", "json_text"]

PLACEHOLDER = "\0"
"""Stands for a text that is filled in later."""

_ESCAPED = json.JSONEncoder(separators=(",", ":"))


def json_text(value: Any) -> str:
    """Write JSON as text that UTF-8 can encode; if one character needs an escape, escape all."""
    try:
        return to_json(value).decode()
    except PydanticSerializationError:  # half a surrogate pair, or more than 255 levels
        return _ESCAPED.encode(value)


def json_around(value: Any) -> list[str]:
    """Write JSON and split it at each `PLACEHOLDER`; joined by the JSON of a text, it has the text.

    >>> json_text("é").join(json_around({"index": 0, "text": PLACEHOLDER}))
    '{"index":0,"text":"é"}'
    """
    return json_text(value).split(json_text(PLACEHOLDER))
