"""Laws of the store, on random histories of operations."""

from __future__ import annotations

import uuid

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpt_oss_harmony.server.store import (
    Conversation,
    NewItem,
    NewResponse,
    NotFoundError,
    Order,
    Page,
    Store,
    StoredItem,
)
from support.examples import examples

pytest_plugins = ("support.postgres_server", "support.databases")

# The store of a test is shared by its examples; each has an owner and ids of its own.
several = settings(
    max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture]
)

TEXTS = st.text(st.characters(codec=None), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
TOKENS = st.none() | st.lists(st.integers(0, 2**32 - 1), max_size=30).map(tuple)
ITEMS = st.lists(
    st.builds(NewItem, TEXTS, st.dictionaries(TEXTS, JSON, max_size=3), TOKENS),
    max_size=8,
    unique_by=lambda item: item.id,
)
ORDERS = st.sampled_from(["asc", "desc"])


def stored(items: list[NewItem]) -> list[StoredItem]:
    return [
        StoredItem(item.id, dict(item.item), None if item.tokens is None else tuple(item.tokens))
        for item in items
    ]


@several
@given(asked=ITEMS, answered=ITEMS, limit=st.integers(1, 4), order=ORDERS)
def test_items_come_back_in_order(
    store: Store, asked: list[NewItem], answered: list[NewItem], limit: int, order: Order
) -> None:
    id = uuid.uuid4().hex
    store.responses.begin(NewResponse(id, id, 0, {}, asked))
    assert store.responses.finish(id, status="completed", body={}, output=answered)
    assert store.responses.history(id, id) == stored(asked) + stored(answered)
    assert store.responses.get(id, id).output == tuple(stored(answered))

    def page(after: str | None) -> Page[StoredItem]:
        return store.responses.input_items(id, id, after=after, limit=limit, order=order)

    pages = [page(None)]
    while pages[-1].has_more:
        assert len(pages[-1].items) == limit
        pages.append(page(pages[-1].items[-1].id))
    together = [item for page in pages for item in page.items]
    assert together == (stored(asked) if order == "asc" else stored(asked)[::-1])


@several
@given(first=ITEMS, rounds=st.lists(st.tuples(ITEMS, ITEMS), max_size=4))
def test_a_conversation_has_each_item_once(
    store: Store, first: list[NewItem], rounds: list[tuple[list[NewItem], list[NewItem]]]
) -> None:
    id = uuid.uuid4().hex
    store.conversations.create(Conversation(id, id, 0, {}), first)
    expected = stored(first)
    for number, (asked, answered) in enumerate(rounds):
        response = f"{id}-{number}"
        store.responses.begin(NewResponse(response, id, 0, {}, asked, conversation_id=id))
        fresh = [NewItem(f"{number}\0{item.id}", item.item, item.tokens) for item in answered]
        store.responses.finish(response, status="completed", body={}, output=fresh)
        known = {item.id for item in expected}
        expected += [item for item in stored(asked + fresh) if item.id not in known]
    assert store.conversations.items(id, id) == expected


@several
@given(data=st.data())
def test_a_tree_of_responses(store: Store, data: st.DataObject) -> None:
    """Each response follows an earlier one or none; some are deleted, in any order."""
    owner = uuid.uuid4().hex
    histories: dict[str, list[str]] = {}
    for number in range(data.draw(st.integers(1, 8))):
        id = f"{owner}-{number}"
        previous = data.draw(st.sampled_from([None, *histories]))
        item = NewItem(f"item-{id}", {})
        store.responses.begin(NewResponse(id, owner, 0, {}, [item], previous_response_id=previous))
        histories[id] = [*(histories[previous] if previous else []), item.id]
    deleted = data.draw(st.lists(st.sampled_from(list(histories)), unique=True))
    for id in deleted:
        store.responses.delete(id, owner)
    for id, expected in histories.items():
        try:
            found = [item.id for item in store.responses.history(id, owner)]
        except NotFoundError:
            assert id in deleted
        else:
            assert found == expected
            assert id not in deleted
