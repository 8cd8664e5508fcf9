"""The ids of sessions, by which a container is found."""

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add two indexes."""
    for table in ("response_sessions", "conversation_sessions"):
        op.create_index(f"ix_{table}_id", table, ["id"])
