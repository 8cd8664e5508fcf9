"""The tables after the newest migration, and the types of their columns."""

from __future__ import annotations

import json
import struct
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)
from sqlalchemy.types import TypeDecorator

from ...apis.wire_events import json_text


class AnyText(TypeDecorator[str]):
    """Any string. PostgreSQL cannot store NUL, and neither database half a surrogate pair.

    Characters other than printable ASCII are stored as Python escapes, which are unambiguous.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Escape."""
        return None if value is None else value.encode("unicode_escape").decode("ascii")

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Undo the escapes."""
        return None if value is None else value.encode("ascii").decode("unicode_escape")


class JsonText(TypeDecorator[Any]):
    """JSON as text; the order of keys and ``NaN`` are preserved."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        """Write JSON, with readable text if possible."""
        return json_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """Read JSON."""
        return json.loads(value or "null")


class TokenIds(TypeDecorator[tuple[int, ...]]):
    """Token ids, four bytes each, the lowest first."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: tuple[int, ...] | None, dialect: Dialect) -> bytes | None:
        """Pack."""
        return None if value is None else struct.pack(f"<{len(value)}I", *value)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> tuple[int, ...] | None:
        """Unpack."""
        return None if value is None else struct.unpack(f"<{len(value) // 4}I", value)


METADATA = MetaData()


