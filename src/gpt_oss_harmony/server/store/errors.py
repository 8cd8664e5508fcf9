"""Errors of the store.

::

    StoreError
      NotFoundError       the row is missing, or belongs to another owner
      ClaimedError        another request has used what a request wants to use once
      UploadError         the parts of an upload do not make a file, or it has ended
      ItemIdError         an item cannot be stored under this id
      StorageFullError    the owner has stored as much as it may
      StoreFullError      the disk of the database is full
      StoreVersionError   a newer server has written the database
      StoreInUseError     another server has the file
"""

from __future__ import annotations

from ...errors import HarmonyError


class StoreError(HarmonyError):
    """The database cannot be opened, read or written."""


class NotFoundError(StoreError, LookupError):
    """The object does not exist, was deleted, has expired, or belongs to another owner.

    `kind` is ``response``, ``conversation``, ``item``, ``file``, ``container``, ``completion``,
    ``message``, ``thread``, ``batch``, ``upload`` or ``key``.
    """

    def __init__(self, kind: str, id: str) -> None:
        super().__init__(f"there is no {kind} {id!r}")
        self.kind = kind
        self.id = id


class UploadError(StoreError):
    """The parts of an upload do not make a file, or it has ended."""


class ClaimedError(StoreError):
    """Another request has claimed this; `made_id` is the id of what it made.

    Not `is_same` if the other request claimed the same name for something else.
    """

    def __init__(self, name: str, made_id: str, *, is_same: bool = True) -> None:
        super().__init__(f"{name!r} was used for {made_id!r}")
        self.name = name
        self.made_id = made_id
        self.is_same = is_same


class ItemIdError(StoreError, ValueError):
    """The id of an item cannot be one, or another item already has it; `field` is the id's."""

    def __init__(self, problem: str, id: str, field: str) -> None:
        super().__init__(problem)
        self.id = id
        self.field = field


class StorageFullError(StoreError):
    """An owner has stored `used` bytes of at most `limit`; `added` more are too many."""

    def __init__(self, used: int, added: int, limit: int) -> None:
        super().__init__(
            f"this API key has stored {used:,} bytes, and the request would add {added:,} to them, "
            f"but {limit:,} is the most; delete files, containers, responses or conversations"
        )
        self.used = used
        self.added = added
        self.limit = limit


class StoreFullError(StoreError):
    """The disk of the database is full; until there is room again, only deletions are written."""


class StoreVersionError(StoreError):
    """The database was written by a newer version of this library."""


class StoreInUseError(StoreError):
    """Another server uses the database file."""
