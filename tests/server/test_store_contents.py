"""The bytes of files are stored once, count against the limit of a key, and free their space."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony.server import Settings
from gpt_oss_harmony.server.store import (
    Conversation,
    NewFile,
    NewItem,
    NewResponse,
    StorageFullError,
    Store,
    StoredCompletion,
    StoredContainer,
    StoreError,
    UploadedFile,
)
from support.databases import Clock
from support.examples import examples
from support.served import sdk, serving
from support.server_tools import PretendedPython, RoomyEngine

pytest_plugins = ("support.postgres_server", "support.databases")

MIB = 1 << 20


def upload(store: Store, id: str, data: bytes, owner: str = "key") -> None:
    store.uploads.add(UploadedFile(id, owner, None, "user_data", id, len(data), 1, None), data)


def contain(store: Store, id: str, *files: str, owner: str = "key") -> None:
    container = StoredContainer(id, owner, "n", 1, 1, None, None)
    store.containers.add(container, {file: f"{id} {file}" for file in files})


def write(store: Store, response: str, data: bytes, owner: str = "key") -> None:
    """Store a file of the code of a response."""
    store.responses.begin(NewResponse(response, owner, 1, {}))
    store.files.add(response, [NewFile(f"{response} file", "c", "p", "", data)])


def contents(store: Store) -> int:
    """Count the stored contents."""
    return sum(store.owned.count(owner).get("contents", 0) for owner in store.owned.owners())


def test_containers_refer_to_one_content(store: Store) -> None:
    data = os.urandom(MIB)
    for id in ("a", "b"):
        upload(store, id, data)
    for number in range(20):
        contain(store, f"c{number}", "a", "b")
    write(store, "r", data)
    assert contents(store) == 1
    assert sum(store.quota.used("key").values()) < 1.1 * MIB
    assert store.files.data("c7", "c7 b", "key") == data
    assert store.files.data("c", "r file", "key") == data
    upload(store, "a2", data, owner="other")
    assert contents(store) == 2  # nobody learns from the time what another key has stored


def test_a_content_goes_with_the_last_file(store: Store) -> None:
    upload(store, "a", b"same")
    contain(store, "box", "a")
    write(store, "r", b"same")
    upload(store, "kept", b"other")

    def delete_response() -> None:
        store.responses.delete("r", "key")
        store.maintain()

    leaves: list[Callable[[], object]] = [
        lambda: store.uploads.delete("a", "key"),
        lambda: store.containers.delete("box", "key"),
        delete_response,
    ]
    for leave in leaves:
        assert contents(store) == 2
        leave()
    assert contents(store) == 1
    assert store.uploads.data("kept", "key") == b"other"


class Model:
    """What a store of files should have, beside the store itself."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.files: dict[str, bytes] = {}
        self.containers: dict[str, dict[str, bytes]] = {}
        self.written: dict[str, bytes] = {}
        self.count = 0

    def add(self, which: int, data: bytes) -> None:
        upload(self.store, id := f"f{self.count}", data)
        self.files[id] = data

    def contain(self, which: int, data: bytes) -> None:
        chosen, id = sorted(self.files)[:which], f"c{self.count}"
        contain(self.store, id, *chosen)
        self.containers[id] = {f"{id} {file}": self.files[file] for file in chosen}

    def write(self, which: int, data: bytes) -> None:
        write(self.store, id := f"r{self.count}", data)
        self.written[id] = data

    def remove(self, which: int, data: bytes) -> None:
        for id in sorted(self.files)[:which]:
            self.store.uploads.delete(id, "key")
            del self.files[id]

    def empty(self, which: int, data: bytes) -> None:
        for id in sorted(self.containers)[:which]:
            self.store.containers.delete(id, "key")
            del self.containers[id]

    def forget(self, which: int, data: bytes) -> None:
        for id in sorted(self.written)[:which]:
            self.store.responses.delete(id, "key")
            del self.written[id]

    def check(self) -> None:
        self.store.maintain()
        inside = {
            id: (box, data) for box, all in self.containers.items() for id, data in all.items()
        }
        inside |= {f"{id} file": ("c", data) for id, data in self.written.items()}
        for id, data in self.files.items():
            assert self.store.uploads.data(id, "key") == data
        for id, (container, data) in inside.items():
            assert self.store.files.data(container, id, "key") == data
        kept = {*self.files.values(), *(data for _, data in inside.values())}
        assert contents(self.store) == len(kept)


STEPS = [Model.add, Model.contain, Model.write, Model.remove, Model.empty, Model.forget]


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 3), st.integers(0, 2))))
def test_a_file_has_its_content_and_no_content_is_left(steps: list[tuple[Any, int, int]]) -> None:
    with Store(None) as store:
        model = Model(store)
        for step, which, what in steps:
            model.count += 1
            step(model, which, bytes([what]))
        model.check()


def test_no_content_is_lost_while_another_removes_it(store: Store) -> None:
    """Each of two threads adds and removes files with the same content."""
    failures: list[Exception] = []

    def work(name: str) -> None:
        try:
            for number in range(15):
                upload(store, f"{name}{number}", b"same")
                assert store.uploads.data(f"{name}{number}", "key") == b"same"
                store.uploads.delete(f"{name}{number}", "key")
        except (StoreError, AssertionError) as error:  # which a thread would hide
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert contents(store) == 0


