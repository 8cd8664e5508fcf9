"""JSON text of anything that clients and models have written."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["readable_json"]


def readable_json(value: Any) -> str:
    r"""Write JSON, readable where the text can be; half of a character can only be escaped.

    >>> readable_json({"text": "é"}), readable_json([chr(0xD83D)])
    ('{"text":"é"}', '["\\ud83d"]')
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return text
