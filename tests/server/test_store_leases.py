"""Servers that die: what clients saw as completed stays, and what was running is failed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from gpt_oss_harmony.server.store import NewItem, NewResponse, Store, StoreError, StoreInUseError
from support.databases import Clock

pytest_plugins = ("support.postgres_server", "support.databases")

OWNER = "key_1"

SERVER = """
import sys
from gpt_oss_harmony.server.store import NewItem, NewResponse, Store

store = Store(sys.argv[1])
store.start_serving()
for id in ("resp_1", "resp_2"):
    store.responses.begin(NewResponse(id, "key_1", 0, {"id": id, "error": None}))
output = [NewItem("msg_1", {"text": "4"}, (19, 200002))]
assert store.responses.finish(
    "resp_1", status="completed", body={"id": "resp_1"}, output=output, events=['{"n":0}']
)
print("completed", flush=True)
sys.stdin.read()
"""


@contextmanager
def other_server(url: str) -> Iterator[subprocess.Popen[str]]:
    """A process with one response that completed and one that runs; it is killed at the end."""
    command = [sys.executable, "-c", SERVER, url]
    process = subprocess.Popen(command, stdin=-1, stdout=-1, text=True)
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "completed\n"
            yield process
        finally:
            kill = signal.SIGKILL if os.name == "posix" else signal.SIGTERM
            process.send_signal(kill)


@pytest.mark.slow
def test_what_was_completed_is_there_after_a_kill(database_url: str) -> None:
    with other_server(database_url):
        pass
    with Store(database_url) as store:
        response = store.responses.get("resp_1", OWNER)
        assert response.status == "completed"
        assert [(item.id, item.tokens) for item in response.output] == [("msg_1", (19, 200002))]
        assert store.responses.events("resp_1", OWNER) == [{"n": 0}]
        assert store.responses.get("resp_2", OWNER).status == "in_progress"
        assert store.start_serving() == 1
        assert store.start_serving() == 0
        lost = store.responses.get("resp_2", OWNER)
        assert (lost.status, lost.body["status"], lost.body["id"]) == ("failed", "failed", "resp_2")
        assert lost.body["error"]["code"] == "server_error"
        assert "restarted" in lost.body["error"]["message"]
        assert store.responses.get("resp_1", OWNER).status == "completed"


def test_servers_on_postgres_live_side_by_side(store: Store, database_url: str) -> None:
    if not database_url.startswith("postgresql"):
        pytest.skip("a file of SQLite belongs to one server")
    store.start_serving()
    with other_server(database_url) as process:
        store.maintain()
        assert store.responses.get("resp_2", OWNER).status == "in_progress"
        process.kill()
        process.wait()
        store.maintain()
    assert store.responses.get("resp_2", OWNER).status == "failed"


def test_a_file_belongs_to_one_server(tmp_path: Path) -> None:
    path = tmp_path / "harmony.db"
    with other_server(str(path)), Store(path) as store:
        store.responses.get("resp_1", OWNER)  # who only reads is welcome
        with pytest.raises(StoreInUseError, match=r"the database .*harmony\.db; give"):
            store.start_serving()
    with Store(path) as store:
        assert store.start_serving() == 1
        with Store(path) as other, pytest.raises(StoreInUseError):
            other.start_serving()
    with Store(path) as store:
        assert store.start_serving() == 0


def test_in_memory_nobody_else_is_there() -> None:
    with Store() as store, Store() as other:
        store.start_serving()
        other.start_serving()


def test_a_server_that_was_given_up_in_error_has_the_last_word(
    store: Store, database_url: str, clock: Clock
) -> None:
    """A server may lose its lock and live: the network failed, or the database was restarted."""
    if not database_url.startswith("postgresql"):
        pytest.skip("the lock of a file is not lost")
    store.start_serving()
    for id in ("resp_1", "resp_2"):
        store.responses.begin(NewResponse(id, OWNER, 0, {}))
    end_connections(database_url)
    with Store(database_url, clock=clock) as other:
        assert other.start_serving() == 2
        assert store.responses.get("resp_1", OWNER).status == "failed"
        output = [NewItem("msg_1", {})]
        assert store.responses.finish("resp_1", status="completed", body={}, output=output)
        assert not other.responses.finish("resp_1", status="cancelled", body={})
        response = store.responses.get("resp_1", OWNER)
        assert (response.status, len(response.output)) == ("completed", 1)

        store.maintain()  # takes the lock again
        store.responses.begin(NewResponse("resp_3", OWNER, 0, {}))
        other.maintain()
        assert store.responses.get("resp_3", OWNER).status == "in_progress"


def test_connections_that_broke_are_made_again(store: Store, database_url: str) -> None:
    if not database_url.startswith("postgresql"):
        pytest.skip("there is no connection")
    for _ in range(2):
        store.check()
        end_connections(database_url)
    store.check()


def test_a_database_that_does_not_answer() -> None:
    url = "postgresql://me:secret@127.0.0.1:1/harmony"
    with pytest.raises(StoreError) as error:
        Store(url)
    assert "127.0.0.1:1/harmony failed: " in str(error.value)
    assert "secret" not in str(error.value)


def end_connections(url: str) -> None:
    """End all connections to a database but the one that asks."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
