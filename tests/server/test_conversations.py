"""Conversations: made, read, changed and deleted by the SDK, and gone on with by responses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi.testclient import TestClient
from openai import NotFoundError, OpenAI
from openai.types.conversations import ConversationItem
from pydantic import TypeAdapter

from support.responses_server import CALL, NOW, TEXT, THOUGHT, create, serving, stream
from support.scripted_engine import ScriptedEngine
from support.served import sdk
from support.served import serving as serving_at

pytest_plugins = ("support.postgres_server", "support.databases")

ITEM: TypeAdapter[Any] = TypeAdapter(ConversationItem)
QUESTION: Any = {"type": "message", "role": "user", "content": "hi"}


@contextmanager
def client_of(*completions: str) -> Iterator[OpenAI]:
    with serving_at(ScriptedEngine(*completions)) as url, sdk(url) as client:
        yield client


def test_the_sdk_keeps_conversations() -> None:
    with client_of() as client:
        made = client.conversations.create(items=[QUESTION], metadata={"topic": "demo"})
        assert (made.object, made.metadata) == ("conversation", {"topic": "demo"})
        assert client.conversations.retrieve(made.id) == made
        changed = client.conversations.update(made.id, metadata={"topic": "more"})
        assert changed.metadata == {"topic": "more"}
        deleted = client.conversations.delete(made.id)
        assert (deleted.id, deleted.deleted, deleted.object) == (
            made.id,
            True,
            "conversation.deleted",
        )
        with pytest.raises(NotFoundError):
            client.conversations.retrieve(made.id)


def test_the_sdk_keeps_items() -> None:
    with client_of() as client:
        conversation = client.conversations.create()
        items: Any = client.conversations.items
        texts = [{**QUESTION, "content": f"{number}"} for number in range(5)]
        added = items.create(conversation.id, items=texts)
        for item in added.data:
            ITEM.validate_python(item.to_dict())
        assert items.retrieve(added.data[2].id, conversation_id=conversation.id) == added.data[2]
        newest = items.list(conversation.id, limit=2)
        assert [item.id for item in newest.data] == [added.data[4].id, added.data[3].id]
        assert newest.has_more
        everything = list(items.list(conversation.id, limit=2, order="asc"))
        assert [item.id for item in everything] == [item.id for item in added.data]
        left = items.delete(added.data[0].id, conversation_id=conversation.id)
        assert left.id == conversation.id
        assert len(list(items.list(conversation.id))) == 4
        with pytest.raises(NotFoundError):
            items.retrieve(added.data[0].id, conversation_id=conversation.id)


def test_responses_go_on_with_a_conversation(database_url: str) -> None:
    engine = ScriptedEngine(THOUGHT + CALL, TEXT, TEXT)
    with serving(engine=engine, database=database_url) as client:
        made = client.post("/v1/conversations", json={"items": [QUESTION]}).json()
        fields: dict[str, Any] = {"conversation": {"id": made["id"]}, "tools": [NOW]}
        first = create(client, input="What time is it?", **fields)
        call = first["output"][1]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "noon"}
        create(client, input=[result], **fields)
        create(client, input="Sure?", conversation=made["id"], tools=[NOW], store=False)
        listed = client.get(f"/v1/conversations/{made['id']}/items?order=asc").json()["data"]
    assert first["conversation"] == {"id": made["id"]}
    assert [item["type"] for item in listed] == [
        "message",
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "message",
    ]
    assert engine.prompts[1].startswith(engine.prompts[0] + THOUGHT + CALL)
    assert "Hm, hm." not in engine.prompts[2]
    assert "noon" in engine.prompts[2]


def test_a_response_that_failed_or_was_not_stored_leaves_its_conversation() -> None:
    with serving("!", "<|channel|>final<|message|>Hello!", TEXT) as client:
        made = client.post("/v1/conversations", json={}).json()
        body = {"input": "hi", "conversation": made["id"]}
        assert client.post("/v1/responses", json=body).status_code == 503
        assert stream(client, **body)[-1]["type"] == "response.failed"
        create(client, **body, store=False)
        listed = client.get(f"/v1/conversations/{made['id']}/items").json()
    assert listed == {
        "object": "list",
        "data": [],
        "first_id": "",
        "last_id": "",
        "has_more": False,
    }


REFUSED: dict[str, tuple[list[Any], str | None]] = {
    "kind": ([{"type": "riddle"}], "items[0].type"),
    "result": (
        [QUESTION, {"type": "function_call_output", "call_id": "c", "output": "1"}],
        "items[1].call_id",
    ),
    "reference": ([{"type": "item_reference", "id": "msg_0"}], "items[0].id"),
    "many": ([QUESTION] * 21, "items"),
    "ids": ([{**QUESTION, "id": "msg_1"}] * 2, "items[1].id"),
    "an id for no URL": ([QUESTION, {**QUESTION, "id": "a/b"}], "items[1].id"),
    "an empty id": ([{**QUESTION, "id": ""}], "items[0].id"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_items_that_no_model_can_be_shown_are_refused(name: str) -> None:
    items, param = REFUSED[name]
    with serving() as client:
        made = client.post("/v1/conversations", json={}).json()
        for path in ("", f"/{made['id']}/items"):
            answer = client.post(f"/v1/conversations{path}", json={"items": items})
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_a_result_finds_its_call_in_the_conversation() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "now", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "noon"}
    with serving() as client:
        made = client.post("/v1/conversations", json={"items": [QUESTION, call]}).json()
        answer = client.post(f"/v1/conversations/{made['id']}/items", json={"items": [result]})
        assert answer.status_code == 200


def test_an_id_stands_in_a_conversation_once(client: TestClient) -> None:
    item = {**QUESTION, "id": "msg_1"}
    made = client.post("/v1/conversations", json={"items": [item]}).json()
    answer = client.post(f"/v1/conversations/{made['id']}/items", json={"items": [item]})
    assert answer.status_code == 400
    assert "msg_1" in answer.json()["error"]["message"]


@pytest.fixture
def client() -> Iterator[TestClient]:
    with serving() as client:
        yield client


UNKNOWN = {
    "conversation": ("GET", "/conv_0"),
    "update": ("POST", "/conv_0"),
    "delete": ("DELETE", "/conv_0"),
    "items": ("GET", "/conv_0/items"),
    "add": ("POST", "/conv_0/items"),
    "item": ("GET", "/conv_0/items/msg_0"),
    "delete item": ("DELETE", "/conv_0/items/msg_0"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_there_is_not_found(client: TestClient, name: str) -> None:
    method, path = UNKNOWN[name]
    body = {"items": [QUESTION], "metadata": {}} if method == "POST" else None
    answer = client.request(method, f"/v1/conversations{path}", json=body)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "conversation_not_found"
