"""Each kind of database for the tests of the store: name the module in `pytest_plugins`.

`database_url` is that of an empty database, with the newest tables; `store` is opened on it.

PYTEST_DONT_REWRITE: tests import this module before pytest does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from gpt_oss_harmony.server.store import Store
from gpt_oss_harmony.server.store.tables import METADATA
from support.postgres_server import new_database


class Clock:
    """A clock that stands still until it is set; seconds since 1970."""

    def __init__(self) -> None:
        self.time = 1_754_352_000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def _shared_postgres(postgres_server: str) -> Iterator[str]:
    """One database for all tests, since it takes a second to make one."""
    with new_database(postgres_server) as url:
        Store(url).close()
        yield url


@pytest.fixture
def empty_postgres(_shared_postgres: str) -> str:
    """The URL of an empty database in PostgreSQL, with the newest tables."""
    with psycopg.connect(_shared_postgres) as connection:
        tables = ", ".join(METADATA.tables)
        connection.execute(f"TRUNCATE {tables} CASCADE".encode())
    return _shared_postgres


@pytest.fixture(scope="module")
def module_postgres(postgres_server: str) -> Iterator[str]:
    """The URL of a database in PostgreSQL that the tests of a module share."""
    with new_database(postgres_server) as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'harmony.db'}"
    url: str = request.getfixturevalue("empty_postgres")
    return url


@pytest.fixture
def store(database_url: str, clock: Clock) -> Iterator[Store]:
    with Store(database_url, clock=clock) as store:
        yield store
