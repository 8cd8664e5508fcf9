"""JSON answers that can hold any text that a client has sent."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse

__all__ = ["JsonAnswer"]


class JsonAnswer(JSONResponse):
    """An answer that writes half of a character as JSON can: escaped.

    >>> JsonAnswer({"text": "\\ud83d"}).body
    b'{"text":"\\\\ud83d"}'
    """

    def render(self, content: Any) -> bytes:
        """Write JSON, readable where the text can be."""
        try:
            return super().render(content)
        except UnicodeEncodeError:
            return json.dumps(content, separators=(",", ":")).encode()
