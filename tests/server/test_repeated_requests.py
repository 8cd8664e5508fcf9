"""Requests with an Idempotency-Key: a repetition gets what the first one made."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from support.chat_server import HI
from support.responses_server import CALL, TEXT, checked_events, serving
from support.scripted_engine import ScriptedEngine

ASK = {"input": "hi"}
KEY = {"Idempotency-Key": "a"}
ITEM = {"type": "message", "role": "user", "content": "hi"}
STORING: list[tuple[str, dict[str, Any]]] = [
    ("/v1/conversations", {"json": {"metadata": {"a": "b"}}}),
    ("/v1/conversations/{conversation}/items", {"json": {"items": [ITEM]}}),
    ("/v1/files", {"data": {"purpose": "user_data"}, "files": {"file": ("a.txt", b"A")}}),
    ("/v1/containers", {"json": {"name": "work"}}),
    ("/v1/containers/{container}/files", {"files": {"file": ("a.txt", b"A")}}),
    ("/v1/chat/completions", {"json": {"messages": HI, "store": True}}),
]


def send(client: TestClient, key: str, **body: Any) -> Any:
    return client.post("/v1/responses", json=body, headers={"Idempotency-Key": key})


def test_a_repetition_gets_the_first_response() -> None:
    engine = ScriptedEngine(TEXT, TEXT, TEXT)
    with serving(engine=engine) as client:
        first, again = send(client, "a", **ASK), send(client, "a", **ASK)
        streamed = send(client, "b", **ASK, stream=True)
        events = checked_events(send(client, "b", **ASK, stream=True).text)
        other = send(client, "c", **ASK)
    assert first.json() == again.json()
    assert checked_events(streamed.text) == events
    assert other.json()["id"] != first.json()["id"]
    assert len(engine.samplings) == 3


def test_a_key_belongs_to_one_request_of_one_owner() -> None:
    engine = ScriptedEngine(TEXT, TEXT)
    with serving(engine=engine, api_keys=("one", "two")) as client:
        answers = [
            client.post(
                "/v1/responses",
                json={"input": text},
                headers={"Idempotency-Key": "a", "Authorization": f"Bearer {owner}"},
            )
            for owner, text in (("one", "hi"), ("two", "hi"), ("one", "hello"))
        ]
    assert [answer.status_code for answer in answers] == [200, 200, 409]
    assert answers[2].json()["error"]["code"] == "idempotency_key_reused"


def test_a_request_that_did_nothing_may_be_sent_again() -> None:
    engine = ScriptedEngine("!", TEXT)
    with serving(engine=engine) as client:
        failed, again = send(client, "a", **ASK), send(client, "a", **ASK)
    assert [failed.status_code, again.status_code] == [503, 200]


def test_what_is_not_stored_cannot_be_had_again() -> None:
    with serving(TEXT) as client:
        first = send(client, "a", **ASK, store=False)
        again = send(client, "a", **ASK, store=False)
    assert [first.status_code, again.status_code] == [200, 409]
    assert again.json()["error"]["code"] == "key_already_used"


def test_a_response_that_runs_or_was_cancelled_is_no_answer() -> None:
    with serving(f"{TEXT.removesuffix('<|return|>')}...", TEXT) as client:
        first = send(client, "a", **ASK, background=True)
        again = send(client, "a", **ASK, background=True)
        client.post(f"/v1/responses/{first.json()['id']}/cancel")
        ended = send(client, "a", **ASK)
    assert again.status_code == 409
    assert again.headers["Retry-After"] == "1"
    assert again.json()["error"]["code"] == "request_in_progress"
    assert ended.json()["status"] == "completed"


@pytest.mark.parametrize("key", ["", "a" * 256])
def test_keys_have_a_length(key: str) -> None:
    with serving() as client:
        assert send(client, key, **ASK).status_code == 400


@pytest.mark.parametrize(("path", "body"), STORING)
def test_everything_is_stored_once(path: str, body: dict[str, Any]) -> None:
    with serving(TEXT, TEXT) as client:
        talk = client.post("/v1/conversations", json={}).json()["id"]
        container = client.post("/v1/containers", json={"name": "a"}).json()["id"]
        path = path.format(conversation=talk, container=container)
        first, again = (client.post(path, headers=KEY, **body) for _ in range(2))
        listed = client.get(path).json()["data"] if path != "/v1/conversations" else [talk]
        other = client.post("/v1/conversations", headers=KEY, json={"metadata": {"c": "d"}})
    assert [first.status_code, again.status_code] == [200, 200], first.text
    assert first.json() == again.json()
    assert len([item for item in listed if container not in str(item)]) <= 1
    assert other.status_code == 409
    assert other.json()["error"]["code"] == "idempotency_key_reused"


def test_what_was_deleted_cannot_be_had_again() -> None:
    with serving() as client:
        made = client.post("/v1/containers", headers=KEY, json={"name": "a"}).json()
        client.delete(f"/v1/containers/{made['id']}")
        again = client.post("/v1/containers", headers=KEY, json={"name": "a"})
    assert again.status_code == 409
    assert again.json()["error"]["code"] == "key_already_used"


def test_a_request_that_stored_nothing_may_be_sent_again() -> None:
    engine = ScriptedEngine("!", TEXT)
    ask = {"messages": HI, "store": True}
    with serving(engine=engine) as client:
        wrong = client.post("/v1/containers", headers=KEY, json={"name": "a", "file_ids": ["b"]})
        right = client.post("/v1/containers", headers=KEY, json={"name": "a"})
        key = {"Idempotency-Key": "b"}
        chats = [client.post("/v1/chat/completions", headers=key, json=ask) for _ in range(2)]
    assert [wrong.status_code, right.status_code] == [404, 200]
    assert [chat.status_code for chat in chats] == [503, 200]


def test_a_stored_chat_completion_is_streamed_again() -> None:
    """As one chunk for each choice, which the official client reads like any other stream."""
    ask = {"messages": HI, "store": True, "stream": True, "stream_options": {"include_usage": True}}
    ends = []
    with serving(f"{TEXT}", CALL) as client:
        for key in ("a", "b"):
            headers = {"Idempotency-Key": key}
            for _ in range(2):
                sent = client.post("/v1/chat/completions", headers=headers, json=ask).text
                state = ChatCompletionStreamState()
                for line in sent.split("\n\n"):
                    if line.startswith("data: {"):
                        state.handle_chunk(
                            ChatCompletionChunk.model_validate_json(line.removeprefix("data: "))
                        )
                ends.append(state.get_final_completion().model_dump())
    assert ends[0] == ends[1]
    assert ends[2] == ends[3]
    assert ends[2]["choices"][0]["message"]["tool_calls"]
    assert ends[0]["id"] != ends[2]["id"]
