"""One module for each migration, in Alembic's form. A released migration is never changed."""
