"""The newest state of a container, found by its id."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add columns and indexes."""
    for table in ("response_sessions", "conversation_sessions"):
        op.add_column(table, sa.Column("stored_at", sa.BigInteger))
        op.create_index(f"ix_{table}_id", table, ["id"])
