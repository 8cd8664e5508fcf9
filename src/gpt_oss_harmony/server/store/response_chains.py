"""Responses that follow each other by ``previous_response_id``, and what the next one continues.

It continues the items of the chain, and the sessions of built-in tools: the state of each in the
conversation, as text.

A response can only follow an existing one, so chains have no circles.

A deleted or expired response is not found, and no request can continue it. Its body and events are
deleted at once. Its items stay while another response follows it, so that the follower's
conversation stays the same, and are deleted with the last follower. To delete a whole chain, delete
each of its responses.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Row,
    and_,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    union_all,
    update,
)

from ...conversation.built_in_tools import tools_with_container
from .database import DELETIONS, Database, lock_key
from .rows import is_kept
from .running_servers import ServerClock
from .tables import (
    container_files,
    containers,
    conversation_sessions,
    conversations,
    response_sessions,
    responses,
)

_BATCH = 200  # rows of one statement or transaction; others write in between


def visible(now: float) -> ColumnElement[bool]:
    """Select responses that are neither deleted nor expired."""
    return and_(responses.c.deleted.is_(False), is_kept(responses, now))


def visible_to(owner: str, now: float, id: str) -> ColumnElement[bool]:
    """Select the response `id` if `owner` may see it."""
    return and_(responses.c.id == id, responses.c.owner == owner, visible(now))


def chain_of(id: str, owner: str, now: float) -> CTE:
    """Select the responses that `owner` continues with the response `id`, which must be visible."""
    return _chain(visible_to(owner, now, id), responses.c.owner == owner)


def _chain(newest: ColumnElement[bool], older: ColumnElement[bool]) -> CTE:
    """Select a response (`age` 0), the one before it (`age` 1), and so on, by these conditions."""
    columns = (
        responses.c.id,
        responses.c.previous_response_id,
        responses.c.conversation_id,
        responses.c.conversation_length,
    )
    first = select(*columns, literal(0).label("age")).where(newest)
    chain = first.cte("chain", recursive=True)
    before = (
        select(*columns, chain.c.age + 1)
        .join(chain, responses.c.id == chain.c.previous_response_id)
        .where(older)
    )
    return chain.union_all(before)


def forget(database: Database, connection: Connection, ids: list[str]) -> None:
    """Delete responses and those before them that no other response follows."""
    database.lock(connection, DELETIONS)
    connection.execute(
        update(responses)
        .where(responses.c.id.in_(ids))
        .values(deleted=True, body={}, events=None, server_id=None)
    )
    connection.execute(delete(container_files).where(container_files.c.response_id.in_(ids)))
    for id in ids:
        unneeded = _unneeded(connection, id)
        for start in range(0, len(unneeded), _BATCH):
            batch = unneeded[start : start + _BATCH]
            connection.execute(delete(responses).where(responses.c.id.in_(batch)))


def _unneeded(connection: Connection, id: str) -> list[str]:
    """List a deleted response, followed by those before it that no other response follows."""
    gone = responses.c.deleted.is_(True)
    chain = _chain(and_(responses.c.id == id, gone), gone)
    follower = responses.alias("follower")
    followers = (
        select(func.count())
        .select_from(follower)
        .where(follower.c.previous_response_id == chain.c.id)
        .scalar_subquery()
    )
    query = select(chain.c.id, followers.label("followers")).order_by(chain.c.age)
    unneeded: list[str] = []
    for row in connection.execute(query):
        # An older response still has the follower that is deleted with it.
        if row.followers > (1 if unneeded else 0):
            break
        unneeded.append(row.id)
    return unneeded


# Sessions of tools


@dataclass(frozen=True)
class StoredSession:
    """The session of a tool: its id stays the same for the whole conversation.

    One that `continues` a container of the database is not stored once that has been deleted.
    """

    tool: str
    id: str
    data: str = field(repr=False)
    continues: bool = field(default=False, compare=False)


class ToolSessions:
    """The sessions in a database; `Store` makes it."""

    def __init__(self, database: Database, server: ServerClock) -> None:
        self._database = database
        self._server = server

    def after_response(self, id: str, owner: str) -> list[StoredSession]:
        """Read the sessions for the response that follows this one.

        The session of a tool is that of the newest response in the chain that used the tool, or
        else that of the conversation in which the chain began.
        """
        chain = chain_of(id, owner, self._server.now())
        table = response_sessions
        with self._database.reading() as connection:
            rows = connection.execute(
                select(table.c.response_id, table.c.tool)
                .join(chain, table.c.response_id == chain.c.id)
                .order_by(chain.c.age.desc())
            )
            newest = {row.tool: row.response_id for row in rows}  # the last of each
            used = (
                and_(table.c.response_id == response_id, table.c.tool == tool)
                for tool, response_id in newest.items()
            )
            # Without `False`, no condition at all would select the rows of every response.
            rows_of_chain = connection.execute(select(table).where(or_(False, *used))).all()
            began = select(chain.c.conversation_id).order_by(chain.c.age.desc()).limit(1)
            conversation_id = connection.execute(began).scalar()
            older = _of_conversation(connection, conversation_id, owner)
        return list({row.tool: _session(row) for row in [*older, *rows_of_chain]}.values())

    def in_conversation(self, id: str, owner: str) -> list[StoredSession]:
        """Read the sessions for the next response in a conversation."""
        with self._database.reading() as connection:
            return [_session(row) for row in _of_conversation(connection, id, owner)]

    def by_id(self, id: str, tool: str, owner: str) -> StoredSession | None:
        """Read the newest session of a tool with an id; None if the owner has none."""
        table = response_sessions
        newest = (
            select(table)
            .join(responses, responses.c.id == table.c.response_id)
            .where(table.c.id == id, table.c.tool == tool)
            .where(responses.c.owner == owner, visible(self._server.now()))
            .order_by(
                func.coalesce(table.c.stored_at, 0).desc(),  # older servers stored no time
                responses.c.created_at.desc(),
                responses.c.id.desc(),
            )
            .limit(1)
        )
        in_conversation = (
            select(conversation_sessions)
            .join(conversations, conversations.c.id == conversation_sessions.c.conversation_id)
            .where(conversation_sessions.c.id == id, conversation_sessions.c.tool == tool)
            .where(conversations.c.owner == owner)
        )
        with self._database.reading() as connection:
            rows = [*connection.execute(newest), *connection.execute(in_conversation)]
        row = max(rows, key=lambda row: row.stored_at or 0, default=None)
        return None if row is None else _session(row)

    def kept(self, sessions: Iterable[StoredSession]) -> list[StoredSession]:
        """Leave out those of deleted containers."""
        with self._database.reading() as connection:
            return kept_sessions(self._database, connection, sessions)


def lock_container(database: Database, connection: Connection, id: str) -> None:
    """Let no other transaction delete a container, or store a session of it."""
    database.lock(connection, lock_key(f"container {id}"))


def kept_sessions(
    database: Database, connection: Connection, sessions: Iterable[StoredSession]
) -> list[StoredSession]:
    """Leave out the sessions of deleted containers; lock the other containers."""
    kept: list[StoredSession] = []
    for session in sessions:
        if session.continues:
            lock_container(database, connection, session.id)
            tables = (containers, response_sessions, conversation_sessions)
            rows = union_all(*(select(each.c.id).where(each.c.id == session.id) for each in tables))
            if connection.execute(rows.limit(1)).first() is None:
                continue
        kept.append(session)
    return kept


def insert_sessions(
    connection: Connection, response_id: str, sessions: Sequence[StoredSession]
) -> None:
    """Store one or more sessions as those of a response."""
    rows = [{"response_id": response_id, **_columns(session)} for session in sessions]
    connection.execute(insert(response_sessions), rows)


def replace_sessions(
    connection: Connection, conversation_id: str, sessions: Iterable[StoredSession]
) -> None:
    """Store sessions as those of a conversation, whose row is locked."""
    table = conversation_sessions
    rows = [{"conversation_id": conversation_id, **_columns(session)} for session in sessions]
    for row in rows:
        replaced = and_(table.c.conversation_id == conversation_id, table.c.tool == row["tool"])
        connection.execute(delete(table).where(replaced))
    if rows:
        connection.execute(insert(table), rows)


def _of_conversation(connection: Connection, id: str | None, owner: str) -> list[Row[Any]]:
    table = conversation_sessions
    query = (
        select(table)
        .join(conversations, conversations.c.id == table.c.conversation_id)
        .where(conversations.c.id == id, conversations.c.owner == owner)
    )
    return [] if id is None else list(connection.execute(query))


def _session(row: Row[Any]) -> StoredSession:
    continues = row.tool in tools_with_container()
    return StoredSession(row.tool, row.id, row.data, continues)


def _columns(session: StoredSession) -> dict[str, Any]:
    stored_at = time.time_ns() // 1000  # microseconds
    return {"tool": session.tool, "id": session.id, "data": session.data, "stored_at": stored_at}
