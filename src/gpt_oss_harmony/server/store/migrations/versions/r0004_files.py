"""Files and containers that clients made."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add two tables."""
    op.create_table(
        "containers",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("last_active_at", sa.BigInteger, nullable=False),
        sa.Column("idle_minutes", sa.Integer),
        sa.Column("expires_at", sa.BigInteger),
    )
    op.create_index("ix_containers_owner", "containers", ["owner", "created_at", "id"])
    op.create_index("ix_containers_expires_at", "containers", ["expires_at"])
    op.create_table(
        "files",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("container_id", sa.Text, sa.ForeignKey("containers.id", ondelete="CASCADE")),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("filename", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_files_owner", "files", ["owner", "created_at", "id"])
    op.create_index("ix_files_container_id", "files", ["container_id"])
    op.create_index("ix_files_expires_at", "files", ["expires_at"])
