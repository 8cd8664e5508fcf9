"""Responses, conversations, their items, and API keys."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "responses",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("background", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("completed_at", sa.BigInteger),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("previous_response_id", sa.Text, sa.ForeignKey("responses.id")),
        sa.Column("conversation_id", sa.Text),
        sa.Column("conversation_length", sa.Integer),
        sa.Column("server_id", sa.Text),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("events", sa.LargeBinary),
    )
    op.create_index("ix_responses_previous_response_id", "responses", ["previous_response_id"])
    op.create_index("ix_responses_expires_at", "responses", ["expires_at"])
    runs = sa.text("server_id IS NOT NULL")
    op.create_index(
        "ix_responses_server_id",
        "responses",
        ["server_id"],
        sqlite_where=runs,
        postgresql_where=runs,
    )
    op.create_table(
        "response_items",
        sa.Column(
            "response_id",
            sa.Text,
            sa.ForeignKey("responses.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("direction", sa.Text, primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("item", sa.Text, nullable=False),
        sa.Column("tokens", sa.LargeBinary),
    )
    op.create_index(
        "ix_response_items_id", "response_items", ["id", "response_id", "direction"], unique=True
    )
    op.create_table(
        "conversations",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("next_position", sa.Integer, nullable=False),
    )
    op.create_table(
        "conversation_items",
        sa.Column(
            "conversation_id",
            sa.Text,
            sa.ForeignKey("conversations.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("item", sa.Text, nullable=False),
        sa.Column("tokens", sa.LargeBinary),
    )
    op.create_index(
        "ix_conversation_items_id",
        "conversation_items",
        ["id", "conversation_id"],
        unique=True,
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("revoked_at", sa.BigInteger),
        sa.Column("requests_per_minute", sa.Integer),
        sa.Column("concurrent_requests", sa.Integer),
        sa.Column("tokens_per_minute", sa.Integer),
    )
