"""Brings a database to the newest schema, or says why it cannot."""

from __future__ import annotations

from pathlib import Path

from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from .database import Database
from .errors import StoreVersionError

__all__ = ["migrate"]

_STEPS = Path(__file__).parent / "migrations"
_LOCK = 0x6861726D6F6E79  # "harmony", so that servers that start together take turns


def migrate(database: Database) -> None:
    """Run the steps that are missing, all or none.

    Raises `StoreVersionError` for a database that a newer version of this library has changed.
    """
    with database.writing() as connection:
        if not database.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        _run_steps(connection, database.name)


def _run_steps(connection: Connection, name: str) -> None:
    context = MigrationContext.configure(connection)
    steps = ScriptDirectory(str(_STEPS))
    known = {step.revision for step in steps.walk_revisions()}
    current = context.get_current_revision()
    if current is not None and current not in known:
        raise StoreVersionError(
            f"the database {name} has the schema {current}, which this version of gpt-oss-harmony "
            "does not know; install the newer version that has written it, or name another database"
        )
    missing = list(steps.iterate_revisions("head", current or "base"))
    with Operations.context(context):
        for step in reversed(missing):
            step.module.upgrade()
    if missing:
        context.stamp(steps, "head")
