"""The contents of files, stored once for each owner; indexes by owner."""

import hashlib

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_OWNERS = {
    "files": "SELECT id, owner FROM files",
    "container_files": (
        "SELECT container_files.id, responses.owner FROM container_files "
        "JOIN responses ON responses.id = container_files.response_id"
    ),
}


def upgrade() -> None:
    """Move the bytes of both tables of files to one table."""
    op.create_table(
        "contents",
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    for table in _OWNERS:
        op.add_column(table, sa.Column("hash", sa.Text, nullable=False, server_default=""))
        _move(table)
        op.drop_column(table, "data")
        op.create_index(f"ix_{table}_hash", table, ["hash"])
    op.create_index("ix_responses_owner", "responses", ["owner"])
    op.create_index("ix_conversations_owner", "conversations", ["owner"])


def _move(table: str) -> None:
    connection = op.get_bind()
    known = {tuple(row) for row in connection.execute(sa.text("SELECT owner, hash FROM contents"))}
    for id, owner in connection.execute(sa.text(_OWNERS[table])).all():
        read = sa.text(f"SELECT data FROM {table} WHERE id = :id")
        data = bytes(connection.execute(read, {"id": id}).scalar_one())
        hash = hashlib.sha256(data).hexdigest()
        values = {"owner": owner, "hash": hash, "size": len(data), "data": data}
        if (owner, hash) not in known:
            known.add((owner, hash))
            columns = "(owner, hash, size, data) VALUES (:owner, :hash, :size, :data)"
            connection.execute(sa.text(f"INSERT INTO contents {columns}"), values)
        change = sa.text(f"UPDATE {table} SET hash = :hash WHERE id = :id")
        connection.execute(change, {"hash": hash, "id": id})
