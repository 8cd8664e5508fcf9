"""Batches, and files that are uploaded in parts.

Whoever changes one of these tables writes its columns of today here.
"""

from alembic import op

from gpt_oss_harmony.server.store.tables import batch_results, batches, uploads

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add three tables."""
    for table in (batches, batch_results, uploads):
        table.create(op.get_bind())
