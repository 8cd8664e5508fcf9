"""A cache bounded in bytes and shared between threads, and keys made from plain data."""

from __future__ import annotations

import io
import pickle
import threading
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from typing import Any, Generic, NoReturn, TypeVar

DEFAULT_CACHE_BYTES = 64 * 1024 * 1024
"""The default size of an encoding's cache of rendered messages."""

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class Generation(dict[_Key, _Value]):
    """Values by key.

    `after` maps a value to the one that was requested next, the last time. This is only a guess,
    so callers must check the key.
    """

    def __init__(self) -> None:
        super().__init__()
        self.after: dict[_Value | None, _Value] = {}


class BoundedCache(Generic[_Key, _Value]):
    """Keep recently used values in two generations; when full, drop the older one as a whole.

    Reads take no lock, because a dictionary read is atomic. To drop the entry that was used longest
    ago instead, each read would have to reorder the entries, under a lock. `limit` is in bytes; 0
    turns the cache off. `size` estimates the bytes of an entry from its value.

    >>> cache = BoundedCache[str, bytes](limit=100, size=len)
    >>> cache.put("a", b"value")
    >>> cache.get("a"), cache.get("b")
    (b'value', None)
    """

    def __init__(self, limit: int, size: Callable[[_Value], int]) -> None:
        self._limit = limit
        self._size = size
        self.young = Generation[_Key, _Value]()
        """The recent entries; hot loops read it directly to save a call."""
        self._old = Generation[_Key, _Value]()
        self._young_size = 0
        self._lock = threading.Lock()

    def get(self, key: _Key) -> _Value | None:
        """Return the value of `key`, or None; move it to the younger generation."""
        value = self.young.get(key)
        if value is None and self._old:
            value = self._old.get(key)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: _Key, value: _Value) -> None:
        """Store a value, unless it would fill half the cache."""
        self.put_all([(key, value)])

    def put_all(self, items: Iterable[tuple[_Key, _Value]]) -> None:
        """Store several values, as `put` does."""
        most = self._limit // 2
        with self._lock:
            for key, value in items:
                size = self._size(value)
                if size > most:
                    continue  # this value alone would drop the older generation
                # A key that is put again counts twice: its generation is only full sooner.
                self.young[key] = value
                self._young_size += size
                if self._young_size > most:
                    self._old, self.young, self._young_size = self.young, Generation(), 0

    def discard(self, key: _Key) -> None:
        """Drop the value of `key`, if there is one."""
        with self._lock:
            value = self.young.pop(key, None)
            if value is not None:
                self._young_size -= self._size(value)
            self._old.pop(key, None)

    def set_limit(self, limit: int) -> None:
        """Change the limit and drop all values."""
        with self._lock:
            self._limit = limit
            self.young, self._old, self._young_size = Generation(), Generation(), 0


class SharedCache(BoundedCache[_Key, _Value]):
    """A cache of values that take long to make; threads that need the same value make it once.

    >>> cache = SharedCache[str, bytes](limit=100, size=len)
    >>> cache.get_or_make("a", lambda: b"value"), cache.get("a")
    (b'value', b'value')
    """

    def __init__(self, limit: int, size: Callable[[_Value], int]) -> None:
        super().__init__(limit, size)
        self._making: dict[_Key, Future[_Value]] = {}
        self._making_lock = threading.Lock()

    def get_or_make(self, key: _Key, make: Callable[[], _Value]) -> _Value:
        """Return the value of `key`; if there is none, make it, or wait for the thread that does.

        An error of `make` is raised in every thread that waited for it, and is not cached.
        """
        value = self.get(key)
        if value is not None:
            return value
        with self._making_lock:
            others = self._making.get(key)
            if others is None:
                ours = self._making[key] = Future[_Value]()
        if others is not None:
            return others.result()
        try:
            # Another thread may have stored it between the check above and the lock.
            value = self.get(key)
            if value is None:
                value = make()
                self.put(key, value)
            ours.set_result(value)
            return value
        except BaseException as error:
            ours.set_exception(error)
            raise
        finally:
            # Also after an error, so that the next thread tries again.
            with self._making_lock:
                del self._making[key]


class _PlainPickler(pickle.Pickler):
    """Pickle JSON types and tuples only.

    An object that occurs again is written as a reference, so time and size are linear in the
    number of distinct objects.
    """

    def reducer_override(self, value: object) -> NoReturn:
        raise pickle.PicklingError(f"{type(value).__name__} is not plain data")


def fingerprint(value: Any) -> bytes | None:
    """Return a cache key: bytes that are equal only for equal values, types and orders of keys.

    Equal values may give different bytes if one of them contains the same object twice. Returns
    None if `value` is not plain data.

    >>> fingerprint({"a": [1]}) == fingerprint({"a": [1]}), fingerprint([1]) == fingerprint([1.0])
    (True, False)
    >>> fingerprint({"a": object()}) is None
    True
    """
    # Not as JSON: that writes the keys 1 and "1" alike, and lists and tuples, and takes longer.
    buffer = io.BytesIO()
    try:
        _PlainPickler(buffer, protocol=5).dump(value)
    except (pickle.PicklingError, RecursionError):
        return None
    return buffer.getvalue()
