"""Responses that follow each other: what the next begins with, and what deletion leaves."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import event

from gpt_oss_harmony.server.store import Conversation, NewItem, NewResponse, NotFoundError, Store
from gpt_oss_harmony.server.store.tables import response_items, responses
from support.databases import Clock

pytest_plugins = ("support.postgres_server", "support.databases")

OWNER = "key_1"


def add(store: Store, name: str, previous: str | None = None, expires_at: int | None = None) -> str:
    """Keep a response with one item in and one out, each of which says its name."""
    response = NewResponse(
        name,
        OWNER,
        created_at=0,
        body={"id": name},
        input=[NewItem(f"{name}-in", {"in": name})],
        previous_response_id=previous,
        expires_at=expires_at,
    )
    store.responses.begin(response)
    output = [NewItem(f"{name}-out", {"out": name}, (len(name),))]
    assert store.responses.finish(name, status="completed", body={"id": name}, output=output)
    return name


def chain(store: Store, names: str, previous: str | None = None) -> None:
    for name in names:
        previous = add(store, name, previous)


def history(store: Store, name: str) -> str:
    """The names of the responses that a history is made of, checked to be whole."""
    items = store.responses.history(name, OWNER)
    assert [item.id.partition("-")[2] for item in items] == ["in", "out"] * (len(items) // 2)
    assert all((item.tokens is None) == ("in" in item.item) for item in items)
    return "".join(item.id[0] for item in items[::2])


def kept(store: Store) -> str:
    """The names of the responses of which the database has anything."""
    with store._database.reading() as connection:
        names = connection.execute(responses.select()).scalars().all()
        items = connection.execute(response_items.select().distinct()).scalars().all()
    assert set(items) == set(names)
    return "".join(sorted(names))


def test_history_is_the_whole_chain(store: Store) -> None:
    chain(store, "abcd")
    chain(store, "xy", previous="b")
    assert history(store, "d") == "abcd"
    assert history(store, "b") == "ab"
    assert history(store, "y") == "abxy"


def test_a_long_chain_takes_three_queries(store: Store) -> None:
    previous = None
    for number in range(60):
        previous = add(store, f"{number:03}", previous)
    queries: list[str] = []

    def count(*arguments: object) -> None:
        queries.append(str(arguments[2]))

    event.listen(store._database.engine, "before_cursor_execute", count)
    assert len(store.responses.history("059", OWNER)) == 120
    assert len([query for query in queries if "SELECT" in query]) <= 3


def test_a_response_follows_what_is_there(store: Store) -> None:
    for previous in ("b", "a", "\0"):
        with pytest.raises(NotFoundError) as error:
            add(store, "a", previous)
        assert error.value.id == previous
    assert kept(store) == ""


@pytest.mark.parametrize(
    ("deleted", "left"),
    [
        ("d", "abcxy"),
        ("c", "abcdxy"),  # kept for d
        ("cd", "abxy"),
        ("dc", "abxy"),
        ("dcy", "abx"),
        ("bcdyx", "a"),
        ("abcdxy", ""),
        ("yxdcba", ""),
        ("bacyxd", ""),
    ],
)
def test_what_is_deleted_stays_for_its_followers_alone(
    store: Store, deleted: str, left: str
) -> None:
    chain(store, "abcd")
    chain(store, "xy", previous="b")
    whole = {name: history(store, name) for name in "abcdxy"}
    for name in deleted:
        store.responses.delete(name, OWNER)
    for name in "abcdxy":
        if name in deleted:
            assert_gone(store, name)
        else:
            assert history(store, name) == whole[name]
    assert kept(store) == left


def test_nothing_but_items_is_kept_of_what_is_deleted(store: Store) -> None:
    chain(store, "ab")
    store.responses.delete("a", OWNER)
    with store._database.reading() as connection:
        row = connection.execute(responses.select().where(responses.c.id == "a")).one()
    assert (row.body, row.events) == ({}, None)


def test_what_expired_is_deleted_in_the_same_way(store: Store, clock: Clock) -> None:
    now = int(clock.time)
    add(store, "a", expires_at=now + 10)
    add(store, "b", "a", expires_at=now + 20)
    add(store, "c", "b", expires_at=now + 30)
    add(store, "x", expires_at=now + 10)
    add(store, "y")
    assert store.responses.delete_expired() == 0
    clock.time += 20
    assert store.responses.delete_expired() == 3
    assert_gone(store, "a")
    assert_gone(store, "b")
    assert history(store, "c") == "abc"
    assert kept(store) == "abcy"
    clock.time += 10
    store.maintain()
    assert kept(store) == "y"
    assert store.responses.delete_expired() == 0


@pytest.mark.slow
def test_many_expire(store: Store, clock: Clock) -> None:
    previous = None
    for number in range(450):
        previous = add(store, f"{number:03}", previous, expires_at=int(clock.time) + 10)
    clock.time += 10
    assert store.responses.delete_expired() == 450
    assert kept(store) == ""


def test_deleted_text_is_gone_from_the_file(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "harmony.db"
    with Store(path, clock=clock) as store:
        add(store, "unforgettable")
        store.responses.delete("unforgettable", OWNER)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM response_items").fetchone() == (0,)
    connection.close()
    assert b"unforgettable" not in path.read_bytes()


def test_history_begins_with_the_conversation_as_it_was(store: Store) -> None:
    said = [NewItem("1-in", {"in": 1}), NewItem("1-out", {"out": 1}, (1,))]
    store.conversations.create(Conversation("conv_1", OWNER, 0, {}), said)
    for name in "ab":
        store.responses.begin(
            NewResponse(
                name, OWNER, 0, {}, [NewItem(f"{name}-in", {"in": 1})], conversation_id="conv_1"
            )
        )
        output = [NewItem(f"{name}-out", {"out": 1}, (1,))]
        store.responses.finish(name, status="completed", body={}, output=output)
    add(store, "x", "b")
    add(store, "y", "a")
    assert history(store, "x") == "1abx"
    assert history(store, "y") == "1ay"
    store.conversations.delete("conv_1", OWNER)
    assert history(store, "x") == "bx"


@pytest.mark.parametrize("attempt", range(6))
def test_deletions_and_followers_at_once(store: Store, attempt: int) -> None:
    """Whichever comes first, no row is left that nobody can see or needs."""
    chain(store, "abc")
    actions = [partial(store.responses.delete, name, OWNER) for name in "cba"]
    problems = run_at_once(*actions, partial(add, store, "f", "c"))
    if problems:
        assert [problem.id for problem in problems] == [
            "c"
        ]  # it was deleted before it was followed
    else:
        assert history(store, "f") == "abcf"
        store.responses.delete("f", OWNER)
    assert kept(store) == ""


def run_at_once(*actions: Callable[[], object]) -> list[NotFoundError]:
    problems: list[NotFoundError] = []
    barrier = threading.Barrier(len(actions))

    def run(action: Callable[[], object]) -> None:
        barrier.wait()
        try:
            action()
        except NotFoundError as error:
            problems.append(error)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems


def assert_gone(store: Store, name: str) -> None:
    for read in (store.responses.get, store.responses.history, store.responses.delete):
        with pytest.raises(NotFoundError):
            read(name, OWNER)
    with pytest.raises(NotFoundError):
        add(store, "new", name)
    assert store.find_items([f"{name}-in", f"{name}-out"], OWNER) == {}
