"""Containers, and their files: those that clients have put there, and those that code has written.

A container is made by a client, or belongs to a conversation whose code runs without one. Files of
code are stored with the response that ran the code. Only their owner can see any of these.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from sqlalchemy import Connection, Select, and_, delete, func, insert, select, update

from ...apis.files import UploadedFile
from ...conversation.built_in_tools import tools_with_container
from .database import Database, deletion
from .errors import NotFoundError
from .files import (
    Uploads,
    changing_files,
    insert_file,
    put_content,
    read_content,
    sweep,
)
from .owned_data import Quota
from .response_chains import StoredSession, kept_sessions, lock_container, visible
from .rows import Order, OwnedRows, Page
from .running_servers import ServerClock
from .tables import (
    container_files,
    containers,
    conversation_sessions,
    conversations,
    files,
    response_sessions,
    responses,
)


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


class Containers(OwnedRows[StoredContainer]):
    """The containers in a database; `Store` makes it. All methods raise `NotFoundError`.

    A conversation whose code runs without a client's container has its own container, the session
    of its tool. This can also be described, filled and deleted, but it is not listed.
    """

    kind = "container"
    table = containers
    record = StoredContainer

    def __init__(self, database: Database, server: ServerClock, quota: Quota) -> None:
        super().__init__(database, server, quota)
        self._uploads = Uploads(database, server, quota)

    def add(self, container: StoredContainer, copies: Mapping[str, str]) -> None:
        """Store a container with copies of files; `copies` maps ids of files to ids of copies."""
        adding = self._quota.adding(container.owner, 0, rows=1 + len(copies))
        with adding, changing_files(self._database, container.owner) as connection:
            connection.execute(insert(containers).values(**vars(container)))
            for file_id, new_id in copies.items():
                self._copy(connection, container.id, container.owner, file_id, new_id)

    def touch(self, id: str, owner: str, expires_at: int | None) -> None:
        """Record the use of a container; one without an idle time expires at `expires_at`."""
        now = int(self._server.now())
        with self._database.writing() as connection:
            container = self.read(connection, id, owner)
            if container.idle_minutes is not None:
                expires_at = now + 60 * container.idle_minutes
            change = update(containers).where(containers.c.id == id)
            connection.execute(change.values(last_active_at=now, expires_at=expires_at))

    def page(
        self, owner: str, *, after: str | None, limit: int, order: Order, name: str | None
    ) -> Page[StoredContainer]:
        """Read at most `limit` containers after the one with the id `after`."""
        query = self._visible(owner)
        if name is not None:
            query = query.where(containers.c.name == name)
        return self._page(query, owner, after=after, limit=limit, order=order)

    @deletion
    def delete(self, id: str, owner: str) -> None:
        """Delete a container with its files and the state of its code."""
        with changing_files(self._database, owner) as connection:
            lock_container(self._database, connection, id)
            self.read(connection, id, owner)
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
        adding = self._quota.adding(file.owner, len(data), rows=2)
        with adding, changing_files(self._database, file.owner) as connection:
            self._adopt(connection, str(file.container_id), file.owner)
            insert_file(connection, file, data)

    def copy_file(self, id: str, owner: str, file_id: str, new_id: str) -> UploadedFile:
        """Put a copy of a file into a container; return the copy."""
        adding = self._quota.adding(owner, 0, rows=1)
        with adding, changing_files(self._database, owner) as connection:
            self._adopt(connection, id, owner)
            return self._copy(connection, id, owner, file_id, new_id)

    def files(self, id: str, owner: str) -> list[UploadedFile]:
        """List the files that clients put into a container, the oldest first."""
        return self._uploads.in_container(id, owner)

    @deletion
    def delete_file(self, id: str, owner: str, file_id: str) -> None:
        """Delete a file of a container, whether from the client or the code."""
        with changing_files(self._database, owner) as connection:
            self.read(connection, id, owner)
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

    def read(
        self, connection: Connection, id: str, owner: str, *, to_write: bool = False
    ) -> StoredContainer:
        """Read a container, which may be the session of a tool. Raises `NotFoundError`."""
        with suppress(NotFoundError):
            return super().read(connection, id, owner, to_write=to_write)
        used = connection.execute(
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
        ).one()
        # Where no response uses it, the query still has one row, of NULLs.
        if used.created_at is not None:
            return StoredContainer(id, owner, "auto", idle_minutes=None, **used._mapping)
        sessions = conversation_sessions
        created_at = connection.execute(
            select(conversations.c.created_at)
            .join(sessions, conversations.c.id == sessions.c.conversation_id)
            .where(
                sessions.c.id == id,
                sessions.c.tool.in_(tools_with_container()),
                conversations.c.owner == owner,
            )
        ).scalar()
        if created_at is None:
            raise NotFoundError("container", id)
        return StoredContainer(id, owner, "auto", created_at, created_at, None, None)

    def _adopt(self, connection: Connection, id: str, owner: str) -> None:
        """Store the container of a conversation as a client's container."""
        container = self.read(connection, id, owner)
        if connection.execute(select(containers.c.id).where(containers.c.id == id)).first() is None:
            connection.execute(insert(containers).values(**vars(container)))

    def _copy(
        self, connection: Connection, id: str, owner: str, file_id: str, new_id: str
    ) -> UploadedFile:
        file = self._uploads.read(connection, file_id, owner)
        now = int(self._server.now())
        copy = replace(file, id=new_id, container_id=id, created_at=now, expires_at=None)
        hash = select(files.c.hash).where(files.c.id == file_id).scalar_subquery()
        connection.execute(insert(files).values(**vars(copy), hash=hash))
        return copy


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