def test_deleted_space_comes_back(database_url: str, tmp_path: Path) -> None:
    with Store(database_url) as store:
        before = store.size()
        for number in range(8):
            upload(store, str(number), os.urandom(4 * MIB))
        assert store.size() > before + 32 * MIB
        for number in range(8):
            store.uploads.delete(str(number), "key")
        while store.size() > before + 8 * MIB:  # PostgreSQL counts deleted rows a moment later
            store.maintain()
            time.sleep(0.1)


FULL: dict[str, Any] = {
    "a file": lambda store: upload(store, "x", bytes(900)),
    "a container": lambda store: contain(store, "x", *[str(n) for n in range(5)]),
    "a file of code": lambda store: store.files.add("r", [NewFile("x", "c", "p", "", bytes(900))]),
    "a response": lambda store: store.responses.begin(NewResponse("x", "key", 1, {"a": "x" * 900})),
    "its input": lambda store: store.responses.begin(
        NewResponse("x", "key", 1, {}, [NewItem("i", {"text": ["x" * 900]})])
    ),
    "a conversation": lambda store: store.conversations.create(
        Conversation("x", "key", 1, {}), [NewItem("i", {"text": "x" * 900})]
    ),
    "its metadata": lambda store: store.conversations.create(
        Conversation("x", "key", 1, {"x": "x" * 900})
    ),
    "its items": lambda store: store.conversations.add_items(
        "v", "key", [NewItem("i", {"text": "x" * 900})]
    ),
    "a chat completion": lambda store: store.completions.add(
        StoredCompletion("x", "key", "m", 1, None, {}, {"a": "x" * 900}, [])
    ),
}


@pytest.fixture
def limited(database_url: str, clock: Clock) -> Iterator[Store]:
    """A store in which `key` has room for a few more bytes."""
    with Store(database_url, max_stored_bytes=10_000, clock=clock) as store:
        for number in range(5):
            upload(store, str(number), b"")
        store.responses.begin(NewResponse("r", "key", 1, {}))
        store.conversations.create(Conversation("v", "key", 1, {}))
        room = 10_000 - sum(store.quota.used("key").values())
        upload(store, "filling", os.urandom(room - 900))
        yield store


@pytest.mark.parametrize("add", FULL.values(), ids=FULL)
def test_everything_that_is_stored_counts(limited: Store, add: Any) -> None:
    with pytest.raises(StorageFullError, match=r"\d bytes, .* but 10,000 is the most") as caught:
        add(limited)
    assert caught.value.limit == 10_000
    upload(limited, "other", bytes(5000), owner="other")  # who has room


def test_what_was_deleted_makes_room_and_others_are_seen(database_url: str) -> None:
    with (
        Store(database_url, max_stored_bytes=6000) as store,
        Store(database_url, max_stored_bytes=6000) as other,
    ):
        now = 0.0
        store.quota._clock = lambda: now
        upload(store, "a", bytes(2000))
        upload(other, "b", os.urandom(2000))
        now += 1000
        with pytest.raises(StorageFullError):
            upload(store, "c", os.urandom(2000))
        store.uploads.delete("a", "key")
        now += 1000
        upload(store, "c", os.urandom(2000))


def test_two_servers_do_not_exceed_the_limit_together(database_url: str) -> None:
    """Both have measured before anything was stored; each then adds what it may alone."""
    with ExitStack() as opened:
        stores = [
            opened.enter_context(Store(database_url, max_stored_bytes=100_000)) for _ in range(2)
        ]
        for store in stores:
            upload(store, f"first of {stores.index(store)}", os.urandom(100))
        refused: list[StoreError] = []

        def fill(number: int) -> None:
            for index in range(20):
                try:
                    upload(stores[number], f"{number} {index}", os.urandom(9_000))
                except StorageFullError as error:
                    refused.append(error)

        threads = [threading.Thread(target=fill, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stored = sum(stores[0].quota.used("key").values())
        assert 80_000 < stored <= 100_000
        assert len(refused) == 40 - contents(stores[0]) + 2


def test_a_client_sees_its_limit_and_its_use() -> None:
    settings = Settings(api_keys=("mine", "other"), max_stored_bytes=100_000)
    with serving(RoomyEngine(), settings, [PretendedPython()]) as url:
        with sdk(url, "mine") as client:
            file = client.files.create(file=("a", os.urandom(60_000)), purpose="user_data")
            for _ in range(10):
                client.containers.create(name="c", file_ids=[file.id])
            shown = client.get("/usage", cast_to=object)
            assert isinstance(shown, dict)
            assert shown["max_stored_bytes"] == 100_000
            assert 60_000 < shown["stored"]["files"] == shown["stored_bytes"] < 80_000
            with pytest.raises(openai.APIStatusError, match="100,000 is the most") as caught:
                client.files.create(file=("b", os.urandom(60_000)), purpose="user_data")
            assert (caught.value.status_code, caught.value.code) == (413, "storage_full")
            text = client.with_options(base_url=url.removesuffix("/v1")).get(
                "/metrics", cast_to=str
            )
            assert "harmony_storage_refusals_total 1.0" in text
        with sdk(url, "other") as client:
            client.files.create(file=("b", os.urandom(60_000)), purpose="user_data")
