"""Messages and sessions of built-in tools, and the files of code."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add columns and tables."""
    op.add_column("response_items", sa.Column("messages", sa.Text))
    op.add_column("conversation_items", sa.Column("messages", sa.Text))
    for owner in ("response", "conversation"):
        op.create_table(
            f"{owner}_sessions",
            sa.Column(
                f"{owner}_id",
                sa.Text,
                sa.ForeignKey(f"{owner}s.id", ondelete="CASCADE"),
                primary_key=True,
            ),
            sa.Column("tool", sa.Text, primary_key=True),
            sa.Column("id", sa.Text, nullable=False),
            sa.Column("data", sa.Text, nullable=False),
        )
    op.create_table(
        "container_files",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("container_id", sa.Text, nullable=False),
        sa.Column(
            "response_id",
            sa.Text,
            sa.ForeignKey("responses.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("mime_type", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_container_files_container_id", "container_files", ["container_id"])
    op.create_index("ix_container_files_response_id", "container_files", ["response_id"])
