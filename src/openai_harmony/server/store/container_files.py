"""Files that code has written: stored with the response that ran it, visible to its owner."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row, Select, func, insert, literal, select, tuple_

from .database import Database
from .errors import NotFoundError
from .items import Order
from .leases import ServerClock
from .response_chains import visible
from .tables import container_files, responses

__all__ = ["ContainerFile", "ContainerFiles", "FilePage", "NewFile"]

_AGE = (responses.c.created_at, responses.c.id, container_files.c.position)


@dataclass(frozen=True)
class NewFile:
    """A file to store; `path` is below the folder of the conversation."""

    id: str
    container_id: str
    path: str
    mime_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class ContainerFile:
    """A file without its bytes; `created_at` in seconds since 1970, `size` in bytes."""

    id: str
    container_id: str
    path: str
    mime_type: str
    size: int
    created_at: int


@dataclass(frozen=True)
class FilePage:
    """Some files of a list; `has_more` where more follow."""

    files: tuple[ContainerFile, ...]
    has_more: bool


class ContainerFiles:
    """The files in a database; `Store` makes it. They go with their response."""

    def __init__(self, database: Database, server: ServerClock) -> None:
        self._database = database
        self._server = server

    def add(self, response_id: str, files: Sequence[NewFile]) -> builtins.list[ContainerFile]:
        """Store files of a response that runs. Raises `NotFoundError` where it was deleted."""
        table = container_files
        now = int(self._server.now())
        with self._database.writing() as connection:
            query = select(responses.c.id).where(
                responses.c.id == response_id, responses.c.deleted.is_(False)
            )
            if connection.execute(query.with_for_update(read=True)).first() is None:
                raise NotFoundError("response", response_id)
            count = select(func.count()).where(table.c.response_id == response_id)
            first = connection.execute(count).scalar_one()
            rows = [
                {
                    "id": file.id,
                    "container_id": file.container_id,
                    "response_id": response_id,
                    "position": position,
                    "path": file.path,
                    "mime_type": file.mime_type,
                    "size": len(file.data),
                    "created_at": now,
                    "data": file.data,
                }
                for position, file in enumerate(files, first)
            ]
            if rows:
                connection.execute(insert(table), rows)
        return [
            ContainerFile(
                file.id, file.container_id, file.path, file.mime_type, len(file.data), now
            )
            for file in files
        ]

    def list(self, container_id: str, owner: str) -> builtins.list[ContainerFile]:
        """List the files of a container, the oldest first; none where there is no container."""
        with self._database.reading() as connection:
            rows = connection.execute(self._visible(container_id, owner).order_by(*_AGE))
            return [_file(row) for row in rows]

    def page(
        self, container_id: str, owner: str, *, after: str | None, limit: int, order: Order
    ) -> FilePage:
        """Read the files that follow the one with the id `after`, `limit` at most.

        Raises `NotFoundError` where there is no such file.
        """
        query = self._visible(container_id, owner)
        with self._database.reading() as connection:
            if after is not None:
                named = query.where(container_files.c.id == after).with_only_columns(*_AGE)
                start = connection.execute(named).first()
                if start is None:
                    raise NotFoundError("file", after)
                ages = zip(start, _AGE, strict=True)
                start_age = tuple_(*(literal(value, column.type) for value, column in ages))
                age = tuple_(*_AGE)
                query = query.where(age > start_age if order == "asc" else age < start_age)
            ordered = (column.asc() if order == "asc" else column.desc() for column in _AGE)
            rows = connection.execute(query.order_by(*ordered).limit(limit + 1)).all()
        return FilePage(tuple(map(_file, rows[:limit])), has_more=len(rows) > limit)

    def get(self, container_id: str, id: str, owner: str) -> ContainerFile:
        """Read about a file. Raises `NotFoundError`."""
        query = self._visible(container_id, owner).where(container_files.c.id == id)
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise NotFoundError("file", id)
        return _file(row)

    def data(self, container_id: str, id: str, owner: str) -> bytes:
        """Read a file. Raises `NotFoundError`."""
        query = self._visible(container_id, owner).where(container_files.c.id == id)
        with self._database.reading() as connection:
            row = connection.execute(query.add_columns(container_files.c.data)).first()
        if row is None:
            raise NotFoundError("file", id)
        data: bytes = row.data
        return data

    def _visible(self, container_id: str, owner: str) -> Select[Any]:
        table = container_files
        return (
            select(*(column for column in table.c if column.name != "data"))
            .join(responses, responses.c.id == table.c.response_id)
            .where(
                table.c.container_id == container_id,
                responses.c.owner == owner,
                visible(self._server.now()),
            )
        )


def _file(row: Row[Any]) -> ContainerFile:
    return ContainerFile(
        row.id, row.container_id, row.path, row.mime_type, row.size, row.created_at
    )
