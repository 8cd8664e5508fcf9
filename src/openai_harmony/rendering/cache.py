"""A cache bounded in bytes and shared between threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

__all__ = ["BoundedCache"]

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class Generation(dict[_Key, _Value]):
    """Values by key; `after` says which value was asked for after which, and may be wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.after: dict[_Value | None, _Value] = {}


class BoundedCache(Generic[_Key, _Value]):
    """What was used lately stays: two generations, of which the older is dropped as a whole.

    Reading takes no lock, since a dictionary read is atomic. `limit` is in bytes, 0 switches the
    cache off; `size` estimates the bytes of an entry from its value.

    >>> cache = BoundedCache[str, bytes](limit=100, size=len)
    >>> cache.put("a", b"value")
    >>> cache.get("a"), cache.get("b")
    (b'value', None)
    """

    def __init__(self, limit: int, size: Callable[[_Value], int]) -> None:
        self._limit = limit
        self._size = size
        self.young = Generation[_Key, _Value]()
        """What was put in lately; may be read directly, where a call costs too much."""
        self._old = Generation[_Key, _Value]()
        self._young_size = 0
        self._lock = threading.Lock()

    def get(self, key: _Key) -> _Value | None:
        """Return the value of `key`, or None; a value of the older generation is kept on."""
        value = self.young.get(key)
        if value is None and self._old:
            value = self._old.get(key)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: _Key, value: _Value) -> None:
        """Enter a value; one that would fill half the cache is not kept."""
        self.put_all([(key, value)])

    def put_all(self, items: Iterable[tuple[_Key, _Value]]) -> None:
        """Enter several values, as `put` does."""
        most = self._limit // 2
        with self._lock:
            for key, value in items:
                size = self._size(value)
                if size > most:
                    continue
                self.young[key] = value
                self._young_size += size
                if self._young_size > most:
                    self._old, self.young, self._young_size = self.young, Generation(), 0

    def set_limit(self, limit: int) -> None:
        """Change the limit and forget everything."""
        with self._lock:
            self._limit = limit
            self.young, self._old, self._young_size = Generation(), Generation(), 0
