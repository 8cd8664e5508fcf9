"""What the store keeps of built-in tools: sessions, files, and messages of items."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from openai_harmony.server.store import (
    Conversation,
    NewFile,
    NewItem,
    NewResponse,
    NotFoundError,
    Order,
    Store,
    StoredSession,
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
                found += [file.id for file in page.files]
                after, more = found[-1], page.has_more
                assert len(page.files) == limit or not more
            assert found == expected
        last = store.files.page("cntr_1", OWNER, after=expected[-1], limit=1, order=order)
        assert (last.files, last.has_more) == ((), False)
    for container, owner, after in [
        ("cntr_1", OWNER, "cfile_9"),
        ("cntr_1", OWNER, "a"),
        ("cntr_1", "key_2", "cfile_a0"),
    ]:
        with pytest.raises(NotFoundError):
            store.files.page(container, owner, after=after, limit=1, order="asc")


def test_a_database_of_the_version_before_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "harmony.db"
    with Store(path) as store:
        respond(store, "a")
    with sqlite3.connect(path) as old:
        for table in (
            "response_sessions", "conversation_sessions", "container_files", "chat_completions",
        ):  # fmt: skip
            old.execute(f"DROP TABLE {table}")
        for table in ("response_items", "conversation_items"):
            old.execute(f"ALTER TABLE {table} DROP COLUMN messages")
        old.execute("UPDATE alembic_version SET version_num = '0001'")
    old.close()
    with Store(path) as store:
        assert store.responses.history("a", OWNER)[0].messages is None
        respond(store, "b", browser("one"), after="a")
