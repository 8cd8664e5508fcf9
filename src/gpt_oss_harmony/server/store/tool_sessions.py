"""Sessions of built-in tools: the state of each in a conversation, as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, insert, or_, select

from .database import Database
from .leases import ServerClock
from .response_chains import chain_of, visible
from .tables import conversation_sessions, conversations, response_sessions, responses

__all__ = ["StoredSession", "ToolSessions", "insert_sessions", "replace_sessions"]


@dataclass(frozen=True)
class StoredSession:
    """The session of a tool: its id stays the same for the whole conversation."""

    tool: str
    id: str
    data: str = field(repr=False)


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
            .order_by(responses.c.created_at.desc(), responses.c.id.desc())
            .limit(1)
        )
        in_conversation = (
            select(conversation_sessions)
            .join(conversations, conversations.c.id == conversation_sessions.c.conversation_id)
            .where(conversation_sessions.c.id == id, conversation_sessions.c.tool == tool)
            .where(conversations.c.owner == owner)
        )
        with self._database.reading() as connection:
            row = connection.execute(newest).first() or connection.execute(in_conversation).first()
        return None if row is None else _session(row)


def insert_sessions(
    connection: Connection, response_id: str, sessions: Iterable[StoredSession]
) -> None:
    """Store sessions as those of a response."""
    rows = [{"response_id": response_id, **_values(session)} for session in sessions]
    if rows:
        connection.execute(insert(response_sessions), rows)


def replace_sessions(
    connection: Connection, conversation_id: str, sessions: Iterable[StoredSession]
) -> None:
    """Store sessions as those of a conversation, whose row is locked."""
    table = conversation_sessions
    rows = [{"conversation_id": conversation_id, **_values(session)} for session in sessions]
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
    return StoredSession(row.tool, row.id, row.data)


def _values(session: StoredSession) -> dict[str, str]:
    return {"tool": session.tool, "id": session.id, "data": session.data}
