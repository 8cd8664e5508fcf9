"""The bytes that each owner has stored, and their limit.

The database measures them, over all tables with rows of owners. As this takes longer the more is
stored, a result is used for a while, and what this process has added since is counted with it.
Other servers' additions and all deletions are seen with the next measurement.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, LargeBinary, String, Table, func, literal
from sqlalchemy.types import TypeDecorator

from .database import Database
from .errors import StorageFullError
from .owned_data import owned_tables, rows_of
from .tables import key_requests

__all__ = ["Quota", "size_of"]

_ROW = 200  # bytes that a row takes besides its texts and bytes
_VALUE = 4  # bytes of punctuation, or of a number
_LEAST_SECONDS = 2.0  # for which a measurement is used, or a multiple of the time that it took
_MULTIPLE = 50
_BYTE_LENGTH = sqlite3.sqlite_version_info >= (3, 43)  # octet_length, which reads no content


@dataclass
class _Measured:
    bytes: dict[str, int]  # by table
    until: float
    added: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def total(self) -> int:
        return sum(self.bytes.values()) + self.added


class Quota:
    """The stored bytes of owners; `limit` is the most of each, None for no limit."""

    def __init__(
        self,
        database: Database,
        limit: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit = limit
        self.on_refusal: Callable[[], object] = lambda: None
        """Called for each request that is refused."""
        self._database = database
        self._clock = clock
        self._measured: dict[str, _Measured] = {}
        self._lock = threading.Lock()

    def add(self, owner: str, size: int) -> None:
        """Count bytes that are about to be stored.

        Raises `StorageFullError` if the owner has no room for them.
        """
        if self.limit is None:
            return
        measured = self._current(owner)
        with measured.lock:
            if measured.total + size > self.limit:
                self.on_refusal()
                raise StorageFullError(measured.total, size, self.limit)
            measured.added += size

    def note(self, owner: str, size: int) -> None:
        """Count bytes that are stored in any case, such as the output of a response that began."""
        if self.limit is not None:
            measured = self._current(owner)
            with measured.lock:
                measured.added += size

    def used(self, owner: str) -> dict[str, int]:
        """Measure the bytes of an owner now, by table; leave out tables without rows."""
        return {name: size for name, size in self._measure(owner).bytes.items() if size}

    def _current(self, owner: str) -> _Measured:
        with self._lock:
            measured = self._measured.get(owner)
        if measured is None or measured.until <= self._clock():
            measured = self._measure(owner)
        return measured

    def _measure(self, owner: str) -> _Measured:
        begun = self._clock()
        sizes: dict[str, int] = {}
        with self._database.reading() as connection:
            for table in owned_tables():
                if table is not key_requests:
                    size = _size(table, is_sqlite=self._database.is_sqlite)
                    query = rows_of(table, owner).with_only_columns(size)
                    sizes[table.name] = int(connection.execute(query).scalar_one() or 0)
        now = self._clock()
        until = now + max(_LEAST_SECONDS, _MULTIPLE * (now - begun))
        measured = _Measured(sizes, until)
        with self._lock:
            self._measured = {id: each for id, each in self._measured.items() if each.until > begun}
            self._measured[owner] = measured
        return measured


def size_of(*values: Any) -> int:
    """Return about how many bytes JSON takes: those of its texts, and some for each value.

    >>> size_of({"a": ["é", 1]})
    22
    """
    size, found = 0, list(values)
    for value in found:  # which grows meanwhile
        size += _VALUE
        if isinstance(value, (str, bytes)):
            size += len(value)
        elif isinstance(value, dict):
            found += value
            found += value.values()
        elif isinstance(value, (list, tuple)):
            found += value
    return size


def _size(table: Table, *, is_sqlite: bool) -> ColumnElement[Any]:
    """Return the bytes of the selected rows of a table."""
    length = func.length if is_sqlite and not _BYTE_LENGTH else func.octet_length
    size: ColumnElement[Any] = literal(_ROW)
    for column in table.c:
        kind = column.type.impl if isinstance(column.type, TypeDecorator) else column.type
        if isinstance(kind, (LargeBinary, String)):
            size = size + func.coalesce(length(column), 0)
    return func.sum(size)
