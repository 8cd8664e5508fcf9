"""The Responses API over a real socket: what is under way, and clients that come and go."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from gpt_oss_harmony.engines import Engine
from gpt_oss_harmony.server import Settings, app, create_app
from gpt_oss_harmony.server.app import make_server
from gpt_oss_harmony.server.store import Responses, Store, StoreError
from support.local_client import LocalClient
from support.responses_server import EVENT, TEXT, THOUGHT, checked_events, checked_response, types
from support.scripted_engine import PATIENCE, GatedEngine, ScriptedEngine
from support.served import PROGRAM_PATIENCE, serving

BEFORE_GATE = 6
ASK = {"input": "hi"}
SHUTTING_DOWN = "server_shutting_down"


class Api:
    """A client of the API, which reads streams as far as it wants to."""

    def __init__(self, url: str) -> None:
        self.http = httpx2.Client(base_url=url, timeout=PATIENCE)

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        answer = self.http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def get(self, path: str) -> dict[str, Any]:
        answer = self.http.get(path)
        assert answer.status_code == 200, answer.text
        return checked_response(answer.json())

    @contextmanager
    def create(self, **body: Any) -> Iterator[Iterator[dict[str, Any]]]:
        with self.http.stream("POST", "/responses", json={**body, "stream": True}) as answer:
            assert answer.status_code == 200, answer.read()
            yield events_of(answer)

    def replay(self, id: str, after: int = -1) -> list[dict[str, Any]]:
        number = "" if after < 0 else f"&starting_after={after}"
        answer = self.http.get(f"/responses/{id}?stream=true{number}")
        return checked_events(answer.text, first=after + 1)


def events_of(answer: httpx2.Response) -> Iterator[dict[str, Any]]:
    for line in answer.iter_lines():
        if line.startswith("data: {"):
            event = json.loads(line.removeprefix("data: "))
            if SHUTTING_DOWN not in line:  # the SDK's types know no such code
                EVENT.validate_python(event)
            yield event


@contextmanager
def api(engine: Engine, **settings: Any) -> Iterator[Api]:
    with serving(engine, Settings(**settings)) as url:
        client = Api(url)
        with client.http:
            yield client


@contextmanager
def gated(completion: str = THOUGHT + TEXT, **settings: Any) -> Iterator[tuple[GatedEngine, Api]]:
    engine = GatedEngine(completion, TEXT, before_gate=BEFORE_GATE)
    with api(engine, **settings) as client:
        yield engine, client


def until_gate(events: Iterator[dict[str, Any]], engine: GatedEngine) -> list[dict[str, Any]]:
    """Read what there is before the gate: four events, and three deltas."""
    engine.wait_at_gate()
    return [next(events) for _ in range(7)]


@pytest.mark.parametrize("background", [False, True])
def test_a_response_under_way_is_read_by_others_from_any_number(background: bool) -> None:
    with gated() as (engine, client), client.create(**ASK, background=background) as events:
        begun = until_gate(events, engine)
        id = begun[0]["response"]["id"]
        now = client.get(f"/responses/{id}")
        assert now["status"] == "in_progress"
        with ThreadPoolExecutor() as pool:
            readers = [pool.submit(client.replay, id, after) for after in range(-1, 12)]
            engine.open()
            told = [*begun, *events]
            read = [reader.result() for reader in readers]
    assert read == [told[after + 1 :] for after in range(-1, 12)]
    assert types(told)[-1] == "completed"


def test_a_client_that_goes_away_ends_its_response() -> None:
    with gated() as (engine, client):
        with client.create(**ASK) as events:
            (created, *_) = until_gate(events, engine)
        engine.wait_for_end()
        id = created["response"]["id"]
        events_kept = client.replay(id)
        response = client.get(f"/responses/{id}")
    assert engine.freed == 1
    assert response["status"] == "cancelled"
    assert [item["status"] for item in response["output"]] == ["incomplete"]
    assert events_kept[-1]["response"] == response


def test_a_client_that_waits_and_goes_away_ends_its_response() -> None:
    engine = GatedEngine(TEXT, before_gate=BEFORE_GATE - 4)
    with api(engine) as client:
        where = urlsplit(str(client.http.base_url))
        body = json.dumps(ASK).encode()
        head = f"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        head += "Content-Type: application/json\r\n\r\n"
        with socket.create_connection((where.hostname, where.port or 80)) as connection:
            connection.sendall(head.encode() + body)
            engine.wait_at_gate()
        engine.wait_for_end()
    assert engine.freed == 1


def test_a_response_in_the_background_goes_on_alone() -> None:
    with gated() as (engine, client):
        queued = checked_response(client.post("/responses", **ASK, background=True))
        engine.wait_at_gate()
        running = client.get(f"/responses/{queued['id']}")
        engine.open()
        events = client.replay(queued["id"])
        ended = client.get(f"/responses/{queued['id']}")
    assert (queued["status"], queued["output"], queued["background"]) == ("queued", [], True)
    assert running["status"] == "in_progress"
    assert types(events)[:3] == ["created", "queued", "in_progress"]
    assert events[-1]["response"] == ended
    assert ended["status"] == "completed"


def test_a_stream_that_is_left_is_taken_up_again_in_the_background() -> None:
    with gated() as (engine, client):
        with client.create(**ASK, background=True) as events:
            begun = until_gate(events, engine)
        engine.open()
        rest = client.replay(begun[0]["response"]["id"], begun[-1]["sequence_number"])
    assert [event["sequence_number"] for event in [*begun, *rest]] == list(
        range(len(begun) + len(rest))
    )
    assert types(rest)[-1] == "completed"


def test_a_response_is_cancelled() -> None:
    with gated() as (engine, client):
        queued = client.post("/responses", **ASK, background=True)
        path = f"/responses/{queued['id']}"
        engine.wait_at_gate()
        cancelled = checked_response(client.post(f"{path}/cancel"))
        engine.wait_for_end()
        again = client.post(f"{path}/cancel")
        assert client.get(path) == cancelled == again
        assert client.replay(queued["id"])[-1]["response"] == cancelled
        assert client.replay(queued["id"])[-1]["type"] == "response.incomplete"
    assert cancelled["status"] == "cancelled"
    assert cancelled["output"][0]["status"] == "incomplete"
    assert engine.freed == 1


def test_a_response_that_ended_cannot_be_cancelled() -> None:
    with api(ScriptedEngine(TEXT)) as client:
        id = client.post("/responses", **ASK)["id"]
        answer = client.http.post(f"/responses/{id}/cancel")
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "response_already_ended"


def test_a_response_in_the_background_may_have_ended_before_it_is_cancelled() -> None:
    with api(ScriptedEngine(TEXT)) as client:
        id = client.post("/responses", **ASK, background=True)["id"]
        ended = client.replay(id)[-1]["response"]
        assert ended["status"] == "completed"
        assert client.post(f"/responses/{id}/cancel") == ended


def test_a_response_under_way_is_deleted() -> None:
    with gated() as (engine, client):
        id = client.post("/responses", **ASK, background=True)["id"]
        engine.wait_at_gate()
        assert client.http.delete(f"/responses/{id}").status_code == 200
        engine.wait_for_end()
        assert client.http.get(f"/responses/{id}").status_code == 404
    assert engine.freed == 1


def test_nobody_goes_on_from_what_has_not_ended() -> None:
    with gated() as (engine, client):
        id = client.post("/responses", **ASK, background=True)["id"]
        engine.wait_at_gate()
        answer = client.http.post("/responses", json={**ASK, "previous_response_id": id})
        assert answer.json()["error"]["code"] == "previous_response_not_ended"
        engine.open()


def test_a_stream_begins_though_no_token_comes() -> None:
    engine = GatedEngine(TEXT, before_gate=0)
    with api(engine) as client, client.create(**ASK) as events:
        engine.wait_at_gate()
        assert types([next(events), next(events)]) == ["created", "in_progress"]
        engine.open()
        assert types(list(events))[-1] == "completed"


def test_a_full_queue_makes_clients_wait_or_come_back() -> None:
    engine = GatedEngine(TEXT, TEXT, before_gate=1)
    with api(engine, max_running=1, max_waiting=1) as client:
        first, second = (client.post("/responses", **ASK, background=True) for _ in range(2))
        engine.wait_at_gate()
        refused = client.http.post("/responses", json=ASK)
        assert client.get(f"/responses/{second['id']}")["status"] == "queued"
        engine.open()
        for one in (first, second):
            assert types(client.replay(one["id"]))[-1] == "completed"
    assert refused.status_code == 429


def test_many_responses_run_at_once() -> None:
    texts = [f"<|channel|>final<|message|>Number {number}<|return|>" for number in range(24)]
    engine = ScriptedEngine(*texts)
    with api(engine, max_running=8) as client, ThreadPoolExecutor(12) as pool:

        def ask(_: int) -> str:
            with client.create(**ASK) as events:
                told = list(events)
            assert [event["sequence_number"] for event in told] == list(range(len(told)))
            return str(told[-1]["response"]["output"][0]["content"][0]["text"])

        said = sorted(pool.map(ask, range(24)))
    assert said == sorted(f"Number {number}" for number in range(24))


@pytest.mark.parametrize("background", [False, True])
def test_a_server_that_ends_says_so(background: bool) -> None:
    told: list[dict[str, Any]] = []
    engine = GatedEngine(THOUGHT + TEXT, before_gate=BEFORE_GATE)
    with serving(engine, Settings(shutdown_seconds=0)) as url:

        def read() -> None:
            client = Api(url)
            with client.http, client.create(**ASK, background=background) as events:
                told.extend(events)

        reader = threading.Thread(target=read)
        reader.start()
        engine.wait_at_gate()
    reader.join(PATIENCE)
    assert types(told)[-1] == "failed"
    assert told[-1]["response"]["error"]["code"] == SHUTTING_DOWN
    assert engine.freed == 1


def test_a_server_that_ends_still_listens_and_says_that_it_is_not_ready() -> None:
    engine = GatedEngine(THOUGHT + TEXT, before_gate=BEFORE_GATE)
    settings = Settings()
    server = make_server(create_app(engine, settings), settings)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        root = f"http://127.0.0.1:{listener.getsockname()[1]}"
        serving = threading.Thread(target=asyncio.run, args=(server.serve(sockets=[listener]),))
        serving.start()
        client = Api(f"{root}/v1")
        with client.http, client.create(**ASK) as events:
            engine.wait_at_gate()
            server.should_exit = True
            answer = httpx2.get(f"{root}/ready")
            while answer.status_code == 200:  # the server looks for its end ten times a second
                answer = httpx2.get(f"{root}/ready")
            refused = httpx2.post(f"{root}/v1/responses", json=ASK)
            engine.open()
            assert types(list(events))[-1] == "completed"
        serving.join(PATIENCE)
        assert not serving.is_alive()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, SHUTTING_DOWN)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, SHUTTING_DOWN)


def test_nobody_reads_of_an_end_that_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    keeping, kept = threading.Event(), threading.Event()
    finish = Responses.finish

    def slow_finish(*arguments: Any, **fields: Any) -> bool:
        keeping.set()
        assert kept.wait(PATIENCE)
        return finish(*arguments, **fields)

    monkeypatch.setattr(Responses, "finish", slow_finish)
    with api(ScriptedEngine(TEXT)) as client, client.create(**ASK) as events:
        id = next(events)["response"]["id"]
        assert keeping.wait(PATIENCE)
        assert client.get(f"/responses/{id}")["status"] == "in_progress"
        kept.set()
        assert types(list(events))[-1] == "completed"
        assert client.get(f"/responses/{id}")["status"] == "completed"


def test_what_cannot_be_kept_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_finish(*_: Any, **__: Any) -> bool:
        raise StoreError("the disk is full")

    monkeypatch.setattr(Responses, "finish", no_finish)
    with api(ScriptedEngine(TEXT, TEXT)) as client:
        with client.create(**ASK) as events:
            told = list(events)
        answer = client.http.post("/responses", json=ASK)
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    failed = told[-1]["response"]
    assert failed["status"] == "failed"
    problem = "the server's database does not work at the moment; try again later"
    assert failed["error"] == {"code": "server_error", "message": problem}
    assert answer.status_code == 503
    assert answer.json()["error"]["message"] == problem


@pytest.mark.parametrize("days", [-400, 400])
def test_a_response_ends_though_the_clock_jumps(days: int) -> None:
    """What has expired by the new time is gone, also if it still runs."""
    engine = GatedEngine(THOUGHT + TEXT, TEXT, before_gate=BEFORE_GATE)
    served = create_app(engine, Settings())
    with LocalClient(served) as client:
        id = client.post("/v1/responses", json={**ASK, "background": True}).json()["id"]
        engine.wait_at_gate()
        services = served.state.services
        store: Store = services.store.blocking
        now = time.time() + days * 24 * 3600
        object.__setattr__(store._server, "now", lambda: now)
        app._maintain(services)
        engine.open()
        while services.live_responses._responses:
            engine.ended.acquire(timeout=0.01)
        app._serve_on(services)
        assert store.responses.running_here() == []
        assert client.get(f"/v1/responses/{id}").status_code == (200 if days < 0 else 404)
        assert client.post("/v1/responses", json=ASK).json()["status"] == "completed"


@pytest.mark.slow
def test_a_thousand_streams_at_once() -> None:
    keys = tuple(f"key {number}" for number in range(20))

    async def stream(client: httpx2.AsyncClient, number: int) -> bool:
        headers = {"authorization": f"Bearer {keys[number % len(keys)]}"}
        answer = await client.post("/responses", json={**ASK, "stream": True}, headers=headers)
        return "response.completed" in answer.text and answer.text.endswith("[DONE]\n\n")

    async def streams(url: str) -> list[bool]:
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(
            base_url=url, timeout=PROGRAM_PATIENCE, limits=limits
        ) as client:
            return await asyncio.gather(*(stream(client, number) for number in range(1_000)))

    settings = Settings(api_keys=keys, max_running=100)
    with serving(ScriptedEngine(*[TEXT] * 1_000), settings) as url:
        assert all(asyncio.run(streams(url)))
