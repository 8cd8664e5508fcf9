"""Files that clients upload, and containers that they make; only their owner can see them.

A file with a `container_id` belongs to that container and is deleted with it. Code in the container
gets the file when a response uses the container.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    Row,
    Select,
    and_,
    delete,
    func,
    insert,
    select,
    update,
)

from ...conversation.built_in_tools import tools_with_container
from .contents import lock_contents, put_content, sweep
from .database import Database
from .errors import NotFoundError
from .expiring_rows import delete_rows, in_order, is_visible
from .items import Order
from .leases import ServerClock
from .quota import Quota
from .response_chains import visible
from .tables import (
    container_files,
    containers,
    contents,
    conversation_sessions,
    conversations,
    files,
    response_sessions,
    responses,
)

__all__ = [
    "ContainerPage",
    "Containers",
    "StoredContainer",
    "UploadPage",
    "UploadedFile",
    "Uploads",
]

_ROW = 200  # bytes of a row that refers to a content


@dataclass(frozen=True)
class UploadedFile:
    """A file without its bytes; times are in seconds since 1970, `size` in bytes."""

    id: str
    owner: str
    container_id: str | None
    purpose: str
    filename: str
    size: int
    created_at: int
    expires_at: int | None


class UploadPage(NamedTuple):
    """Some files, and whether more follow."""

    files: tuple[UploadedFile, ...]
    has_more: bool


@dataclass(frozen=True)
class StoredContainer:
    """A container; it expires `idle_minutes` after its last use, by default like a response."""

    id: str
    owner: str
    name: str
    created_at: int
    last_active_at: int
    idle_minutes: int | None
    expires_at: int | None


class ContainerPage(NamedTuple):
    """Some containers, and whether more follow."""

    containers: tuple[StoredContainer, ...]
    has_more: bool


class Uploads:
    """The files in a database; `Store` makes it. All methods raise `NotFoundError`."""

    def __init__(self, database: Database, server: ServerClock, quota: Quota) -> None:
        self._database = database
        self._server = server
        self._quota = quota

    def add(self, file: UploadedFile, data: bytes) -> None:
        """Store a file."""
        self._quota.add(file.owner, len(data))
        with self._database.writing() as connection:
            lock_contents(self._database, connection, file.owner)
            hash = put_content(connection, file.owner, data)
            connection.execute(insert(files).values(**vars(file), hash=hash))

    def get(self, id: str, owner: str) -> UploadedFile:
        """Describe a file that is not in a container."""
        with self._database.reading() as connection:
            return self._file(connection, id, owner)

    def data(self, id: str, owner: str) -> bytes:
        """Read a file, which may be in a container."""
        query = (
            select(contents.c.data)
            .join(files, and_(files.c.owner == contents.c.owner, files.c.hash == contents.c.hash))
            .where(files.c.id == id, is_visible(files, owner, self._server.now()))
        )
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise NotFoundError("file", id)
        data: bytes = row.data
        return data

    def delete(self, id: str, owner: str) -> None:
        """Delete a file that is not in a container; copies in containers stay."""
        with self._database.writing() as connection:
            lock_contents(self._database, connection, owner)
            self._file(connection, id, owner)
            connection.execute(delete(files).where(files.c.id == id))
            sweep(connection, owner)

    def page(
        self, owner: str, *, after: str | None, limit: int, order: Order, purpose: str | None
    ) -> UploadPage:
        """Read at most `limit` files after the one with the id `after`."""
        query = _files().where(
            is_visible(files, owner, self._server.now()), files.c.container_id.is_(None)
        )
        if purpose is not None:
            query = query.where(files.c.purpose == purpose)
        with self._database.reading() as connection:
            start = None if after is None else self._file(connection, after, owner)
            rows = connection.execute(in_order(query, files, start, order).limit(limit + 1)).all()
        return UploadPage(tuple(map(_upload, rows[:limit])), len(rows) > limit)

    def delete_expired(self) -> int:
        """Delete expired files; return their number."""
        return delete_rows(self._database, files, self._server.now())

    def _file(self, connection: Connection, id: str, owner: str) -> UploadedFile:
        return _upload(_uploaded_row(connection, _files(), id, owner, self._server.now()))


class Containers:
    """The containers in a database; `Store` makes it. All methods raise `NotFoundError`.

    A conversation whose code runs without a client's container has its own container, the session
    of its tool. This can also be described, filled and deleted, but it is not listed.
    """

    def __init__(self, database: Database, server: ServerClock, quota: Quota) -> None:
        self._database = database
        self._server = server
        self._quota = quota

    def add(self, container: StoredContainer, copies: Mapping[str, str]) -> None:
        """Store a container with copies of files; `copies` maps ids of files to ids of copies."""
        self._quota.add(container.owner, _ROW * (1 + len(copies)))
        with self._database.writing() as connection:
            lock_contents(self._database, connection, container.owner)
            connection.execute(insert(containers).values(**vars(container)))
            for file_id, new_id in copies.items():
                self._copy(connection, container.id, container.owner, file_id, new_id)

    def get(self, id: str, owner: str) -> StoredContainer:
        """Describe a container."""
        with self._database.reading() as connection:
            return self._container(connection, id, owner)

    def touch(self, id: str, owner: str, expires_at: int | None) -> None:
        """Record the use of a container; one without an idle time expires at `expires_at`."""
        now = int(self._server.now())
        with self._database.writing() as connection:
            container = self._container(connection, id, owner)
            if container.idle_minutes is not None:
                expires_at = now + 60 * container.idle_minutes
            change = update(containers).where(containers.c.id == id)
            connection.execute(change.values(last_active_at=now, expires_at=expires_at))

    def page(
        self, owner: str, *, after: str | None, limit: int, order: Order, name: str | None
    ) -> ContainerPage:
        """Read at most `limit` containers after the one with the id `after`."""
        query = select(containers).where(is_visible(containers, owner, self._server.now()))
        if name is not None:
            query = query.where(containers.c.name == name)
        with self._database.reading() as connection:
            start = None if after is None else self._container(connection, after, owner)
            rows = connection.execute(
                in_order(query, containers, start, order).limit(limit + 1)
            ).all()
        found = tuple(StoredContainer(**row._mapping) for row in rows[:limit])
        return ContainerPage(found, len(rows) > limit)

    def delete(self, id: str, owner: str) -> None:
        """Delete a container with its files and the state of its code."""
        with self._database.writing() as connection:
            lock_contents(self._database, connection, owner)
            self._container(connection, id, owner)
            connection.execute(delete(containers).where(containers.c.id == id))
            of_owner = select(responses.c.id).where(responses.c.owner == owner)
            for table in (container_files, response_sessions):
                column = table.c.container_id if table is container_files else table.c.id
                rows = delete(table).where(column == id, table.c.response_id.in_(of_owner))
                connection.execute(rows)
            talks = select(conversations.c.id).where(conversations.c.owner == owner)
            table = conversation_sessions
            connection.execute(
                delete(table).where(table.c.id == id, table.c.conversation_id.in_(talks))
            )
            sweep(connection, owner)

    def add_file(self, file: UploadedFile, data: bytes) -> None:
        """Put a file into a container."""
        self._quota.add(file.owner, len(data))
        with self._database.writing() as connection:
            lock_contents(self._database, connection, file.owner)
            self._adopt(connection, str(file.container_id), file.owner)
            hash = put_content(connection, file.owner, data)
            connection.execute(insert(files).values(**vars(file), hash=hash))

    def copy_file(self, id: str, owner: str, file_id: str, new_id: str) -> UploadedFile:
        """Put a copy of a file into a container; return the copy."""
        self._quota.add(owner, _ROW)
        with self._database.writing() as connection:
            lock_contents(self._database, connection, owner)
            self._adopt(connection, id, owner)
            return self._copy(connection, id, owner, file_id, new_id)

    def files(self, id: str, owner: str) -> builtins.list[UploadedFile]:
        """List the files that clients put into a container, the oldest first."""
        query = _files().where(
            is_visible(files, owner, self._server.now()), files.c.container_id == id
        )
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(files.c.created_at, files.c.id))
            return [_upload(row) for row in rows]

    def delete_file(self, id: str, owner: str, file_id: str) -> None:
        """Delete a file of a container, whether from the client or the code."""
        with self._database.writing() as connection:
            lock_contents(self._database, connection, owner)
            self._container(connection, id, owner)
            mine = and_(files.c.id == file_id, files.c.container_id == id, files.c.owner == owner)
            table = container_files
            of_owner = select(responses.c.id).where(responses.c.owner == owner)
            written = and_(
                table.c.id == file_id,
                table.c.container_id == id,
                table.c.response_id.in_(of_owner),
            )
            count = connection.execute(delete(files).where(mine)).rowcount
            count += connection.execute(delete(table).where(written)).rowcount
            if not count:
                raise NotFoundError("file", file_id)
            sweep(connection, owner)

    def delete_expired(self) -> int:
        """Delete expired containers; return their number."""
        return delete_rows(self._database, containers, self._server.now())

    def _container(self, connection: Connection, id: str, owner: str) -> StoredContainer:
        query = select(containers).where(
            containers.c.id == id, is_visible(containers, owner, self._server.now())
        )
        row = connection.execute(query).first()
        if row is not None:
            return StoredContainer(**row._mapping)
        query = (
            select(
                func.min(responses.c.created_at).label("created_at"),
                func.max(responses.c.created_at).label("last_active_at"),
                func.max(responses.c.expires_at).label("expires_at"),
            )
            .join(response_sessions, response_sessions.c.response_id == responses.c.id)
            .where(
                response_sessions.c.id == id,
                response_sessions.c.tool.in_(tools_with_container()),
                responses.c.owner == owner,
                visible(self._server.now()),
            )
        )
        used = connection.execute(query).one()
        if used.created_at is not None:
            return StoredContainer(id, owner, "auto", idle_minutes=None, **used._mapping)
        talk = (
            select(conversations.c.created_at)
            .join(
                conversation_sessions, conversation_sessions.c.conversation_id == conversations.c.id
            )
            .where(
                conversation_sessions.c.id == id,
                conversation_sessions.c.tool.in_(tools_with_container()),
            )
            .where(conversations.c.owner == owner)
        )
        created_at = connection.execute(talk).scalar()
        if created_at is None:
            raise NotFoundError("container", id)
        return StoredContainer(id, owner, "auto", created_at, created_at, None, None)

    def _adopt(self, connection: Connection, id: str, owner: str) -> None:
        """Store the container of a conversation as a client's container."""
        container = self._container(connection, id, owner)
        if connection.execute(select(containers.c.id).where(containers.c.id == id)).first() is None:
            connection.execute(insert(containers).values(**vars(container)))

    def _copy(
        self, connection: Connection, id: str, owner: str, file_id: str, new_id: str
    ) -> UploadedFile:
        now = self._server.now()
        row = _uploaded_row(connection, select(files), file_id, owner, now)
        values = {
            **row._mapping,
            "id": new_id,
            "container_id": id,
            "created_at": int(now),
            "expires_at": None,
        }
        connection.execute(insert(files).values(**values))
        del values["hash"]
        return UploadedFile(**values)


def _files() -> Select[Any]:
    """Select files without their bytes."""
    return select(*(column for column in files.c if column.name != "hash"))


def _upload(row: Row[Any]) -> UploadedFile:
    return UploadedFile(**row._mapping)


def _uploaded_row(
    connection: Connection, query: Select[Any], id: str, owner: str, now: float
) -> Row[Any]:
    """Read a file that is not in a container."""
    query = query.where(files.c.id == id, files.c.container_id.is_(None))
    row = connection.execute(query.where(is_visible(files, owner, now))).first()
    if row is None:
        raise NotFoundError("file", id)
    return row
