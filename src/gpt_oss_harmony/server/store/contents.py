"""The bytes of files: each content is stored once for an owner, by its hash; files refer to it.

So a file that is put into many containers takes its place once. Whoever adds or removes files of an
owner holds the lock of that owner until the transaction ends; then no content goes away while a
new file refers to it.
"""

from __future__ import annotations

import hashlib

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, insert, or_, select, text

from .database import Database
from .tables import container_files, contents, files, responses

__all__ = ["lock_contents", "put_content", "sweep", "sweep_all"]

_BATCH = 20  # contents that are deleted in one transaction; others write in between


def lock_contents(database: Database, connection: Connection, owner: str) -> None:
    """Wait until no other transaction adds or removes files of this owner."""
    if not database.is_sqlite:  # SQLite runs one writing transaction at a time
        digest = hashlib.sha256(f"harmony contents {owner}".encode()).digest()
        key = int.from_bytes(digest[:8], "big", signed=True)
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


def put_content(connection: Connection, owner: str, data: bytes) -> str:
    """Store a content, unless the owner has it; return its hash. The owner is locked."""
    hash = hashlib.sha256(data).hexdigest()
    known = select(contents.c.hash).where(contents.c.owner == owner, contents.c.hash == hash)
    if connection.execute(known).first() is None:
        values = {"owner": owner, "hash": hash, "size": len(data), "data": data}
        connection.execute(insert(contents).values(**values))
    return hash


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
    unused = select(contents.c.hash).where(contents.c.owner == owner, _is_unused()).limit(_BATCH)
    hashes = list(connection.execute(unused).scalars())
    if hashes:
        mine = and_(contents.c.owner == owner, contents.c.hash.in_(hashes))
        connection.execute(delete(contents).where(mine))
    return len(hashes)


def sweep_all(database: Database) -> int:
    """Delete all contents to which no file refers; return their number."""
    with database.reading() as connection:
        owners = connection.execute(select(contents.c.owner).where(_is_unused()).distinct())
        waiting = list(owners.scalars())
    count = 0
    while waiting:
        with database.writing() as connection:
            lock_contents(database, connection, waiting[-1])
            swept = sweep(connection, waiting[-1])
        count += swept
        if swept < _BATCH:
            waiting.pop()
    return count
