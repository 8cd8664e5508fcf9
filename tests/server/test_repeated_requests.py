"""Requests with an Idempotency-Key: a repetition gets the response that the first one made."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from support.responses_server import TEXT, checked_events, serving
from support.scripted_engine import ScriptedEngine

ASK = {"input": "hi"}


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


def test_a_response_that_runs_is_no_answer_yet() -> None:
    with serving(f"{TEXT.removesuffix('<|return|>')}...") as client:
        first = send(client, "a", **ASK, background=True)
        again = send(client, "a", **ASK, background=True)
        client.post(f"/v1/responses/{first.json()['id']}/cancel")
        ended = send(client, "a", **ASK, background=True)
    assert again.status_code == 409
    assert again.headers["Retry-After"] == "1"
    assert again.json()["error"]["code"] == "request_in_progress"
    assert ended.json()["status"] == "cancelled"


@pytest.mark.parametrize("key", ["", "a" * 256])
def test_keys_have_a_length(key: str) -> None:
    with serving() as client:
        assert send(client, key, **ASK).status_code == 400
