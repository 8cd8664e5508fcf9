"""What the store keeps of built-in tools: sessions, files, and messages of items."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from gpt_oss_harmony.server.store import (
    Conversation,
    NewFile,
    NewItem,
    NewResponse,
    NotFoundError,
    Order,
    Store,
    StoredContainer,
    StoredSession,
    UploadedFile,
)
from support.databases import Clock

pytest_plugins = ("support.postgres_server", "support.databases")

OWNER = "key_1"
MESSAGES = [{"role": "assistant", "content": "1 + 1\x00"}, {"role": "tool", "content": "2"}]
ITEM = NewItem("ci_1", {"id": "ci_1"}, (1, 2), MESSAGES)
FILE = NewFile("cfile_1", "cntr_1", "a/plot.png", "image/png", b"\x00\x01")


def respond(
    store: Store,
    id: str,
    *sessions: StoredSession,
    after: str | None = None,
    conversation: str | None = None,
    status: str = "completed",
) -> None:
    store.responses.begin(
        NewResponse(id, OWNER, 0, {}, previous_response_id=after, conversation_id=conversation)
    )
    item = replace(ITEM, id=f"ci_{id}")
    store.responses.finish(id, status=status, body={}, output=[item], sessions=sessions)


def browser(data: str) -> StoredSession:
    return StoredSession("browser", "bs_1", data)


def python(data: str) -> StoredSession:
    return StoredSession("python", "cntr_1", data)


def by_tool(sessions: list[StoredSession]) -> dict[str, str]:
    return {session.tool: session.data for session in sessions}


def test_messages_come_back_with_their_item(store: Store) -> None:
    store.conversations.create(Conversation("conv_1", OWNER, 0, {}))
    respond(store, "a", conversation="conv_1")
    assert store.responses.history("a", OWNER)[0].messages == MESSAGES
    assert store.conversations.items("conv_1", OWNER)[0].messages == MESSAGES
    assert store.find_items(["ci_a"], OWNER)["ci_a"].messages == MESSAGES


def test_a_chain_goes_on_with_the_newest_session_of_each_tool(store: Store) -> None:
    respond(store, "a", browser("one"), python("\ud83d\x00"))
    respond(store, "b", browser("two"), after="a")
    respond(store, "c", after="b")
    respond(store, "other", browser("three"), after="a")
    assert by_tool(store.sessions.after_response("c", OWNER)) == {
        "browser": "two",
        "python": "\ud83d\x00",
    }
    assert by_tool(store.sessions.after_response("a", OWNER))["browser"] == "one"
    assert store.sessions.after_response("c", "key_2") == []
    store.responses.delete("a", OWNER)
    assert "python" in by_tool(store.sessions.after_response("c", OWNER))


def test_a_conversation_has_the_newest_session(store: Store) -> None:
    store.conversations.create(Conversation("conv_1", OWNER, 0, {}))
    respond(store, "a", browser("one"), python("p"), conversation="conv_1")
    respond(store, "b", browser("two"), conversation="conv_1")
    respond(store, "c", browser("lost"), conversation="conv_1", status="failed")
    newest = {"browser": "two", "python": "p"}
    assert by_tool(store.sessions.in_conversation("conv_1", OWNER)) == newest
    assert store.sessions.in_conversation("conv_1", "key_2") == []
    respond(store, "d", python("q"), after="b")
    assert by_tool(store.sessions.after_response("d", OWNER)) == {"browser": "two", "python": "q"}
    store.conversations.delete("conv_1", OWNER)
    assert store.sessions.in_conversation("conv_1", OWNER) == []


def test_files_are_seen_by_their_owner_until_the_response_goes(store: Store, clock: Clock) -> None:
    store.responses.begin(NewResponse("a", OWNER, 0, {}))
    store.files.add("a", [FILE])
    store.files.add("a", [replace(FILE, id="cfile_2", path="b")])
    first, second = store.files.list("cntr_1", OWNER)
    assert (first.path, first.size, first.mime_type) == ("a/plot.png", 2, "image/png")
    assert first.created_at == int(clock.time)
    assert second.path == "b"
    assert store.files.get("cntr_1", "cfile_1", OWNER) == first
    assert store.files.data("cntr_1", "cfile_1", OWNER) == b"\x00\x01"
    assert store.files.list("cntr_1", "key_2") == []
    for container, id, owner in [
        ("cntr_1", "cfile_1", "key_2"),
        ("cntr_2", "cfile_1", OWNER),
        ("cntr_1", "cfile_9", OWNER),
    ]:
        with pytest.raises(NotFoundError):
            store.files.data(container, id, owner)
        with pytest.raises(NotFoundError):
            store.files.get(container, id, owner)
    store.responses.begin(NewResponse("b", OWNER, 0, {}, previous_response_id="a"))
    store.responses.delete("a", OWNER)
    assert store.files.list("cntr_1", OWNER) == []
    with pytest.raises(NotFoundError):
        store.files.add("a", [replace(FILE, id="cfile_3")])


def test_files_are_listed_page_by_page(store: Store) -> None:
    for response, made_at in (("b", 5), ("a", 5), ("c", 4)):
        store.responses.begin(NewResponse(response, OWNER, made_at, {}))
        files = [replace(FILE, id=f"cfile_{response}{n}") for n in range(2)]
        store.files.add(response, [*files, replace(FILE, id=response, container_id="cntr_2")])
    oldest_first = [f"cfile_{name}" for name in ("c0", "c1", "a0", "a1", "b0", "b1")]
    assert [file.id for file in store.files.list("cntr_1", OWNER)] == oldest_first
    orders: list[tuple[Order, list[str]]] = [
        ("asc", oldest_first),
        ("desc", oldest_first[::-1]),
    ]
    for order, expected in orders:
        for limit in range(1, 8):
            found: list[str] = []
            after, more = None, True
            while more:
                page = store.files.page("cntr_1", OWNER, after=after, limit=limit, order=order)
                found += [file.id for file in page.items]
                after, more = found[-1], page.has_more
                assert len(page.items) == limit or not more
            assert found == expected
        last = store.files.page("cntr_1", OWNER, after=expected[-1], limit=1, order=order)
        assert (last.items, last.has_more) == ((), False)
    for container, owner, after in [
        ("cntr_1", OWNER, "cfile_9"),
        ("cntr_1", OWNER, "a"),
        ("cntr_1", "key_2", "cfile_a0"),
    ]:
        with pytest.raises(NotFoundError):
            store.files.page(container, owner, after=after, limit=1, order="asc")


# Files and containers of clients


def uploaded(store: Store, id: str, at: float = 0, owner: str = OWNER) -> UploadedFile:
    file = UploadedFile(id, owner, None, "user_data", f"{id}.txt", len(id), int(at), None)
    store.uploads.add(file, id.encode())
    return file


def made(store: Store, id: str, contents: dict[str, str], at: int = 0) -> None:
    store.containers.add(StoredContainer(id, OWNER, id, at, at, None, None), contents)


def test_uploads_and_containers_are_listed_page_by_page(store: Store) -> None:
    for at, name in ((5, "b"), (5, "a"), (4, "c")):
        uploaded(store, f"file_{name}", at)
        made(store, f"cntr_{name}", {}, at)
    uploaded(store, "file_x", owner="key_2")
    orders: list[tuple[Order, str]] = [("asc", "cab"), ("desc", "bac")]
    for order, names in orders:
        for limit in range(1, 4):
            files: list[str] = []
            containers: list[str] = []
            more = True
            while more:
                page = store.uploads.page(
                    OWNER, after=files[-1] if files else None, limit=limit, order=order,
                    purpose="user_data",
                )  # fmt: skip
                files += [file.id for file in page.items]
                shelf = store.containers.page(
                    OWNER, after=containers[-1] if containers else None, limit=limit, order=order,
                    name=None,
                )  # fmt: skip
                containers += [container.id for container in shelf.items]
                assert shelf.has_more == page.has_more
                more = page.has_more
            assert files == [f"file_{name}" for name in names]
            assert containers == [f"cntr_{name}" for name in names]


def test_files_are_copied_into_containers(store: Store) -> None:
    uploaded(store, "file_1")
    uploaded(store, "file_2", owner="key_2")
    made(store, "cntr_2", {"file_1": "cfile_1"})
    store.uploads.delete("file_1", OWNER)
    (copy,) = store.containers.files("cntr_2", OWNER)
    assert (copy.id, copy.filename, copy.container_id) == ("cfile_1", "file_1.txt", "cntr_2")
    assert store.uploads.data("cfile_1", OWNER) == b"file_1"
    assert store.files.get("cntr_2", "cfile_1", OWNER).source == "user"
    for file_id in ("file_1", "file_2", "cfile_1"):  # deleted, another's, a copy
        with pytest.raises(NotFoundError):
            made(store, "cntr_3", {file_id: "cfile_9"})
        with pytest.raises(NotFoundError):
            store.containers.copy_file("cntr_2", OWNER, file_id, "cfile_9")
    with pytest.raises(NotFoundError):
        store.containers.get("cntr_3", OWNER)  # it was not made
    with pytest.raises(NotFoundError):
        store.containers.delete_file("cntr_2", "key_2", "cfile_1")
    store.containers.delete_file("cntr_2", OWNER, "cfile_1")
    assert store.containers.files("cntr_2", OWNER) == []


def test_the_container_of_a_conversation_is_one_of_the_client(store: Store) -> None:
    store.conversations.create(Conversation("conv_1", OWNER, 0, {}))
    respond(store, "a", python("{}"), conversation="conv_1")
    store.responses.begin(NewResponse("b", OWNER, 0, {}))
    store.files.add("b", [FILE])
    assert store.containers.get("cntr_1", OWNER).name == "auto"
    assert store.sessions.by_id("cntr_1", "python", OWNER) == python("{}")
    for owner in ("key_2", ""):
        with pytest.raises(NotFoundError):
            store.containers.get("cntr_1", owner)
    added = replace(uploaded(store, "file_1"), id="cfile_2", container_id="cntr_1")
    store.containers.add_file(added, b"2")
    listed = store.files.page("cntr_1", OWNER, after=None, limit=9, order="asc").items
    assert {file.id: file.source for file in listed} == {"cfile_2": "user", "cfile_1": "assistant"}
    store.containers.delete_file("cntr_1", OWNER, "cfile_1")
    store.containers.delete("cntr_1", OWNER)
    assert store.files.list("cntr_1", OWNER) == []
    assert store.containers.files("cntr_1", OWNER) == []
    assert store.sessions.by_id("cntr_1", "python", OWNER) is None
    assert store.sessions.in_conversation("conv_1", OWNER) == []
    with pytest.raises(NotFoundError):
        store.containers.delete("cntr_1", OWNER)


@pytest.mark.parametrize("kind", ["a client's", "a response's", "a conversation's"])
def test_a_container_that_is_deleted_in_use_stays_deleted(store: Store, kind: str) -> None:
    talk = "conv_1" if kind == "a conversation's" else None
    store.conversations.create(Conversation("conv_1", OWNER, 0, {}))
    if kind == "a client's":
        made(store, "cntr_1", {})
    else:
        respond(store, "a", browser("one"), python("old"), conversation=talk)
    before = store.sessions.by_id("cntr_1", "python", OWNER)
    session = replace(before or python("{}"), data="new", continues=True)
    for id in ("b", "c", "d"):
        store.responses.begin(NewResponse(id, OWNER, 0, {}, conversation_id=talk))
    store.files.add("b", [FILE], session)
    finish(store, "c", session)
    store.containers.delete("cntr_1", OWNER)
    with pytest.raises(NotFoundError, match="cntr_1"):
        store.files.add("b", [replace(FILE, id="cfile_2")], session)
    finish(store, "b", session, browser("two"))
    assert store.files.list("cntr_1", OWNER) == []
    assert store.sessions.by_id("cntr_1", "python", OWNER) is None
    with pytest.raises(NotFoundError):
        store.containers.get("cntr_1", OWNER)
    assert store.sessions.kept([session, browser("one"), python("new")]) == [
        browser("one"),
        python("new"),
    ]
    newest = store.sessions.in_conversation if talk else store.sessions.after_response
    assert by_tool(newest(talk or "b", OWNER)) == {"browser": "two"}
    # Nothing marks it: another one, which only this response knows, is stored as any other.
    finish(store, "d", replace(python("other"), id="cntr_2"))
    assert store.containers.get("cntr_2", OWNER).name == "auto"


def finish(store: Store, id: str, *sessions: StoredSession) -> None:
    assert store.responses.finish(id, status="completed", body={}, sessions=sessions)


def test_a_container_outlives_the_responses_that_its_session_came_from(store: Store) -> None:
    respond(store, "a", python("old"))
    (session,) = store.sessions.after_response("a", OWNER)
    store.responses.begin(NewResponse("b", OWNER, 0, {}, previous_response_id="a"))
    store.responses.delete("a", OWNER)
    finish(store, "b", replace(session, data="new"))
    assert by_tool(store.sessions.after_response("b", OWNER)) == {"python": "new"}
    assert store.containers.get("cntr_1", OWNER).name == "auto"


def test_a_response_that_ends_while_its_container_is_deleted_brings_nothing_back(
    database_url: str,
) -> None:
    """Two servers: one deletes what the other stores, at the same moment."""
    with Store(database_url) as one, Store(database_url) as other, ThreadPoolExecutor(3) as pool:
        for id in map(str, range(30)):
            container = f"cntr_{id}"
            respond(one, id, replace(python("old"), id=container))
            (session,) = one.sessions.after_response(id, OWNER)
            began = [f"{id} {n}" for n in range(2)]
            for each in began:
                one.responses.begin(NewResponse(each, OWNER, 0, {}, previous_response_id=id))
            gate = threading.Barrier(3)

            def end(each: str, session: StoredSession, gate: threading.Barrier) -> None:
                gate.wait()
                finish(one, each, session)

            def delete(container: str, gate: threading.Barrier) -> None:
                gate.wait()
                other.containers.delete(container, OWNER)

            ends = [pool.submit(end, each, session, gate) for each in began]
            for ended in (*ends, pool.submit(delete, container, gate)):
                ended.result()
            with pytest.raises(NotFoundError):
                one.containers.get(container, OWNER)


def test_what_clients_made_expires(store: Store, clock: Clock) -> None:
    start = int(clock.time)
    file = replace(uploaded(store, "file_0"), id="file_1", expires_at=start + 60)
    store.uploads.add(file, b"1")
    container = StoredContainer("cntr_1", OWNER, "a", start, start, 1, start + 60)
    store.containers.add(container, {"file_1": "cfile_1"})
    clock.time = start + 59
    store.containers.touch("cntr_1", OWNER, None)
    assert store.containers.get("cntr_1", OWNER).expires_at == start + 119
    clock.time = start + 60
    with pytest.raises(NotFoundError):
        store.uploads.get("file_1", OWNER)
    assert [copy.id for copy in store.containers.files("cntr_1", OWNER)] == ["cfile_1"]
    clock.time = start + 119
    with pytest.raises(NotFoundError):
        store.containers.get("cntr_1", OWNER)
    store.maintain()
    clock.time = start
    for id in ("file_1", "cfile_1"):
        with pytest.raises(NotFoundError):
            store.uploads.data(id, OWNER)
    assert store.uploads.get("file_0", OWNER).id == "file_0"


def test_a_database_of_the_version_before_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "harmony.db"
    with Store(path) as store:
        respond(store, "a")
    with sqlite3.connect(path) as old:
        for table in (
            "response_sessions", "conversation_sessions", "container_files", "chat_completions",
            "files", "containers", "key_requests", "contents", "claims", "message_threads",
            "stored_bytes", "batch_results", "batches", "uploads",
        ):  # fmt: skip
            old.execute(f"DROP TABLE {table}")
        for table in ("response_items", "conversation_items"):
            old.execute(f"ALTER TABLE {table} DROP COLUMN messages")
        for index in ("ix_responses_owner", "ix_conversations_owner"):
            old.execute(f"DROP INDEX {index}")
        old.execute("UPDATE alembic_version SET version_num = '0001'")
    old.close()
    with Store(path) as store:
        assert store.responses.history("a", OWNER)[0].messages is None
        respond(store, "b", browser("one"), after="a")
