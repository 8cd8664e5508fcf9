"""JSON text of anything that clients and models write, also with lone surrogates.

UTF-8 cannot encode half a surrogate pair, but JSON can escape it.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["READABLE", "json_text"]

READABLE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ESCAPED = json.JSONEncoder(separators=(",", ":"))


def json_text(value: Any) -> str:
    """Write JSON as text that UTF-8 can encode; if one character needs an escape, escape all."""
    text = READABLE.encode(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return _ESCAPED.encode(value)
    return text
