"""Threads of the Messages API."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add a table."""
    op.create_table(
        "message_threads",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("messages", sa.Text, nullable=False),
    )
    op.create_index("ix_message_threads_owner", "message_threads", ["owner"])
    op.create_index("ix_message_threads_expires_at", "message_threads", ["expires_at"])
