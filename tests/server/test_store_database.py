"""The database behind the store: its URL, its tables and their versions, its threads."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import select, text

from gpt_oss_harmony.apis.wire_events import json_text
from gpt_oss_harmony.server.store import (
    Conversation,
    NewItem,
    NewResponse,
    NotFoundError,
    Store,
    StoreError,
    StoreVersionError,
)
from gpt_oss_harmony.server.store.database import Database
from gpt_oss_harmony.server.store.tables import METADATA
from support import stored_database
from support.faults import Network
from support.responses_server import TEXT, create, serving

pytest_plugins = ("support.postgres_server", "support.databases")


# URLs


@pytest.mark.parametrize("form", ["path", "text", "sqlite:///{}", "sqlite+pysqlite:///{}"])
def test_forms_of_a_file(tmp_path: Path, form: str) -> None:
    path = tmp_path / "new" / "harmony.db"
    url = path if form == "path" else str(path) if form == "text" else form.format(path)
    with Store(url) as store:
        store.check()
    assert path.exists()
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def modes(folder: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such rights")
def test_a_file_that_others_read_is_taken_from_them(tmp_path: Path) -> None:
    """With the files beside it, also those that a killed server has left."""
    path = tmp_path / "harmony.db"
    with Store(path) as store:
        store.start_serving()
        assert set(modes(tmp_path)) >= {path.name, f"{path.name}-wal", f"{path.name}-shm"}
        copies = {name: (tmp_path / name).read_bytes() for name in modes(tmp_path)}
    for name, content in copies.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o644)
    path.chmod(0o666)
    with Store(path) as store:
        store.start_serving()
        store.conversations.create(Conversation("conv_1", "", 0, {}))
        assert set(modes(tmp_path).values()) == {0o600}


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such rights")
def test_a_new_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    Store(tmp_path / "new" / "harmony.db").close()
    assert modes(tmp_path) == {"new": 0o700}


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such rights")
def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    path = tmp_path / "harmony.db"
    Store(path).close()
    path.chmod(0o644)
    monkeypatch.setattr(Path, "chmod", refuse)
    problem = r"cannot be opened: other users can read it, and it belongs to one of them; give"
    with pytest.raises(StoreError, match=problem):
        Store(path)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_forms_of_postgres(scheme: str) -> None:
    database = Database(f"{scheme}://me:secret@example/harmony")
    assert database.url.drivername == "postgresql+psycopg"
    assert "secret" not in database.name
    database.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such option")
def test_a_postgres_that_vanishes_is_given_up(postgres_url: str) -> None:
    """TCP alone waits for hours; the URL may set other times."""
    network = Network(postgres_url)
    with closing(network):
        for url, seconds in ((network.url, 10), (f"{network.url}?tcp_user_timeout=3000", 3)):
            database = Database(url)
            with database.reading() as connection:
                driver = cast("Any", connection.connection.driver_connection)
                with socket.fromfd(driver.fileno(), socket.AF_INET, socket.SOCK_STREAM) as used:
                    timeout = used.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                    assert timeout == 1000 * seconds
            database.close()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("mysql://localhost/harmony", "mysql:// is not supported; write sqlite:///PATH"),
        ("postgresql+asyncpg://localhost/harmony", "asyncpg:// is not supported"),
        ("://", "cannot be read"),
        ("sqlite:////proc/none/harmony.db", "cannot be opened: .* give another path"),
    ],
)
def test_urls_that_are_refused(url: str, problem: str) -> None:
    with pytest.raises(StoreError, match=problem):
        Store(url)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader, " * 100)
    path.chmod(0o644)
    with pytest.raises(StoreError, match=r"letter\.txt failed: file is not a database"):
        Store(path)
    assert path.read_text().startswith("Dear reader")
    if os.name == "posix":
        assert modes(tmp_path)[path.name] == 0o644


def test_sqlite_is_durable_and_strict(tmp_path: Path) -> None:
    database = Database(tmp_path / "harmony.db")
    with database.reading() as connection:
        for pragma, value in (("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1)):
            assert connection.exec_driver_sql(f"PRAGMA {pragma}").scalar() == value
    database.close()


# Versions


def is_migrated(name: str | None, *_: object) -> bool:
    return name != "harmony_reserve"


def test_a_new_database_has_all_tables(store: Store) -> None:
    with store._database.reading() as connection:
        options = {"compare_type": True, "include_name": is_migrated}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, METADATA) == []


def test_a_store_is_opened_again(tmp_path: Path) -> None:
    for number in range(2):
        with Store(tmp_path / "harmony.db") as store:
            store.conversations.create(Conversation(f"conv_{number}", "", 0, {}))
            store.conversations.get("conv_0", "")


def holds(recorded: Any, now: Any) -> bool:
    """Return whether an answer still says what was recorded; it may have more fields."""
    if isinstance(recorded, dict):
        return all(name in now and holds(value, now[name]) for name, value in recorded.items())
    if isinstance(recorded, list):
        return len(recorded) == len(now) and all(map(holds, recorded, now))
    return bool(recorded == now)


def counted(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@pytest.mark.parametrize(
    "file", sorted(stored_database.FOLDER.glob("*.sql")), ids=lambda file: file.stem
)
def test_a_database_of_each_release_is_opened_and_continued(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "harmony.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(file.read_text("utf-8"))
        tables = METADATA.tables.keys() & {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master")
        }
        stored = {name: counted(connection, name) for name in tables}
    with Store(path) as store, store._database.reading() as rows:
        for name, count in stored.items():  # all values are read as their types
            assert len(rows.execute(select(METADATA.tables[name])).all()) == count > 0, name
    recorded = json.loads(file.with_suffix(".json").read_text("utf-8"))
    options = {**stored_database.SETTINGS, "database": f"sqlite:///{path}"}
    with serving(TEXT, **options) as client:
        assert client.get("/v1/files").status_code == 401
        client.headers.update(stored_database.HEADERS)
        for place, answer in recorded.items():
            assert holds(answer, stored_database.shown(client, place)), place
        (chained,) = [
            answer["id"]
            for answer in recorded.values()
            if isinstance(answer, dict) and answer.get("previous_response_id")
        ]
        assert create(client, input="go on", previous_response_id=chained)["status"] == "completed"


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_newer_database_is_refused(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "harmony.db"
    url = str(path) if kind == "sqlite" else request.getfixturevalue("postgres_url")
    with Store(url) as store, store._database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreVersionError, match=r"has the schema 9999.*install the newer version"):
        Store(url)


OPEN = "import sys; from gpt_oss_harmony.server.store import Store; Store(sys.argv[1]).close()"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_servers_that_start_together(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "harmony.db"
    url = str(path) if kind == "sqlite" else request.getfixturevalue("postgres_url")
    starts = [subprocess.Popen([sys.executable, "-c", OPEN, url]) for _ in range(4)]
    assert [start.wait() for start in starts] == [0, 0, 0, 0]
    with Store(url) as store:
        store.check()


def test_a_step_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "harmony.db"
    with monkeypatch.context() as patch:
        patch.setattr(MigrationContext, "stamp", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Store(path)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    connection.close()
    Store(path).close()


# Values and threads

ODD = ["", "\0", "\ud800", "é", "\\", "\\x00", "a\nb", "𐀀", "'; DROP TABLE responses; --", "%s :x"]


def test_any_text_is_kept(store: Store) -> None:
    for number, odd in enumerate(ODD):
        value = {"text": odd, odd: [1.5, None, True, 10**30, {"": odd}]}
        owner = f"{odd}owner"
        item = NewItem(odd, value)
        store.conversations.create(Conversation(odd, owner, number, value), [item])
        store.responses.begin(NewResponse(odd, owner, number, value, [item], conversation_id=odd))
        store.responses.finish(odd, status="completed", body=value, events=[json_text(value)])
    for odd in ODD:
        owner = f"{odd}owner"
        response = store.responses.get(odd, owner)
        assert response.body == {"text": odd, odd: [1.5, None, True, 10**30, {"": odd}]}
        assert (response.id, response.conversation_id) == (odd, odd)
        assert store.responses.events(odd, owner) == [response.body]
        assert store.conversations.get(odd, owner).metadata == response.body
        assert [item.id for item in store.responses.history(odd, owner)] == [odd, odd]
        for other in ODD:
            if other != odd:
                with pytest.raises(NotFoundError):
                    store.responses.get(other, owner)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "memory"])
def test_many_threads(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    url = {"sqlite": tmp_path / "harmony.db", "memory": None}.get(kind)
    if kind == "postgresql":
        url = request.getfixturevalue("postgres_url")
    with Store(url) as store, ThreadPoolExecutor(24) as pool:
        store.conversations.create(Conversation("conv_1", "", 0, {}))

        def respond(number: int) -> None:
            id = f"resp_{number}"
            question = [NewItem(f"{number}-in", {"n": number})]
            store.responses.begin(NewResponse(id, "", 0, {}, question, conversation_id="conv_1"))
            answer = [NewItem(f"{number}-out", {"n": number}, (number,))]
            assert store.responses.finish(id, status="completed", body={}, output=answer)
            assert store.responses.get(id, "").output[0].tokens == (number,)

        list(pool.map(respond, range(72)))
        items = store.conversations.items("conv_1", "")
    assert len(items) == 144
    for asked, answered in zip(items[::2], items[1::2], strict=True):
        assert asked.item == answered.item  # one transaction: nothing comes between


def test_a_statement_in_memory_ends_before_its_connection_is_closed() -> None:
    """Closed under a statement, the connection that all threads share would end the process."""
    database = Database(None)
    closing = threading.Thread(target=database.close)
    has_waited: list[bool] = []

    def begin_to_close() -> int:
        closing.start()
        closing.join(0.2)
        has_waited.append(closing.is_alive())
        return 1

    with database.reading() as connection:
        driver: Any = connection.connection.driver_connection
        driver.create_function("begin_to_close", 0, begin_to_close)
        query = "SELECT begin_to_close() UNION ALL SELECT 2"
        assert list(connection.exec_driver_sql(query).scalars()) == [1, 2]
    closing.join()
    assert has_waited == [True]
