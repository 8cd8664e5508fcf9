"""Files that clients upload, and the bytes of all files; only their owner can see them.

Each content is stored once for an owner, by its hash; files refer to it. So a file that is put into
many containers takes its place once. Whoever adds or removes files of an owner holds the lock of
that owner until the transaction ends; then no content goes away while a new file refers to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    delete,
    exists,
    insert,
    or_,
    select,
    update,
)

from ...apis.files import PartialUpload, UploadedFile
from .database import Database, deletion, lock_key
from .errors import NotFoundError, UploadError
from .rows import Order, OwnedRows, Page, new_id
from .tables import container_files, contents, files, responses, uploads

MAX_SWEPT_BYTES = 16 << 20
"""The most bytes of contents that one transaction deletes, unless one content has more."""
_PART = "part of "  # the purpose of a part begins so
_BATCH = 20  # contents that are deleted in one transaction; others write in between


@contextmanager
def changing_files(database: Database, owner: str) -> Generator[Connection, None, None]:
    """Write in one transaction, while no other adds or removes files of this owner."""
    with database.writing() as connection:
        database.lock(connection, lock_key(f"contents {owner}"))
        yield connection


def put_content(connection: Connection, owner: str, data: bytes) -> str:
    """Store a content, unless the owner has it; return its hash. The owner is locked."""
    hash = hashlib.sha256(data).hexdigest()
    known = select(contents.c.hash).where(contents.c.owner == owner, contents.c.hash == hash)
    if connection.execute(known).first() is None:
        values = {"owner": owner, "hash": hash, "size": len(data), "data": data}
        connection.execute(insert(contents).values(**values))
    return hash


def insert_file(connection: Connection, file: UploadedFile, data: bytes) -> None:
    """Store a file with its content. The owner is locked."""
    hash = put_content(connection, file.owner, data)
    connection.execute(insert(files).values(**vars(file), hash=hash))


def read_content(connection: Connection, owner: str, hash: str) -> bytes:
    """Read the content with this hash."""
    query = select(contents.c.data).where(contents.c.owner == owner, contents.c.hash == hash)
    return bytes(connection.execute(query).scalar_one())


def _is_unused() -> ColumnElement[bool]:
    of_client = exists().where(files.c.owner == contents.c.owner, files.c.hash == contents.c.hash)
    of_code = (
        exists()
        .where(container_files.c.hash == contents.c.hash)
        .where(responses.c.id == container_files.c.response_id)
        .where(responses.c.owner == contents.c.owner)
    )
    return ~or_(of_client, of_code)


def sweep(connection: Connection, owner: str) -> int:
    """Delete some contents to which no file refers; return their number. The owner is locked."""
    columns = select(contents.c.hash, contents.c.size)
    unused = columns.where(contents.c.owner == owner, _is_unused()).limit(_BATCH)
    hashes: list[str] = []
    total = 0
    for hash, size in connection.execute(unused).all():
        total += size
        if hashes and total > MAX_SWEPT_BYTES:
            break
        hashes.append(hash)
    if hashes:
        mine = and_(contents.c.owner == owner, contents.c.hash.in_(hashes))
        connection.execute(delete(contents).where(mine))
    return len(hashes)


def _sweep_some(database: Database, owner: str) -> int:
    with changing_files(database, owner) as connection:
        return sweep(connection, owner)


def sweep_all(database: Database) -> int:
    """Delete all contents to which no file refers; return their number."""
    with database.reading() as connection:
        owners = connection.execute(select(contents.c.owner).where(_is_unused()).distinct())
        waiting = list(owners.scalars())
    count = 0
    while waiting:
        swept = database.delete(partial(_sweep_some, database, waiting[-1]))
        count += swept
        if not swept:
            waiting.pop()
    return count


class Uploads(OwnedRows[UploadedFile]):
    """The files in a database; `Store` makes it.

    `data` also reads a file in a container, and `in_container` lists these; all other methods pass
    them by.
    """

    kind = "file"
    table = files
    record = UploadedFile

    def add(self, file: UploadedFile, data: bytes) -> None:
        """Store a file. Raises `StorageFullError` if the owner has no room for it."""
        adding = self._quota.adding(file.owner, len(data), rows=2)
        with adding, changing_files(self._database, file.owner) as connection:
            insert_file(connection, file, data)

    def data(self, id: str, owner: str) -> bytes:
        """Read the bytes of a file. Raises `NotFoundError`."""
        query = super()._visible(owner).where(files.c.id == id).with_only_columns(files.c.hash)
        with self._database.reading() as connection:
            hash = connection.execute(query).scalar()
            if hash is None:
                raise NotFoundError("file", id)
            return read_content(connection, owner, hash)

    @deletion
    def delete(self, id: str, owner: str) -> None:
        """Delete a file; copies in containers stay. Raises `NotFoundError`."""
        with changing_files(self._database, owner) as connection:
            self.read(connection, id, owner)
            connection.execute(delete(files).where(files.c.id == id))
            sweep(connection, owner)

    def page(
        self, owner: str, *, after: str | None, limit: int, order: Order, purpose: str | None
    ) -> Page[UploadedFile]:
        """Read at most `limit` files after the one with the id `after`."""
        query = self._visible(owner)
        if purpose is not None:
            query = query.where(files.c.purpose == purpose)
        return self._page(query, owner, after=after, limit=limit, order=order)

    def in_container(self, container_id: str, owner: str) -> list[UploadedFile]:
        """List the files that clients put into a container, the oldest first."""
        query = super()._visible(owner).where(files.c.container_id == container_id)
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(files.c.created_at, files.c.id))
            return list(map(self._read_row, rows))

    def _visible(self, owner: str) -> Select[Any]:
        is_part = files.c.purpose.startswith(_PART)
        return super()._visible(owner).where(files.c.container_id.is_(None), ~is_part)


class PartialUploads(OwnedRows[PartialUpload]):
    """The uploads in parts of a database; `Store` makes it."""

    kind = "upload"
    table = uploads
    record = PartialUpload

    def add(self, upload: PartialUpload) -> None:
        """Store an upload without parts."""
        with self._quota.adding(upload.owner, 0, rows=1), self._database.writing() as connection:
            connection.execute(insert(uploads).values(**vars(upload)))

    def add_part(self, id: str, owner: str, part: str, now: int, data: bytes) -> None:
        """Store a part, which is a file with the id `part`. Raises `UploadError` if it is over."""
        adding = self._quota.adding(owner, len(data), rows=2)
        with adding, changing_files(self._database, owner) as connection:
            upload = self._pending(connection, id, owner)
            purpose, end = f"{_PART}{id}", upload.expires_at
            file = UploadedFile(part, owner, None, purpose, part, len(data), now, end)
            insert_file(connection, file, data)

    def _pending(self, connection: Connection, id: str, owner: str) -> PartialUpload:
        upload = self.read(connection, id, owner, to_write=True)
        if upload.status != "pending":
            raise UploadError(f"the upload {id!r} is {upload.status}; create another one")
        return upload

    def complete(
        self, id: str, owner: str, parts: Sequence[str], md5: str | None
    ) -> tuple[PartialUpload, UploadedFile]:
        """Make the file of an upload from its parts in this order. Raises `UploadError`.

        The same arguments again return the file again: the first answer may have been lost.
        """
        request = hashlib.sha256(json.dumps([*parts, md5]).encode()).hexdigest()
        with changing_files(self._database, owner) as connection:
            upload = self.read(connection, id, owner, to_write=True)
            about = {"id": new_id("file-"), **upload.file}  # older servers gave the id at the end
            completed_by = about.pop("completed_by", None)
            file = UploadedFile(owner=owner, container_id=None, **about)
            if upload.status != "completed":
                # In this transaction, so that no upload is completed without `completed_by`.
                upload = self.end(id, owner, file, parts, md5)
                described = {**about, "completed_by": request}
                mine = update(uploads).where(uploads.c.id == id)
                connection.execute(mine.values(file=described))
            elif completed_by != request:
                problem = "is completed, with other parts or another md5; create another one"
                raise UploadError(f"the upload {id!r} {problem}")
            elif (
                connection.execute(select(files.c.id).where(files.c.id == file.id)).first() is None
            ):
                raise NotFoundError("file", file.id)
        return upload, file

    def end(
        self,
        id: str,
        owner: str,
        file: UploadedFile | None = None,
        parts: Sequence[str] = (),
        md5: str | None = None,
    ) -> PartialUpload:
        """Make the file of an upload from its parts; without a file, cancel it. Delete the parts.

        Raises `UploadError`.
        """
        with changing_files(self._database, owner) as connection:
            upload = self._pending(connection, id, owner)
            are_parts = (files.c.owner == owner, files.c.purpose == f"{_PART}{id}")
            columns = (files.c.id, files.c.hash, files.c.size)
            found = {row.id: row for row in connection.execute(select(*columns).where(*are_parts))}
            if file is not None:
                missing = [part for part in parts if part not in found]
                if missing:
                    raise UploadError(f"the upload has no part {missing[0]!r:.80}")
                size = sum(found[part].size for part in parts)  # before they are in memory
                if size != file.size or len(set(parts)) < len(parts):
                    problem = f"the parts have {size:,} bytes, not {file.size:,}"
                    if size == file.size:
                        problem = "a part is named twice"
                    raise UploadError(f"{problem}; name every part once, in order")
                hashes = [found[part].hash for part in parts]
                data = b"".join(read_content(connection, owner, hash) for hash in hashes)
                # Where FIPS forbids MD5, Python still has it for what is no matter of security.
                if md5 not in (None, hashlib.md5(data, usedforsecurity=False).hexdigest()):
                    raise UploadError("the parts have another md5; upload them again")
                insert_file(connection, file, data)
            connection.execute(delete(files).where(*are_parts))
            sweep(connection, owner)
            status = "cancelled" if file is None else "completed"
            connection.execute(update(uploads).where(uploads.c.id == id).values(status=status))
        return replace(upload, status=status)
