"""Responses: their beginning and end, reading and deletion."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    bindparam,
    insert,
    or_,
    select,
    union,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from .conversations import Conversations
from .database import Database, deletion
from .errors import NotFoundError
from .keys import Claim, Claims, end_requests
from .owned_data import Quota, size_of
from .response_chains import (
    StoredSession,
    chain_of,
    forget,
    insert_sessions,
    kept_sessions,
    replace_sessions,
    visible_to,
)
from .rows import (
    ITEM,
    NewItem,
    Order,
    Page,
    StoredItem,
    check_ids,
    insert_items,
    item_columns,
    read_item,
    read_page,
)
from .running_servers import Lease, ServerClock
from .tables import conversation_items, key_requests, response_items, responses

_NEW = insert(responses)
_BATCH = 200  # responses of one transaction; others write in between
_RUNNING = ("queued", "in_progress")
_LOST = (
    "The server ended before this response did, and has been restarted or replaced. "
    "Send the request again."
)
_UNSTORED = (
    "The database was away when this response began or ended, so its end is lost. "
    "Send the request again."
)


@dataclass(frozen=True)
class NewResponse:
    """A new response.

    - `owner`: the id of the API key; empty if the server has no keys.
    - `status`: ``queued`` or ``in_progress``.
    - `created_at`, `expires_at`: seconds since 1970; None never expires.
    - `body`: the Response object of the API without its ``output``. The store does not read it; for
      a lost response, it only sets ``status`` and ``error``.
    - `input`: the items of the request, without those of earlier responses.
    - `claims`: what the request uses, and no later one may use again.
    """

    id: str
    owner: str
    created_at: int
    body: Mapping[str, Any]
    input: Sequence[NewItem] = ()
    status: Literal["queued", "in_progress"] = "in_progress"
    background: bool = False
    expires_at: int | None = None
    previous_response_id: str | None = None
    conversation_id: str | None = None
    claims: Sequence[Claim] = ()


@dataclass(frozen=True)
class StoredResponse:
    """The current state of a response: the fields of `NewResponse`, and its output.

    `server_id` is the server that runs it.
    """

    id: str
    owner: str
    status: str
    background: bool
    created_at: int
    completed_at: int | None
    expires_at: int | None
    previous_response_id: str | None
    conversation_id: str | None
    server_id: str | None
    body: dict[str, Any] = field(repr=False)
    output: tuple[StoredItem, ...] = field(repr=False)

    @property
    def is_running(self) -> bool:
        """True for a response that has not ended."""
        return self.status in _RUNNING


class Responses:
    """The responses in a database, for one server; `Store` makes it."""

    def __init__(
        self,
        database: Database,
        server: ServerClock,
        quota: Quota,
        claims: Claims,
        conversations: Conversations,
    ) -> None:
        self._database = database
        self._server = server
        self._quota = quota
        self._claims = claims
        self._conversations = conversations

    def begin(self, response: NewResponse) -> None:
        """Store a new response and its input.

        Raises `NotFoundError` if its owner cannot see the previous response or the conversation,
        `ItemIdError` for its items, `ClaimedError` for its claims, and `StorageFullError` if the
        owner has no room for it.
        """
        check_ids(response.input, "input")
        size = size_of(response.body, *map(ITEM, response.input))
        previous = response.previous_response_id
        taken = self._claims.taken(
            response.claims, response.owner, response.id, response.expires_at
        )
        adding = self._quota.adding(response.owner, size, rows=1 + len(response.input))
        with taken, adding, self._database.writing() as connection:
            if previous is not None:
                is_visible = visible_to(response.owner, self._server.now(), previous)
                query = select(responses.c.id).where(is_visible)
                # A deletion waits for the end of this, and then finds the follower.
                if connection.execute(query.with_for_update(read=True)).first() is None:
                    raise NotFoundError("response", previous)
            length, conversation_id = None, response.conversation_id
            if conversation_id is not None:
                conversation = self._conversations.read(connection, conversation_id, response.owner)
                length = conversation.next_position
            values = {
                **vars(response),
                "conversation_length": length,
                "server_id": self._server.id,
                "deleted": False,
                "body": dict(response.body),
            }
            del values["input"], values["claims"]
            connection.execute(_NEW, values)
            belongs = {"response_id": response.id, "direction": "input"}
            insert_items(connection, response_items, belongs, response.input)

    def update(self, id: str, status: str, body: Mapping[str, Any]) -> bool:
        """Change a running response; return False if it has ended or was deleted."""
        with self._database.writing() as connection:
            return self._change(connection, id, status=status, body=dict(body)) is not None

    def finish(
        self,
        id: str,
        *,
        status: str,
        body: Mapping[str, Any],
        output: Sequence[NewItem] = (),
        events: Iterable[str] | None = None,
        completed_at: int | None = None,
        sessions: Sequence[StoredSession] = (),
    ) -> bool:
        """End a response and add its items to its conversation, in one transaction.

        Input items whose ids the conversation already has are not added again. A failed response
        adds no items, because the request will be sent again. `events` are those of the stream,
        each as JSON. `sessions` are those of the used tools, for the next response; those of
        containers that were deleted meanwhile are not stored.
        Returns False, and changes nothing, if the response was deleted or has already ended (it may
        have been cancelled at another server). If the result is True, the data is on the disk.
        """
        check_ids(output, "output")
        # Compressed before the transaction, because other writers of SQLite wait for its end.
        blob = None
        if events is not None:  # a JSON array under zlib
            blob = zlib.compress(f"[{','.join(events)}]".encode())
        values = {
            "status": status,
            "body": dict(body),
            "completed_at": completed_at,
            "events": blob,
            "server_id": None,
        }
        with self._database.writing() as connection:
            response = self._change(connection, id, **values)
            if response is None:
                return False
            belongs = {"response_id": id, "direction": "output"}
            insert_items(connection, response_items, belongs, output)
            sessions = kept_sessions(self._database, connection, sessions)
            if response.conversation_id is None:
                if sessions:
                    insert_sessions(connection, id, sessions)
            elif status != "failed":
                stored = _items(connection, id, "input")
                added = [*(item.as_new() for item in stored), *output]
                with suppress(NotFoundError):  # the conversation was deleted meanwhile
                    self._conversations.add_new(
                        connection, response.conversation_id, response.owner, added
                    )
                    replace_sessions(connection, response.conversation_id, sessions)
            size = size_of(blob, *map(ITEM, output))
            self._quota.note(connection, response.owner, size, rows=len(output))
        return True

    def get(self, id: str, owner: str) -> StoredResponse:
        """Read a response with its output. Raises `NotFoundError`."""
        with self._database.reading() as connection:
            row = self._visible(connection, id, owner)
            output = tuple(_items(connection, id, "output"))
        return StoredResponse(**row._mapping, output=output)

    def input_items(
        self,
        id: str,
        owner: str,
        *,
        after: str | None = None,
        limit: int = 20,
        order: Order = "desc",
    ) -> Page[StoredItem]:
        """Read the items of the request, without those of earlier responses.

        Raises `NotFoundError` for the response, and for the item `after`.
        """
        belongs = and_(response_items.c.response_id == id, response_items.c.direction == "input")
        with self._database.reading() as connection:
            self._visible(connection, id, owner)
            return read_page(
                connection, response_items, belongs, after=after, limit=limit, order=order
            )

    def events(self, id: str, owner: str) -> list[dict[str, Any]]:
        """Read the events of the stream; empty if none were stored. Raises `NotFoundError`."""
        query = select(responses.c.events).where(visible_to(owner, self._server.now(), id))
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise NotFoundError("response", id)
        if row.events is None:
            return []
        events: list[dict[str, Any]] = json.loads(zlib.decompress(row.events))
        return events

    def history(self, id: str, owner: str) -> list[StoredItem]:
        """Read the items for a response that follows this one, the oldest first.

        These are the input and the output of each response of the chain. If the first response was
        made in a conversation, the items that the conversation had then come first, without deleted
        ones. This takes three queries for any length. Raises `NotFoundError`.
        """
        chain = chain_of(id, owner, self._server.now())
        items = (
            item_columns(response_items)
            .join(chain, response_items.c.response_id == chain.c.id)
            # `input` sorts before `output`.
            .order_by(chain.c.age.desc(), response_items.c.direction, response_items.c.position)
        )
        with self._database.reading() as connection:
            first = connection.execute(select(chain).order_by(chain.c.age.desc()).limit(1)).first()
            if first is None:
                raise NotFoundError("response", id)
            history: list[StoredItem] = []
            if first.conversation_id is not None:
                table = conversation_items
                earlier = item_columns(table).where(
                    table.c.conversation_id == first.conversation_id,
                    table.c.position < first.conversation_length,
                )
                rows = connection.execute(earlier.order_by(table.c.position))
                history += map(read_item, rows)
            history += map(read_item, connection.execute(items))
        return history

    @deletion
    def delete(self, id: str, owner: str) -> None:
        """Delete a response; `response_chains` explains which data stays for its followers.

        If the response is running, `finish` will return False for it. Raises `NotFoundError`.
        """
        with self._database.writing() as connection:
            self._visible(connection, id, owner)
            forget(self._database, connection, [id])

    @deletion
    def delete_expired(self) -> int:
        """Delete expired responses from the disk; return their number."""
        now = int(self._server.now())
        expired = (
            select(responses.c.id)
            .where(responses.c.expires_at <= now, responses.c.deleted.is_(False))
            .order_by(responses.c.expires_at)
            .limit(_BATCH)
        )
        count = 0
        while True:
            with self._database.writing() as connection:
                ids = list(connection.execute(expired).scalars())
                forget(self._database, connection, ids)
            count += len(ids)
            if len(ids) < _BATCH:
                return count

    def abandon(self, lease: Lease) -> int:
        """Fail the running responses of dead servers; return their number. Their requests end."""
        running = and_(responses.c.status.in_(_RUNNING), responses.c.server_id.is_not(None))
        servers = union(
            select(responses.c.server_id).where(running),
            select(key_requests.c.server_id).where(key_requests.c.ended_at.is_(None)),
        )
        with self._database.reading() as connection:
            others = set(connection.execute(servers).scalars()) - {self._server.id}
        count = 0
        for server_id in others:
            with self._database.writing() as connection:
                if lease.is_gone(connection, server_id):
                    count += _fail(connection, server_id, _LOST)
                    end_requests(connection, server_id, self._server.now())
        return count

    def running_here(self) -> list[str]:
        """List the ids of the responses that this server runs, as the database has them."""
        here = and_(responses.c.status.in_(_RUNNING), responses.c.server_id == self._server.id)
        with self._database.reading() as connection:
            return list(connection.execute(select(responses.c.id).where(here)).scalars())

    def fail(self, id: str) -> None:
        """Fail a response of this server that does not run any more, if it has not ended."""
        with self._database.writing() as connection:
            _fail(connection, self._server.id, _UNSTORED, responses.c.id == id)

    def _change(self, connection: Connection, id: str, **values: Any) -> Row[Any] | None:
        """Change a response of this server; return its conversation and owner."""
        which = {"this_id": id, "this_server": self._server.id}
        return connection.execute(_change(*values), {**which, **values}).first()

    def _visible(self, connection: Connection, id: str, owner: str) -> Row[Any]:
        names = (field.name for field in fields(StoredResponse) if field.name != "output")
        is_visible = visible_to(owner, self._server.now(), id)
        query = select(*(responses.c[name] for name in names)).where(is_visible)
        row = connection.execute(query).first()
        if row is None:
            raise NotFoundError("response", id)
        return row


@cache
def _change(*columns: str) -> ReturningUpdate[Any]:
    """Write these columns of a response of a server; built once, because building takes long."""
    # A response that another server failed by mistake is still this server's.
    is_own = responses.c.server_id == bindparam("this_server")
    is_open = or_(responses.c.status.in_(_RUNNING), is_own)
    selected = and_(responses.c.id == bindparam("this_id"), responses.c.deleted.is_(False), is_open)
    change = update(responses).where(selected).values({name: bindparam(name) for name in columns})
    return change.returning(responses.c.conversation_id, responses.c.owner)


def _items(connection: Connection, id: str, direction: str) -> list[StoredItem]:
    query = (
        item_columns(response_items)
        .where(response_items.c.response_id == id, response_items.c.direction == direction)
        .order_by(response_items.c.position)
    )
    return [read_item(row) for row in connection.execute(query)]


def _fail(connection: Connection, server_id: str, problem: str, *which: ColumnElement[bool]) -> int:
    """Fail the running responses of a server; they stay its own in case it still runs."""
    running = and_(responses.c.server_id == server_id, responses.c.status.in_(_RUNNING), *which)
    rows = connection.execute(select(responses.c.id, responses.c.body).where(running)).all()
    error = {"code": "server_error", "message": problem}
    for row in rows:
        # To both databases the body is plain text, so no query could change a field of it.
        body = {**row.body, "status": "failed", "error": error}
        change = update(responses).where(running, responses.c.id == row.id)
        connection.execute(change.values(status="failed", body=body))
    return len(rows)
