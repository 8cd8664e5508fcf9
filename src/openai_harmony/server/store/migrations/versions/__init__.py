"""One module for each step, as Alembic reads them. A released step is never changed."""
