"""What a request may use only once: approvals of calls, and idempotency keys."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add a table."""
    op.create_table(
        "claims",
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("made_id", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
    )
    op.create_index("ix_claims_made_id", "claims", ["made_id"])
    op.create_index("ix_claims_expires_at", "claims", ["expires_at"])
