"""JSON of anything that clients and models write, lone surrogates included.

UTF-8 has no form for half a surrogate pair; JSON has one: the escape.
"""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse

__all__ = ["READABLE", "JsonResponse", "json_bytes", "json_text"]

READABLE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ESCAPED = json.JSONEncoder(separators=(",", ":"))


def json_bytes(value: Any) -> bytes:
    r"""Write JSON in UTF-8; all that is not ASCII is escaped where one character needs it.

    >>> json_bytes({"text": "é"}), json_bytes([chr(0xD83D)])
    (b'{"text":"\xc3\xa9"}', b'["\\ud83d"]')
    """
    return json_text(value).encode()


def json_text(value: Any) -> str:
    """Write JSON as `json_bytes` does, as text that UTF-8 can encode."""
    text = READABLE.encode(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return _ESCAPED.encode(value)
    return text


class JsonResponse(JSONResponse):
    r"""A JSON response that can hold any text.

    >>> JsonResponse({"text": chr(0xD83D)}).body
    b'{"text":"\\ud83d"}'
    """

    def render(self, content: Any) -> bytes:
        """Write JSON; `NaN` raises an error, as in every response of the framework."""
        try:
            return super().render(content)
        except UnicodeEncodeError:
            return json_bytes(content)
