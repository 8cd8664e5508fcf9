"""Responses in the store: kept, changed, ended, listed, searched, and whose they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpt_oss_harmony.apis.wire_events import json_text
from gpt_oss_harmony.server.store import (
    ItemIdError,
    NewItem,
    NewResponse,
    NotFoundError,
    Store,
    StoredItem,
)
from support.databases import Clock

pytest_plugins = ("support.postgres_server", "support.databases")

QUESTION = NewItem("msg_1", {"type": "message", "role": "user", "content": "What is 2 + 2?"})
THOUGHT = NewItem("rs_1", {"type": "reasoning", "summary": []}, (35644, 200008, 1, 2**31, 200007))
ANSWER = NewItem("msg_2", {"type": "message", "role": "assistant", "content": "4"}, (17196, 19))
EVENTS = [{"type": "response.created", "sequence_number": 0}, {"type": "é\ud800", "n": 1}]


def begun(id: str = "resp_1", owner: str = "key_1", **fields: Any) -> NewResponse:
    given: dict[str, Any] = {"created_at": 1_754_352_000, "body": {"id": id}, "input": [QUESTION]}
    return NewResponse(id, owner, **{**given, **fields})


def finish(store: Store, id: str = "resp_1", **fields: Any) -> bool:
    given: dict[str, Any] = {"status": "completed", "body": {"id": id, "status": "completed"}}
    return store.responses.finish(id, **{**given, "output": [THOUGHT, ANSWER], **fields})


def test_a_response_is_there_from_its_beginning(store: Store) -> None:
    store.responses.begin(begun(status="queued", background=True, expires_at=1_754_352_060))
    response = store.responses.get("resp_1", "key_1")
    assert (response.status, response.is_running, response.background) == ("queued", True, True)
    assert response.body == {"id": "resp_1"}
    assert response.output == ()
    assert response.expires_at == 1_754_352_060
    assert store.responses.events("resp_1", "key_1") == []
    assert store.responses.update("resp_1", "in_progress", {"id": "resp_1", "n": 1})
    response = store.responses.get("resp_1", "key_1")
    assert (response.status, response.body["n"]) == ("in_progress", 1)


def test_what_ended_comes_back_as_it_was(store: Store) -> None:
    store.responses.begin(begun())
    assert finish(store, events=map(json_text, EVENTS), completed_at=1_754_352_005)
    response = store.responses.get("resp_1", "key_1")
    assert (response.status, response.is_running) == ("completed", False)
    assert response.completed_at == 1_754_352_005
    assert response.output == tuple(map(stored, (THOUGHT, ANSWER)))
    assert store.responses.events("resp_1", "key_1") == EVENTS
    page = store.responses.input_items("resp_1", "key_1")
    assert (page.items, page.has_more) == ((stored(QUESTION),), False)


def test_a_response_ends_once(store: Store) -> None:
    store.responses.begin(begun())
    assert finish(store, status="cancelled", output=[])
    assert not finish(store)
    assert not store.responses.update("resp_1", "in_progress", {})
    response = store.responses.get("resp_1", "key_1")
    assert (response.status, response.output) == ("cancelled", ())
    assert not finish(store, "resp_2")


def test_another_server_may_cancel(database_url: str, store: Store) -> None:
    store.responses.begin(begun())
    with Store(database_url) as other:
        assert finish(other, status="cancelled", output=[])
    assert not finish(store)
    assert store.responses.get("resp_1", "key_1").status == "cancelled"


READERS: dict[str, Callable[[Store, str], object]] = {
    "get": lambda store, owner: store.responses.get("resp_1", owner),
    "input_items": lambda store, owner: store.responses.input_items("resp_1", owner),
    "events": lambda store, owner: store.responses.events("resp_1", owner),
    "history": lambda store, owner: store.responses.history("resp_1", owner),
    "delete": lambda store, owner: store.responses.delete("resp_1", owner),
    "follow": lambda store, owner: store.responses.begin(
        begun("resp_9", owner, previous_response_id="resp_1")
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_others_do_not_find_it(store: Store, name: str) -> None:
    store.responses.begin(begun())
    finish(store)
    for owner in ("key_2", "", "KEY_1", "key_1\0", "\ud800"):
        with pytest.raises(NotFoundError) as error:
            READERS[name](store, owner)
        assert (error.value.kind, error.value.id) == ("response", "resp_1")
        assert str(error.value) == "there is no response 'resp_1'"
    READERS[name](store, "key_1")


@pytest.mark.parametrize("name", READERS)
def test_what_expired_is_not_found(store: Store, clock: Clock, name: str) -> None:
    store.responses.begin(begun(expires_at=1_754_352_060))
    finish(store)
    clock.time = 1_754_352_059.9
    store.responses.get("resp_1", "key_1")
    clock.time = 1_754_352_060
    with pytest.raises(NotFoundError):
        READERS[name](store, "key_1")
    assert store.find_items(["msg_1", "rs_1"], "key_1") == {}


def test_pages_of_input(store: Store) -> None:
    items = [NewItem(f"msg_{number}", {"n": number}) for number in range(5)]
    store.responses.begin(begun(input=items))

    def page(**options: Any) -> tuple[list[str], bool]:
        page = store.responses.input_items("resp_1", "key_1", **options)
        return [item.id for item in page.items], page.has_more

    assert page() == (["msg_4", "msg_3", "msg_2", "msg_1", "msg_0"], False)
    assert page(order="asc", limit=2) == (["msg_0", "msg_1"], True)
    assert page(order="asc", limit=3, after="msg_1") == (["msg_2", "msg_3", "msg_4"], False)
    assert page(limit=2, after="msg_3") == (["msg_2", "msg_1"], True)
    assert page(after="msg_0") == ([], False)
    with pytest.raises(NotFoundError) as error:
        page(after="msg_9")
    assert error.value.kind == "item"


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([QUESTION, QUESTION], "two items have the id 'msg_1'"),
        ([NewItem("m" * 501, {})], "501 characters; use at most 500"),
    ],
)
def test_ids_that_cannot_be_kept(store: Store, items: list[NewItem], problem: str) -> None:
    with pytest.raises(ItemIdError, match=problem):
        store.responses.begin(begun(input=items))
    with pytest.raises(NotFoundError):
        store.responses.get("resp_1", "key_1")
    store.responses.begin(begun(input=[NewItem("é" * 500, {})]))


def test_items_are_found_by_their_ids(store: Store) -> None:
    for number, said in enumerate(("first", "second")):
        id = f"resp_{number}"
        question = NewItem("msg_1", {"said": said})
        store.responses.begin(begun(id, created_at=number, input=[question]))
        finish(store, id, output=[NewItem(f"rs_{number}", {}, (number,))])
    replayed = NewItem("rs_0", {"edited": True})
    store.responses.begin(begun("resp_2", input=[replayed, QUESTION], owner="key_2"))

    found = store.find_items(["rs_0", "msg_1", "rs_1", "rs_9", "rs_0"], "key_1")
    assert found == {
        "rs_0": StoredItem("rs_0", {}, (0,)),
        "msg_1": StoredItem("msg_1", {"said": "second"}),
        "rs_1": StoredItem("rs_1", {}, (1,)),
    }
    assert store.find_items(["rs_0"], "key_2")["rs_0"].item == {"edited": True}
    assert store.find_items(["rs_0"], "key_3") == {}
    assert store.find_items([], "key_1") == {}
    assert len(store.find_items([f"x{n}" for n in range(70_000)] + ["rs_1"], "key_1")) == 1


def test_a_running_response_may_be_deleted(store: Store) -> None:
    store.responses.begin(begun())
    store.responses.delete("resp_1", "key_1")
    assert not finish(store)
    with pytest.raises(NotFoundError):
        store.responses.get("resp_1", "key_1")


def stored(item: NewItem) -> StoredItem:
    return StoredItem(item.id, dict(item.item), None if item.tokens is None else tuple(item.tokens))
