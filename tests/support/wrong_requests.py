"""Requests with something wrong at each place, and the words that no error about them has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

RAW = re.compile(
    "Input should|Field required|should have|valid (?!tool name|JSON)|validation|instance of"
    "|parsing"
)
"""Words of pydantic and FastAPI."""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every place in a JSON value but the root."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in inner:
        yield (*path, key)
        if isinstance(one, dict | list):
            yield from places(one, (*path, key))
