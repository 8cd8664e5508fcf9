"""A database that fails while the server runs: one line in the log, and 503 without paths."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from gpt_oss_harmony.server import Settings, create_app
from gpt_oss_harmony.server.store import Conversation, Store, StoreError, database
from support.local_client import LocalClient
from support.responses_server import TEXT
from support.scripted_engine import ScriptedEngine

PROBLEM = "the server's database does not work at the moment; try again later"
LONG = " international" * 900
"""More than fits into the free part of the database's pages."""
Breaking = Callable[[Path, Store], Any]


@contextmanager
def full(path: Path, store: Store) -> Iterator[None]:
    """No page can be added, as on a full disk."""
    pages = store._database.engine  # the limit is one of each connection
    pages.dispose()
    with closing(pages.raw_connection()) as connection:
        connection.execute("PRAGMA max_page_count = 1").close()  # the least is the present size
    try:
        yield
    finally:
        pages.dispose()


@contextmanager
def read_only(path: Path, store: Store) -> Iterator[None]:
    """As on a disk that the system has mounted again after an error."""
    connections = store._database.engine
    connections.dispose()
    with closing(connections.raw_connection()) as connection:
        connection.execute("PRAGMA query_only = 1").close()
    try:
        yield
    finally:
        connections.dispose()


@contextmanager
def locked(path: Path, _: Store) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE").close()
        yield


@contextmanager
def vanished(path: Path, _: Store) -> Iterator[None]:
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    try:
        yield
    finally:
        elsewhere.rename(path)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.05)
    return tmp_path / "secret-folder" / "a 100%41 #1.db"  # which URLs escape


@pytest.mark.parametrize(
    ("breaking", "cause"),
    [
        (full, "database or disk is full"),
        (read_only, "attempt to write a readonly database"),
        (locked, "database is locked"),
        (vanished, "the file was deleted or replaced; put it back, or restart the server"),
    ],
)
def test_a_database_that_fails_is_in_the_log_and_in_ready(
    path: Path, breaking: Breaking, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "gpt_oss_harmony")
    app = create_app(ScriptedEngine(TEXT, TEXT, TEXT), Settings(database=str(path)))
    with LocalClient(app, raise_server_exceptions=False) as client:
        store: Store = app.state.services.store.blocking
        assert client.get("/ready").status_code == 200
        with breaking(path, store):
            # Some pages may be free, so that a small write still fits.
            answers = [ask(client, LONG) for _ in range(2)]
            ready = client.get("/ready")
        assert [answer.status_code for answer in answers] == [503, 503]
        assert "secret-folder" not in answers[0].text + ready.text
        assert answers[0].json()["error"]["message"] == PROBLEM
        assert (ready.status_code, ready.json()["error"]["code"]) == (503, "database_unavailable")
        assert logged(caplog) == [f"the SQLite file {path} does not work: {cause}"]
        store.start_serving()
        assert client.get("/ready").status_code == 200
        assert logged(caplog)[1:] == [f"the SQLite file {path} works again"]
        assert ask(client, "hi").status_code == 200


def ask(client: TestClient, text: str) -> Any:
    return client.post("/v1/responses", json={"input": text})


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_no_connection_makes_a_new_file_while_the_old_one_is_away(path: Path) -> None:
    """It would stay connected to that file, and its journal would take the old one's place."""
    with Store(path) as store:
        store.start_serving()
        store.conversations.create(Conversation("conv_1", "", 0, {"topic": "demo"}))
        with vanished(path, store):
            store._database.engine.dispose()  # what reads now is a new connection
            for _ in range(3):
                with pytest.raises(StoreError, match="unable to open database file"):
                    store.conversations.get("conv_1", "")
            assert not path.exists()
        store.start_serving()
        assert store.problem is None
        assert store.conversations.get("conv_1", "").metadata == {"topic": "demo"}
