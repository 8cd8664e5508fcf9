"""Conversations in the store: their items, what responses add, and whose they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpt_oss_harmony.server.store import (
    Conversation,
    ItemIdError,
    NewItem,
    NewResponse,
    NotFoundError,
    Store,
    StoredItem,
)

pytest_plugins = ("support.postgres_server", "support.databases")

OWNER = "key_1"
CONVERSATION = Conversation("conv_1", OWNER, 1_754_352_000, {"topic": "sums"})
ITEMS = [NewItem(f"msg_{number}", {"n": number}) for number in range(4)]


@pytest.fixture
def conversations(store: Store) -> Store:
    store.conversations.create(CONVERSATION, ITEMS)
    return store


def ids(store: Store) -> list[str]:
    return [item.id for item in store.conversations.items("conv_1", OWNER)]


def test_a_conversation_comes_back(conversations: Store) -> None:
    assert conversations.conversations.get("conv_1", OWNER) == CONVERSATION
    assert ids(conversations) == ["msg_0", "msg_1", "msg_2", "msg_3"]
    item = conversations.conversations.get_item("conv_1", OWNER, "msg_2")
    assert item == StoredItem("msg_2", {"n": 2})


def test_metadata_is_replaced(conversations: Store) -> None:
    changed = conversations.conversations.update("conv_1", OWNER, {"a": "b"})
    assert changed == Conversation("conv_1", OWNER, 1_754_352_000, {"a": "b"})
    assert conversations.conversations.get("conv_1", OWNER) == changed


def test_items_are_added_and_deleted(conversations: Store) -> None:
    store = conversations.conversations
    assert store.delete_item("conv_1", OWNER, "msg_3") == CONVERSATION
    store.add_items("conv_1", OWNER, [NewItem("msg_5", {}, (5, 6)), NewItem("msg_3", {})])
    assert ids(conversations) == ["msg_0", "msg_1", "msg_2", "msg_5", "msg_3"]
    assert store.items("conv_1", OWNER)[3].tokens == (5, 6)
    page = store.list_items("conv_1", OWNER, limit=2, after="msg_3")
    assert ([item.id for item in page.items], page.has_more) == (["msg_5", "msg_2"], True)
    for wrong in (
        lambda: store.get_item("conv_1", OWNER, "msg_9"),
        lambda: store.delete_item("conv_1", OWNER, "msg_9"),
        lambda: store.list_items("conv_1", OWNER, after="msg_9"),
    ):
        with pytest.raises(NotFoundError, match="there is no item 'msg_9'"):
            wrong()


def test_an_id_stands_in_a_conversation_once(conversations: Store) -> None:
    twice = [NewItem("msg_7", {}), NewItem("msg_7", {})]
    for items, problem in (
        (ITEMS[:1], "already has an item with the id 'msg_0'"),
        (twice, "two items"),
    ):
        with pytest.raises(ItemIdError, match=problem):
            conversations.conversations.add_items("conv_1", OWNER, items)
    with pytest.raises(ItemIdError):
        conversations.conversations.create(Conversation("conv_2", OWNER, 0, {}), twice)
    assert len(ids(conversations)) == 4


def test_a_deleted_conversation_is_gone(conversations: Store) -> None:
    respond(conversations)
    conversations.conversations.delete("conv_1", OWNER)
    with pytest.raises(NotFoundError):
        conversations.conversations.items("conv_1", OWNER)
    found = conversations.find_items(["msg_0", "msg_1", "msg_8", "msg_9"], OWNER)
    assert set(found) == {"msg_0", "msg_8", "msg_9"}  # what the response has
    assert conversations.responses.get("resp_1", OWNER).conversation_id == "conv_1"


def respond(store: Store, id: str = "resp_1", during: Callable[[], object] = lambda: None) -> bool:
    """Make a response to a new item and to a replayed one."""
    asked = [ITEMS[0], NewItem("msg_8", {"n": 8})]
    store.responses.begin(NewResponse(id, OWNER, 0, {}, asked, conversation_id="conv_1"))
    during()
    said = [NewItem(f"msg_9{id[6:]}", {"n": 9}, (9,))]
    return store.responses.finish(id, status="completed", body={}, output=said)


def test_a_response_adds_what_is_new(conversations: Store) -> None:
    assert respond(conversations)
    assert ids(conversations) == ["msg_0", "msg_1", "msg_2", "msg_3", "msg_8", "msg_9"]
    assert conversations.conversations.items("conv_1", OWNER)[-1].tokens == (9,)
    assert respond(conversations, "resp_1b")
    assert ids(conversations)[4:] == ["msg_8", "msg_9", "msg_9b"]


def test_nothing_is_added_before_a_response_ends(conversations: Store) -> None:
    def look() -> None:
        assert len(ids(conversations)) == 4
        conversations.responses.finish("resp_1", status="cancelled", body={})
        assert ids(conversations)[4:] == ["msg_8"]

    assert not respond(conversations, during=look)
    assert ids(conversations)[4:] == ["msg_8"]


def test_a_conversation_may_be_deleted_during_a_response(conversations: Store) -> None:
    assert respond(
        conversations, during=lambda: conversations.conversations.delete("conv_1", OWNER)
    )
    assert len(conversations.responses.get("resp_1", OWNER).output) == 1


def test_a_response_needs_its_conversation(conversations: Store) -> None:
    for owner, id in ((OWNER, "conv_2"), ("key_2", "conv_1")):
        with pytest.raises(NotFoundError, match=f"there is no conversation '{id}'"):
            conversations.responses.begin(NewResponse("resp_1", owner, 0, {}, conversation_id=id))


ACTIONS: dict[str, Callable[[Store, str], object]] = {
    "get": lambda store, owner: store.conversations.get("conv_1", owner),
    "update": lambda store, owner: store.conversations.update("conv_1", owner, {}),
    "items": lambda store, owner: store.conversations.items("conv_1", owner),
    "list": lambda store, owner: store.conversations.list_items("conv_1", owner),
    "item": lambda store, owner: store.conversations.get_item("conv_1", owner, "msg_0"),
    "add": lambda store, owner: store.conversations.add_items(
        "conv_1", owner, [NewItem("msg_7", {})]
    ),
    "remove": lambda store, owner: store.conversations.delete_item("conv_1", owner, "msg_0"),
    "delete": lambda store, owner: store.conversations.delete("conv_1", owner),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_others_do_not_find_it(conversations: Store, name: str) -> None:
    for owner in ("", "key_2", "\0"):
        with pytest.raises(NotFoundError, match="there is no conversation 'conv_1'"):
            ACTIONS[name](conversations, owner)
        assert conversations.find_items(["msg_0"], owner) == {}
    ACTIONS[name](conversations, OWNER)