class ContainerFiles:
    """The files of containers in a database; `Store` makes it.

    Files of code are deleted with their response.
    """

    def __init__(self, database: Database, server: ServerClock, quota: Quota) -> None:
        self._database = database
        self._server = server
        self._quota = quota
        self._uploads = Uploads(database, server, quota)

    # `builtins`, because `list` is a method of this class.
    def add(
        self, response_id: str, files: Sequence[NewFile], session: StoredSession | None = None
    ) -> builtins.list[ContainerFile]:
        """Store files of a running response, and of the `session` of its tool.

        Raises `NotFoundError` if the response or its container was deleted, and `StorageFullError`
        if its owner has no room for them.
        """
        now = int(self._server.now())
        query = select(responses.c.owner).where(
            responses.c.id == response_id, responses.c.deleted.is_(False)
        )
        with self._database.reading() as connection:
            owner = connection.execute(query).scalar()
        if owner is None:
            raise NotFoundError("response", response_id)
        adding = self._quota.adding(
            owner, sum(len(file.data) for file in files), rows=2 * len(files)
        )
        added = [
            ContainerFile(
                file.id, file.container_id, file.path, file.mime_type, len(file.data), now
            )
            for file in files
        ]
        with adding, changing_files(self._database, owner) as connection:
            # Again, and locked: it may have been deleted since its owner was read.
            if connection.execute(query.with_for_update(read=True)).first() is None:
                raise NotFoundError("response", response_id)
            if session and not kept_sessions(self._database, connection, [session]):
                raise NotFoundError("container", session.id)
            of_response = container_files.c.response_id == response_id
            first = connection.execute(select(func.count()).where(of_response)).scalar_one()
            for position, (file, made) in enumerate(zip(files, added, strict=True), first):
                values = {**vars(made), "response_id": response_id, "position": position}
                del values["source"]
                hash = put_content(connection, owner, file.data)
                connection.execute(insert(container_files).values(**values, hash=hash))
        return added

    def list(self, container_id: str, owner: str) -> builtins.list[ContainerFile]:
        """List the files of code, the oldest first; none if there is no container."""
        age = (responses.c.created_at, responses.c.id, container_files.c.position)
        with self._database.reading() as connection:
            rows = connection.execute(self._visible(container_id, owner).order_by(*age))
            return [ContainerFile(**row._mapping) for row in rows]

    def page(
        self, container_id: str, owner: str, *, after: str | None, limit: int, order: Order
    ) -> Page[ContainerFile]:
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
        return Page(tuple(listed[:limit]), has_more=len(listed) > limit)

    def get(self, container_id: str, id: str, owner: str) -> ContainerFile:
        """Describe a file. Raises `NotFoundError`."""
        query = self._visible(container_id, owner).where(container_files.c.id == id)
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        if row is not None:
            return ContainerFile(**row._mapping)
        for file in self._uploaded(container_id, owner):
            if file.id == id:
                return file
        raise NotFoundError("file", id)

    def data(self, container_id: str, id: str, owner: str) -> bytes:
        """Read the bytes of a file. Raises `NotFoundError`."""
        written = self._visible(container_id, owner).where(container_files.c.id == id)
        uploaded = select(files.c.hash).where(
            files.c.id == id, files.c.container_id == container_id, files.c.owner == owner
        )
        with self._database.reading() as connection:
            for query in (written.with_only_columns(container_files.c.hash), uploaded):
                hash = connection.execute(query).scalar()
                if hash is not None:
                    return read_content(connection, owner, hash)
        raise NotFoundError("file", id)

    def _uploaded(self, container_id: str, owner: str) -> builtins.list[ContainerFile]:
        return [
            ContainerFile(
                file.id, container_id, file.filename, "", file.size, file.created_at, "user"
            )
            for file in self._uploads.in_container(container_id, owner)
        ]

    def _visible(self, container_id: str, owner: str) -> Select[Any]:
        columns = container_files.c
        names = (each.name for each in fields(ContainerFile) if each.name != "source")
        return (
            select(*(columns[name] for name in names))
            .join(responses, responses.c.id == columns.response_id)
            .where(
                columns.container_id == container_id,
                responses.c.owner == owner,
                visible(self._server.now()),
            )
        )
