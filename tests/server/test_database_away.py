"""A database that is away while responses begin, run and end: each of them ends all the same."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from gpt_oss_harmony.server import Settings, app, create_app
from gpt_oss_harmony.server.auth import limits
from gpt_oss_harmony.server.auth.api_keys import ApiKeys
from gpt_oss_harmony.server.responses import effects
from gpt_oss_harmony.server.store import KeyLimits, NewResponse, Store
from support.faults import away
from support.local_client import LocalClient
from support.responses_server import TEXT, THOUGHT
from support.scripted_engine import GatedEngine, ScriptedEngine

pytest_plugins = ("support.postgres_server", "support.databases")

COMPLETION = THOUGHT + TEXT


@contextmanager
def gated(url: str, **settings: Any) -> Iterator[tuple[FastAPI, TestClient, GatedEngine]]:
    engine = GatedEngine(*[COMPLETION] * 4, before_gate=3)
    served = create_app(engine, Settings(database=url, **settings))
    with LocalClient(served, raise_server_exceptions=False) as client:
        yield served, client, engine


def go_on(served: FastAPI) -> None:
    """Do what the server does every few seconds."""
    app._serve_on(served.state.services)


def running(served: FastAPI) -> list[str]:
    ids: list[str] = served.state.services.store.blocking.responses.running_here()
    return ids


def test_what_ends_while_the_database_is_away_is_stored_later(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A background response completes; a stream has the end that its client has read."""
    monkeypatch.setattr(effects, "_RETRY_SECONDS", 0.05)
    read: list[str] = []
    with gated(database_url) as (served, client, engine):

        def stream() -> None:
            answer = client.post("/v1/responses", json={"input": "hi", "stream": True})
            read.append(answer.text)

        reading = threading.Thread(target=stream)
        reading.start()
        engine.wait_at_gate()
        background = client.post("/v1/responses", json={"input": "hi", "background": True})
        engine.wait_at_gate()
        assert len(running(served)) == 2
        with away(database_url):
            engine.open()
            reading.join()
        go_on(served)
        ended = json.loads(read[0].split("data: ")[-2])
        assert ended["type"] == "response.failed"
        of_stream = client.get(f"/v1/responses/{ended['response']['id']}").json()
        assert of_stream == ended["response"]
        assert [item["type"] for item in of_stream["output"]] == ["reasoning", "message"]
        id = background.json()["id"]
        *_, last = client.get(f"/v1/responses/{id}?stream=true").text.split("data: {")
        assert json.loads("{" + last.partition("\n")[0])["type"] == "response.completed"
        assert client.get(f"/v1/responses/{id}").json()["status"] == "completed"
        assert running(served) == []


def test_a_background_response_does_not_wait_for_ever(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effects, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(effects, "_PATIENCE_SECONDS", 0.1)
    with gated(database_url) as (served, client, engine):
        id = client.post("/v1/responses", json={"input": "hi", "background": True}).json()["id"]
        engine.wait_at_gate()
        live = served.state.services.live_responses
        with away(database_url):
            engine.open()
            while id in live._responses:
                engine.ended.acquire(timeout=0.01)
        go_on(served)
        response = client.get(f"/v1/responses/{id}").json()
        assert (response["status"], response["error"]["code"]) == ("failed", "server_error")
        assert "database does not work" in response["error"]["message"]
        assert live._unstored == {}


def test_a_beginning_that_nothing_follows_fails(database_url: str) -> None:
    """The database stored it, but was away before it said so; or there was no room for its end."""
    with gated(database_url) as (served, client, _):
        store: Store = served.state.services.store.blocking
        body = {"id": "resp_1", "object": "response", "status": "queued", "output": []}
        store.responses.begin(NewResponse("resp_1", "", 0, body, status="queued"))
        with served.state.services.live_responses.beginning("resp_1"):
            go_on(served)
            assert running(served) == ["resp_1"]
        go_on(served)
        response = client.get("/v1/responses/resp_1").json()
        assert response["status"] == "failed"
        assert "The database was away" in response["error"]["message"]
        assert running(served) == []


def test_a_request_of_a_limited_key_ends_when_the_database_is_back(
    empty_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_RETRY_SECONDS", 0.01)
    with Store(empty_postgres) as store:
        key = ApiKeys(store.keys).create("one", KeyLimits(concurrent_requests=1)).key
    with gated(empty_postgres) as (served, client, engine):
        client.headers["authorization"] = f"Bearer {key}"
        body = {"input": "hi", "store": False}
        asking = threading.Thread(target=lambda: client.post("/v1/responses", json=body))
        asking.start()
        engine.wait_at_gate()
        with away(empty_postgres):
            engine.open()
            asking.join()
        limiter = served.state.services.limiter
        while limiter._ending:
            engine.ended.acquire(timeout=0.01)
        assert client.post("/v1/responses", json=body).status_code == 200


def test_a_server_that_stands_still_is_asked_once(
    empty_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds its lease, but never answers."""
    served = create_app(ScriptedEngine(), Settings(database=empty_postgres))
    with Store(empty_postgres) as other, LocalClient(served) as client:
        other.start_serving()
        body = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
        other.responses.begin(NewResponse("resp_1", "", 0, body, background=True))
        peers = served.state.services.peers
        monkeypatch.setattr(peers, "_silence", 0.05)
        asked: list[str] = []
        ask = peers.ask

        async def counted(server_id: str, request: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
            asked.append(request["action"])
            async for part in ask(server_id, request):
                yield part

        monkeypatch.setattr(peers, "ask", counted)
        assert client.get("/v1/responses/resp_1").json()["status"] == "in_progress"
        assert client.post("/v1/responses/resp_1/cancel").json()["status"] == "cancelled"
        assert asked == ["read", "stop"]
