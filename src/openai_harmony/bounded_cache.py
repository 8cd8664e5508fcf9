"""A cache bounded in bytes and shared between threads."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["BoundedCache"]

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class BoundedCache(Generic[_Key, _Value]):
    """What was used lately stays: two generations, of which the older is dropped as a whole.

    Reading takes no lock (a dictionary read is atomic); `limit` is in bytes, as estimated by
    whoever puts values in; 0 switches the cache off.

    >>> cache = BoundedCache[str, int](limit=100)
    >>> cache.put("a", 1, size=40)
    >>> cache.get("a"), cache.get("b")
    (1, None)
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._young: dict[_Key, _Value] = {}
        self._old: dict[_Key, _Value] = {}
        self._young_size = 0
        self._sizes: dict[_Key, int] = {}
        self._lock = threading.Lock()

    def get(self, key: _Key) -> _Value | None:
        """Return the value of `key`, or None; a value of the older generation is kept on."""
        value = self._young.get(key)
        if value is None:
            value = self._old.get(key)
            if value is not None:
                self.put(key, value, self._sizes.get(key, 0))
        return value

    def put(self, key: _Key, value: _Value, size: int) -> None:
        """Enter a value of `size` bytes; one that would fill half the cache is not kept."""
        if size * 2 > self._limit:
            return
        with self._lock:
            self._young[key] = value
            self._sizes[key] = size
            self._young_size += size
            if self._young_size * 2 > self._limit:
                self._old, self._young = self._young, {}
                self._sizes = {known: self._sizes[known] for known in self._old}
                self._young_size = 0

    def set_limit(self, limit: int) -> None:
        """Change the limit and forget everything."""
        with self._lock:
            self._limit = limit
            self._young, self._old, self._sizes, self._young_size = {}, {}, {}, 0
