"""Stored chat completions."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add a table."""
    op.create_table(
        "chat_completions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("completion", sa.Text, nullable=False),
        sa.Column("messages", sa.Text, nullable=False),
    )
    op.create_index("ix_chat_completions_owner", "chat_completions", ["owner", "created_at", "id"])
    op.create_index("ix_chat_completions_expires_at", "chat_completions", ["expires_at"])
