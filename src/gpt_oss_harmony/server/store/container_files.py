"""The files of containers, which code has written or their owner has put there.

Files of code are stored with the response that ran the code.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import Row, Select, func, insert, select

from .contents import lock_contents, put_content
from .database import Database
from .errors import NotFoundError
from .items import Order
from .leases import ServerClock
from .quota import Quota
from .response_chains import visible
from .tables import container_files, contents, files, responses

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
    """A file without its bytes; `created_at` in seconds since 1970, `size` in bytes.

    `source` is the author: the model's code, or the client.
    """

    id: str
    container_id: str
    path: str
    mime_type: str
    size: int
    created_at: int
    source: Literal["assistant", "user"] = "assistant"


@dataclass(frozen=True)
class FilePage:
    """Some files of a list; `has_more` is true if more follow."""

    files: tuple[ContainerFile, ...]
    has_more: bool


class ContainerFiles:
    """The files in a database; `Store` makes it. Files of code are deleted with their response."""

    def __init__(self, database: Database, server: ServerClock, quota: Quota) -> None:
        self._database = database
        self._server = server
        self._quota = quota

    def add(self, response_id: str, files: Sequence[NewFile]) -> builtins.list[ContainerFile]:
        """Store files of a running response. Raises `NotFoundError` if it was deleted.

        Raises `StorageFullError` if its owner has no room for them.
        """
        table = container_files
        now = int(self._server.now())
        query = select(responses.c.owner).where(
            responses.c.id == response_id, responses.c.deleted.is_(False)
        )
        with self._database.reading() as connection:
            owner = connection.execute(query).scalar()
        if owner is None:
            raise NotFoundError("response", response_id)
        self._quota.add(owner, sum(len(file.data) for file in files))
        with self._database.writing() as connection:
            lock_contents(self._database, connection, owner)
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
                    "hash": put_content(connection, owner, file.data),
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
        """List the files of a container, the oldest first; none if there is no container."""
        with self._database.reading() as connection:
            rows = connection.execute(self._visible(container_id, owner).order_by(*_AGE))
            return [_file(row) for row in rows]

    def page(
        self, container_id: str, owner: str, *, after: str | None, limit: int, order: Order
    ) -> FilePage:
        """Read at most `limit` files after the one with the id `after`.

        Raises `NotFoundError` if there is no such file.
        """
        listed = [*self._uploaded(container_id, owner), *self.list(container_id, owner)]
        listed.sort(key=lambda file: file.created_at)
        if order == "desc":
            listed.reverse()
        if after is not None:
            ids = [file.id for file in listed]
            if after not in ids:
                raise NotFoundError("file", after)
            listed = listed[ids.index(after) + 1 :]
        return FilePage(tuple(listed[:limit]), has_more=len(listed) > limit)

    def get(self, container_id: str, id: str, owner: str) -> ContainerFile:
        """Describe a file. Raises `NotFoundError`."""
        query = self._visible(container_id, owner).where(container_files.c.id == id)
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        if row is not None:
            return _file(row)
        for file in self._uploaded(container_id, owner):
            if file.id == id:
                return file
        raise NotFoundError("file", id)

    def data(self, container_id: str, id: str, owner: str) -> bytes:
        """Read a file. Raises `NotFoundError`."""
        written = self._visible(container_id, owner).where(container_files.c.id == id)
        uploaded = select(files.c.hash).where(
            files.c.id == id, files.c.container_id == container_id, files.c.owner == owner
        )
        with self._database.reading() as connection:
            for query in (written.with_only_columns(container_files.c.hash), uploaded):
                hash = connection.execute(query).scalar()
                if hash is not None:
                    stored = select(contents.c.data).where(
                        contents.c.owner == owner, contents.c.hash == hash
                    )
                    return bytes(connection.execute(stored).scalar_one())
        raise NotFoundError("file", id)

    def _uploaded(self, container_id: str, owner: str) -> builtins.list[ContainerFile]:
        """List the files that the client put there, the oldest first."""
        query = (
            select(files.c.id, files.c.filename, files.c.size, files.c.created_at)
            .where(files.c.container_id == container_id, files.c.owner == owner)
            .order_by(files.c.created_at, files.c.id)
        )
        with self._database.reading() as connection:
            return [
                ContainerFile(
                    row.id, container_id, row.filename, "", row.size, row.created_at, "user"
                )
                for row in connection.execute(query)
            ]

    def _visible(self, container_id: str, owner: str) -> Select[Any]:
        table = container_files
        return (
            select(*(column for column in table.c if column.name != "hash"))
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
