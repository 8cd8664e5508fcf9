"""A disk that is really full: an owner deletes, and everything works again without a restart."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gpt_oss_harmony.server import Settings, create_app
from gpt_oss_harmony.server.store import Conversation, Store, StoreError, StoreFullError
from gpt_oss_harmony.server.store.rows import NewItem
from support.faults import database_on, small_disk
from support.local_client import LocalClient
from support.responses_server import TEXT
from support.scripted_engine import ScriptedEngine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="only root mounts a small disk"
    ),
]

pytest_plugins = ("support.postgres_server",)

MIB = 1 << 20


@pytest.fixture
def disk() -> Iterator[Path]:
    with small_disk(96) as path:
        yield path


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, disk: Path) -> Iterator[str]:
    """A database whose tables are on the disk."""
    if request.param == "sqlite":
        yield f"sqlite:///{disk / 'harmony.db'}"
        return
    with database_on(disk, request.getfixturevalue("postgres_server")) as url:
        yield url


def conversation(store: Store, index: int, size: int = 4 * MIB) -> None:
    text = os.urandom(size // 2).hex()
    made = Conversation(f"conv_{index}", "key", 0, {})
    store.conversations.create(made, [NewItem(f"item_{index}", {"text": text})])


def filled(store: Store) -> list[int]:
    """Store conversations until nothing fits any more, in ever smaller ones."""
    stored: list[int] = []
    for size in (4 * MIB, MIB // 2, 16 * 1024):
        store._database.is_full = False
        with suppress(StoreError):
            while len(stored) < 2000:
                conversation(store, len(stored), size)
                stored.append(len(stored))
    return stored


def recovered(store: Store) -> None:
    """Do what a server does every few seconds, until the database works again."""
    for _ in range(10):
        with suppress(StoreError):
            store.start_serving()
            assert store.problem is None
            return
        time.sleep(1)
    raise AssertionError(store.problem)


def test_an_owner_deletes_on_a_full_disk_and_writes_again(database: str) -> None:
    with Store(database) as store:
        store.start_serving()
        stored = filled(store)
        with pytest.raises(StoreFullError):
            conversation(store, 5000)
        for index in stored:
            store.conversations.delete(f"conv_{index}", "key")
        recovered(store)
        conversation(store, 5001)
        assert len(stored) > 5


def test_the_reserve_is_for_deletions_only(database: str) -> None:
    with Store(database) as store:
        store.start_serving()
        stored = filled(store)
        store.conversations.delete(f"conv_{stored[-1]}", "key")
        # The reserve was given up; nothing else is written until it is there again.
        for index in (5000, 5001):
            with pytest.raises(StoreFullError):
                conversation(store, index, 1024)
        with suppress(StoreFullError):
            store.start_serving()
        reserve = store._database._reserve
        assert reserve is not None
        assert (store.problem is None) is reserve.fill()


@pytest.mark.parametrize("kind", ["responses", "files", "conversations"])
def test_deletions_through_the_api(disk: Path, kind: str) -> None:
    engine = ScriptedEngine(*[TEXT] * 50)
    app = create_app(engine, Settings(database=f"sqlite:///{disk / 'harmony.db'}"))
    text = os.urandom(MIB).hex()
    with LocalClient(app, raise_server_exceptions=False) as client:

        def make() -> object:
            if kind == "files":
                file = {"file": ("a.txt", os.urandom(6 * MIB))}
                return client.post("/v1/files", files=file, data={"purpose": "user_data"})
            if kind == "responses":
                items: list[object] = [
                    {"type": "mcp_list_tools", "server_label": "a", "tools": [], "x": text}
                ]
                items += [{"role": "user", "content": "hi"}]
                return client.post("/v1/responses", json={"input": items})
            item = {"role": "user", "content": text}
            return client.post("/v1/conversations", json={"items": [item]})

        ids: list[str] = []
        while (answer := make()).status_code == 200:  # type: ignore[attr-defined]
            ids.append(answer.json()["id"])  # type: ignore[attr-defined]
            assert len(ids) < 200
        assert answer.status_code == 503  # type: ignore[attr-defined]
        statuses = [client.delete(f"/v1/{kind}/{id}").status_code for id in ids]
        assert statuses == [200] * len(ids)
        app.state.services.store.blocking.start_serving()
        assert client.get("/ready").status_code == 200
        assert make().status_code == 200  # type: ignore[attr-defined]
