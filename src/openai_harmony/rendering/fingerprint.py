"""Plain data to bytes that tell it apart, for keys of caches."""

from __future__ import annotations

import io
import pickle
from typing import Any, NoReturn

__all__ = ["fingerprint"]


class _PlainPickler(pickle.Pickler):
    """Writes the types of JSON, and tuples; an object that comes again is written once, so that
    the time and the bytes are linear in the objects there are, however they are shared.
    """

    def reducer_override(self, value: object) -> NoReturn:
        raise pickle.PicklingError(f"{type(value).__name__} is no plain data")


def fingerprint(value: Any) -> bytes | None:
    """Return bytes that are equal only for equal values of equal types, keys in equal order.

    Equal values may give different bytes where one of them holds the same object twice. None for
    what is not plain data.

    >>> fingerprint({"a": [1]}) == fingerprint({"a": [1]}), fingerprint([1]) == fingerprint([1.0])
    (True, False)
    >>> fingerprint({"a": object()}) is None
    True
    """
    buffer = io.BytesIO()
    try:
        _PlainPickler(buffer, protocol=5).dump(value)
    except (pickle.PicklingError, RecursionError):
        return None
    return buffer.getvalue()