def _owned_table(name: str, *columns: Column[Any]) -> Table:
    """Make a table of rows that expire, and that their owner lists by their age."""
    table = Table(
        name,
        METADATA,
        Column("id", AnyText, primary_key=True),
        Column("owner", AnyText, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("expires_at", BigInteger, index=True),
        *columns,
    )
    Index(f"ix_{name}_owner", table.c.owner, table.c.created_at, table.c.id)
    return table


def _parent_column(name: str) -> Column[Any]:
    """Make the column of the response or conversation that a row belongs to and ends with."""
    parent = ForeignKey(f"{name}s.id", ondelete="CASCADE")
    return Column(f"{name}_id", AnyText, parent, primary_key=True)


def _item_columns() -> list[Column[Any]]:
    """Make the columns of an item, in a response or a conversation."""
    return [
        Column("position", Integer, primary_key=True),
        Column("id", AnyText, nullable=False),
        Column("item", JsonText, nullable=False),
        Column("tokens", TokenIds),
        # For calls of built-in tools: the call and the result, as messages for the model.
        Column("messages", JsonText),
    ]


def _session_columns() -> list[Column[Any]]:
    """Make the columns of a tool's session, in a response or a conversation."""
    return [
        Column("tool", Text, primary_key=True),
        Column("id", AnyText, nullable=False, index=True),
        Column("data", JsonText, nullable=False),
        Column("stored_at", BigInteger),  # microseconds since 1970; older servers wrote none
    ]


responses = Table(
    "responses",
    METADATA,
    Column("id", AnyText, primary_key=True),
    Column("owner", AnyText, nullable=False),
    Column("status", Text, nullable=False),
    Column("background", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("completed_at", BigInteger),
    Column("expires_at", BigInteger),
    Column("previous_response_id", AnyText, ForeignKey("responses.id"), index=True),
    Column("conversation_id", AnyText),
    # Items that the conversation had when the response began; the next position in it.
    Column("conversation_length", Integer),
    # The server that makes it; NULL when it has ended, unless another server gave it up.
    Column("server_id", Text),
    # Kept for the responses that follow it (see response_chains).
    Column("deleted", Boolean, nullable=False),
    Column("body", JsonText, nullable=False),
    Column("events", LargeBinary),
)
Index("ix_responses_expires_at", responses.c.expires_at)
Index("ix_responses_owner", responses.c.owner)
Index(
    "ix_responses_server_id",
    responses.c.server_id,
    sqlite_where=responses.c.server_id.is_not(None),
    postgresql_where=responses.c.server_id.is_not(None),
)
response_items = Table(
    "response_items",
    METADATA,
    _parent_column("response"),
    Column("direction", Text, primary_key=True),  # input, output: in this order
    *_item_columns(),
)
Index(
    "ix_response_items_id",
    response_items.c.id,
    response_items.c.response_id,
    response_items.c.direction,
    unique=True,
)
conversations = Table(
    "conversations",
    METADATA,
    Column("id", AnyText, primary_key=True),
    Column("owner", AnyText, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("metadata", JsonText, nullable=False),
    Column("next_position", Integer, nullable=False),
)
Index("ix_conversations_owner", conversations.c.owner)
conversation_items = Table(
    "conversation_items",
    METADATA,
    _parent_column("conversation"),
    *_item_columns(),
)
Index(
    "ix_conversation_items_id",
    conversation_items.c.id,
    conversation_items.c.conversation_id,
    unique=True,
)
# The session of a built-in tool after the response that used it. A conversation has only the newest
# one.
response_sessions = Table(
    "response_sessions",
    METADATA,
    _parent_column("response"),
    *_session_columns(),
)
conversation_sessions = Table(
    "conversation_sessions",
    METADATA,
    _parent_column("conversation"),
    *_session_columns(),
)
# Files that code has written, with the response that ran it.
container_files = Table(
    "container_files",
    METADATA,
    Column("id", AnyText, primary_key=True),
    Column("container_id", AnyText, nullable=False, index=True),
    Column(
        "response_id",
        AnyText,
        ForeignKey("responses.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    Column("position", Integer, nullable=False),
    Column("path", AnyText, nullable=False),
    Column("mime_type", AnyText, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("hash", Text, nullable=False, index=True),
)
# The bytes of files, once for each owner (see contents).
contents = Table(
    "contents",
    METADATA,
    Column("owner", AnyText, primary_key=True),
    Column("hash", Text, primary_key=True),  # SHA-256, in hexadecimal
    Column("size", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
# Containers and files that clients made; a file without a container is one of the Files API.
containers = _owned_table(
    "containers",
    Column("name", AnyText, nullable=False),
    Column("last_active_at", BigInteger, nullable=False),
    Column("idle_minutes", Integer),
)
files = _owned_table(
    "files",
    Column("container_id", AnyText, ForeignKey("containers.id", ondelete="CASCADE"), index=True),
    Column("purpose", AnyText, nullable=False),
    Column("filename", AnyText, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("hash", Text, nullable=False, index=True),
)
chat_completions = _owned_table(
    "chat_completions",
    Column("model", AnyText, nullable=False),
    Column("metadata", JsonText, nullable=False),
    Column("completion", JsonText, nullable=False),
    Column("messages", JsonText, nullable=False),
)
message_threads = Table(
    "message_threads",
    METADATA,
    Column("id", AnyText, primary_key=True),
    Column("owner", AnyText, nullable=False, index=True),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, index=True),
    Column("settings", JsonText, nullable=False),
    Column("messages", JsonText, nullable=False),
)
batches = _owned_table(
    "batches",
    Column("endpoint", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("deadline", BigInteger, nullable=False),
    Column("total", Integer, nullable=False),
    Column("metadata", JsonText, nullable=False),
    Column("state", JsonText, nullable=False),
    Column("server_id", Text),  # that works on it; NULL if none has taken it, or at its end
    Column("requests", JsonText, nullable=False),  # last, because others are read without it
)
batch_results = Table(
    "batch_results",
    METADATA,
    Column("batch_id", AnyText, ForeignKey("batches.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("status", Integer, nullable=False),
    Column("answer", JsonText, nullable=False),
)
# Files that are uploaded in parts, which are files of their own.
uploads = Table(
    "uploads",
    METADATA,
    Column("id", AnyText, primary_key=True),
    Column("owner", AnyText, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
    Column("status", Text, nullable=False),
    Column("file", JsonText, nullable=False),  # what it will be
)
Index("ix_uploads_owner", uploads.c.owner, uploads.c.created_at, uploads.c.id)
stored_bytes = Table(
    "stored_bytes",
    METADATA,
    Column("id", AnyText, primary_key=True),  # of an owner
    Column("added", BigInteger, nullable=False),  # bytes by all servers; never less
)
api_keys = Table(
    "api_keys",
    METADATA,
    Column("id", AnyText, primary_key=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("name", AnyText, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
    Column("requests_per_minute", Integer),
    Column("concurrent_requests", Integer),
    Column("tokens_per_minute", Integer),
)
key_requests = Table(
    "key_requests",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("owner", AnyText, nullable=False),  # the id of the key
    Column("server_id", Text, nullable=False),
    Column("began_at", BigInteger, nullable=False),  # milliseconds since 1970
    Column("ended_at", BigInteger),  # the same; NULL as long as it runs
    Column("tokens", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
)
Index("ix_key_requests_owner", key_requests.c.owner, key_requests.c.began_at)

claims = Table(
    "claims",
    METADATA,
    Column("owner", AnyText, primary_key=True),
    Column("name", AnyText, primary_key=True),
    Column("made_id", Text, nullable=False, index=True),
    Column("content", Text, nullable=False),
    Column("expires_at", BigInteger, index=True),  # NULL never expires
)
