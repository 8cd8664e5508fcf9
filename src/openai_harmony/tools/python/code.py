"""The code of a call, as models write it: plain, in a fence, or in JSON as for a function."""

from __future__ import annotations

import json
import re

__all__ = ["read_code"]

_FENCE = re.compile(r"\s*```(?:python|py)?[ \t]*\n(.*?)\n?```\s*", re.DOTALL | re.IGNORECASE)
_KEYS = ("code", "input")


def read_code(text: str) -> str:
    r"""Return the code that a call holds.

    >>> [read_code(text) for text in ("1 + 1", '{"code": "1 + 1"}', "```python\n1 + 1\n```")]
    ['1 + 1', '1 + 1', '1 + 1']
    """
    if text.lstrip().startswith("{"):
        text = _code_in_json(text)
    fenced = _FENCE.fullmatch(text)
    return fenced[1] if fenced is not None and "```" not in fenced[1] else text


def _code_in_json(text: str) -> str:
    try:
        given = json.loads(text, strict=False)  # models write line breaks as they are
    except (ValueError, RecursionError):
        return text  # a set, or a dictionary of Python
    if not isinstance(given, dict):
        return text
    found = next((given[key] for key in _KEYS if isinstance(given.get(key), str)), None)
    return text if found is None else str(found)
