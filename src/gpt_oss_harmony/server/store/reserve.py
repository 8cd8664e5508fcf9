"""Room that a database gives up, so that owners can delete on a full disk.

A deletion writes before it frees: SQLite needs its journal, PostgreSQL new versions of rows. The
reserve is a file beside a SQLite database, and a table of PostgreSQL. It is filled again as soon as
there is room for it, and for `_MARGIN` more, so that a disk that is full by a hair stays full.
"""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from ..private_files import make_private, open_private

_BYTES = 32 << 20
"""More than one transaction of a deletion writes: `MAX_SWEPT_BYTES` and its pages."""
_MARGIN = 1 << 20
_ROW_BYTES = 1 << 20
_LOCK = 0x6861726D6F6E72  # of the table, which several servers fill


class FileReserve:
    """A file without content, of a fixed size."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fill(self) -> bool:
        """Allocate the file, unless it is there; return False if there is no room."""
        try:
            file = open_private(self._path)
            try:
                make_private(self._path)
                # A sparse file would reserve nothing.
                os.lseek(file, 0, os.SEEK_END)
                # The margin is only tried, and given back: the database needs room, too.
                _allocate(file, _BYTES + _MARGIN)
                os.ftruncate(file, _BYTES)
            finally:
                os.close(file)
        except OSError:
            self.give_up()
            return False
        return True

    def give_up(self) -> None:
        """Delete the file."""
        self._path.unlink(missing_ok=True)


def _allocate(file: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    missing = size - os.fstat(file).st_size
    while missing > 0:
        missing -= os.write(file, bytes(min(missing, _ROW_BYTES)))
    os.fsync(file)


class TableReserve:
    """A table of rows that PostgreSQL cannot compress; it frees the files of a dropped table."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def fill(self) -> bool:
        """Fill the table, or try whether there is room besides it; return False if not."""
        try:
            with self._engine.begin() as connection:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
                run = connection.exec_driver_sql
                # A crash empties the table, which is not in the journal of PostgreSQL.
                size_of = "pg_total_relation_size(to_regclass('harmony_reserve'))"
                found = run(f"SELECT coalesce({size_of}, 0) >= {_BYTES}").scalar_one()
                name = "harmony_probe" if found else "harmony_reserve"
                size = _MARGIN if found else _BYTES
                run(f"DROP TABLE IF EXISTS {name}")
                run(f"CREATE UNLOGGED TABLE {name} (filler bytea)")
                # Otherwise PostgreSQL compresses these zeros, and reserves next to nothing.
                run(f"ALTER TABLE {name} ALTER filler SET STORAGE EXTERNAL")
                run(
                    f"INSERT INTO {name} SELECT decode(repeat('00', {_ROW_BYTES}), 'hex') "
                    f"FROM generate_series(1, {size // _ROW_BYTES})"
                )
                if found:
                    run(f"DROP TABLE {name}")
        except DBAPIError:
            return False
        return True

    def give_up(self) -> None:
        """Drop the table, which frees its files at once."""
        with self._engine.begin() as connection:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
            connection.exec_driver_sql("DROP TABLE IF EXISTS harmony_reserve")
