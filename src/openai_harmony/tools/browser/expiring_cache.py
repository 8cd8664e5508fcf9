"""A cache bounded in size and in time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from ...rendering.cache import BoundedCache

__all__ = ["ExpiringCache"]

_Value = TypeVar("_Value")


class ExpiringCache(Generic[_Value]):
    """Keeps values by a text for `seconds`, as long as they fit.

    `limit` is what all may have of `size` together; 0 keeps nothing.

    >>> cache = ExpiringCache[str](limit=100, seconds=60, size=len)
    >>> cache.put("a", "value"); cache.get("a")
    'value'
    """

    def __init__(self, *, limit: int, seconds: float, size: Callable[[_Value], int]) -> None:
        self._seconds = seconds
        self._values = BoundedCache[str, tuple[float, _Value]](limit, lambda entry: size(entry[1]))

    def get(self, key: str) -> _Value | None:
        """Return a value, or None where there is none, or none that is young enough."""
        entry = self._values.get(key)
        if entry is None or time.monotonic() - entry[0] > self._seconds:
            return None
        return entry[1]

    def put(self, key: str, value: _Value) -> None:
        """Keep a value; one that is too large is not kept."""
        self._values.put(key, (time.monotonic(), value))
