"""The bytes that all servers have added for an owner."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add a table."""
    op.create_table(
        "stored_bytes",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("added", sa.BigInteger, nullable=False),
    )
