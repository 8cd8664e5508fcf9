"""No endpoint is without a key and without limits, and none works for a client that has gone."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from fastapi.testclient import TestClient
from starlette.routing import BaseRoute
from starlette.testclient import WebSocketDenialResponse

from gpt_oss_harmony.server import Settings, app, create_app
from gpt_oss_harmony.server.auth import api_keys
from gpt_oss_harmony.server.auth.api_keys import ApiKeys
from gpt_oss_harmony.server.fair_turns import FairPool
from gpt_oss_harmony.server.http import requests
from gpt_oss_harmony.server.http.requests import _PIECE
from gpt_oss_harmony.server.responses import plan
from gpt_oss_harmony.server.store import KeyLimits, Store
from support.responses_server import TEXT
from support.responses_server import serving as in_process
from support.scripted_engine import ScriptedEngine
from support.served import PATIENCE, serving

pytest_plugins = ("support.postgres_server", "support.databases")

OPEN = {
    "/",
    "/health",
    "/inspector/api/settings",
    "/inspector/{file}",
    "/metrics",
    "/openapi.json",
    "/ready",
}
"""What everyone may read: it shows no data of a key, and costs next to nothing."""

UNCOUNTED_POSTS = {
    "/v1/responses/{response_id}/cancel",
    "/v1/batches/{batch_id}/cancel",
    "/v1/messages/batches/{batch_id}/cancel",
    "/v1/uploads/{upload_id}/cancel",
}
"""They end work. A key that has used its minute must be able to do so."""


class Site:
    """A server with a key that has used its minute, and one without limits."""

    def __init__(self, client: TestClient, database: str) -> None:
        self.client = client
        with Store(database) as store:
            keys = ApiKeys(store.keys)
            self.used = keys.create("used", KeyLimits(requests_per_minute=1)).key
            self.other = keys.create("other").key
        assert self.ask("POST", "/v1/tokens/parse", self.used, {"text": "hi"}).status_code == 200

    def ask(self, method: str, path: str, key: str | None, body: Any = None) -> httpx2.Response:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        answer: httpx2.Response = self.client.request(method, path, json=body, headers=headers)
        return answer


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    database = f"sqlite:///{tmp_path / 'limits.db'}"
    app = create_app(ScriptedEngine(), Settings(database=database))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield Site(client, database)


def operations(routes: Iterable[BaseRoute]) -> Iterator[tuple[str, str]]:
    """All methods and paths of an application, whatever kind of route they are."""
    for route in routes:
        inner = getattr(route, "original_router", None)  # FastAPI's, for an included router
        if inner is not None:
            yield from operations(inner.routes)
        else:
            methods = getattr(route, "methods", None) or {"WEBSOCKET"}
            yield from ((method, getattr(route, "path", "")) for method in methods - {"HEAD"})


def test_every_endpoint_needs_a_key_and_every_one_that_works_counts(site: Site) -> None:
    seen = sorted(operations(site.client.app.router.routes))  # type: ignore[attr-defined]
    assert ("POST", "/v1/chat/completions") in seen
    assert ("POST", "/inspector/api/render") in seen
    assert ("WEBSOCKET", "/v1/responses") in seen
    for method, path in seen:
        if path in OPEN or method == "WEBSOCKET":
            continue
        where = path.replace("{", "").replace("}", "")
        keyless = site.ask(method, where, None)
        assert (method, path, keyless.status_code) == (method, path, 401)
        answer = site.ask(method, where, site.used, {} if method == "POST" else None)
        is_refused = answer.status_code == 429
        counts = method == "POST" and path not in UNCOUNTED_POSTS
        assert (method, path, is_refused) == (method, path, counts), answer.text
        assert not is_refused or int(answer.headers["retry-after"]) > 1
    assert {path for _, path in seen} >= OPEN


def test_no_id_has_a_nul(database_url: str) -> None:
    """PostgreSQL cannot compare it; in a query it is the id of nothing."""
    with in_process(database=database_url) as client:
        container = client.post("/v1/containers", json={"name": "a"}).json()["id"]
        for method, path in sorted(operations(client.app.router.routes)):  # type: ignore[attr-defined]
            if path in OPEN or method == "WEBSOCKET":
                continue
            body: Any = {} if method == "POST" else None
            inside = re.sub(r"\{[^}]*\}", container, path)
            listed = client.request(method, f"{inside}?after=%00&before=%00", json=body)
            assert listed.status_code < 500, (method, path, listed.text)
            for name in re.findall(r"\{[^}]*\}", path):
                where = re.sub(r"\{[^}]*\}", container, path.replace(name, "%00"))
                answer = client.request(method, where, json=body)
                assert answer.status_code == 400, (method, path, name, answer.text)
                assert "NUL" in answer.text
        for body in (
            {"name": "a", "file_ids": ["\0"]},
            {"input": "hi", "previous_response_id": "\0"},
            {"input": "hi", "conversation": "\0"},
            {"input": [{"type": "item_reference", "id": "\0"}]},
            {"input": "hi", "tools": [{"type": "code_interpreter", "container": "\0"}]},
        ):
            path = "/v1/containers" if "name" in body else "/v1/responses"
            assert client.post(path, json=body).status_code in (400, 404), body


def test_a_websocket_ends_with_its_key(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_keys, "_REMEMBERED", 0)
    keys = site.client.app.state.services.keys  # type: ignore[attr-defined]
    (id,) = [record.id for record in keys.all() if record.name == "other"]
    headers = {"authorization": f"Bearer {site.other}"}
    with site.client.websocket_connect("/v1/responses", headers=headers) as connection:
        connection.send_json({"type": "response.create", "input": "hi", "generate": False})
        assert connection.receive_json()["type"] == "response.created"
        while connection.receive_json()["type"] != "response.completed":
            pass
        keys.revoke(id)
        connection.send_json({"type": "response.create", "input": "hi", "generate": False})
        event = connection.receive_json()
        assert (event["status"], event["error"]["code"]) == (401, "invalid_api_key")


def test_each_request_over_a_websocket_counts(site: Site) -> None:
    headers = {"authorization": f"Bearer {site.used}"}
    with site.client.websocket_connect("/v1/responses", headers=headers) as connection:
        connection.send_json({"type": "response.create", "input": "hi"})
        assert connection.receive_json()["status"] == 429


def test_tokens_that_are_only_counted_count_too(site: Site, tmp_path: Path) -> None:
    with Store(f"sqlite:///{tmp_path / 'limits.db'}") as store:
        key = ApiKeys(store.keys).create("few tokens", KeyLimits(tokens_per_minute=5)).key
    body = {"input": "More than five tokens are in this."}
    for path in ("/v1/responses/input_tokens", "/v1/tokens/render"):
        first, second = (site.ask("POST", path, key, body) for _ in range(2))
        assert {first.status_code, second.status_code} <= {200, 429}
        assert second.status_code == 429


def test_a_key_has_so_many_websockets(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    quota = site.client.app.state.services.sockets  # type: ignore[attr-defined]
    monkeypatch.setattr(quota, "limit", 2)
    own, other = ({"authorization": f"Bearer {key}"} for key in (site.used, site.other))

    def connected(headers: dict[str, str]) -> Any:
        return site.client.websocket_connect("/v1/responses", headers=headers)

    with connected(own), connected(own):
        with pytest.raises(WebSocketDenialResponse) as refused, connected(own):
            pass
        assert refused.value.status_code == 429
        with connected(other):
            pass
    with connected(own):
        pass


def test_the_bytes_of_a_key_s_requests_are_limited(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota = site.client.app.state.services.request_bytes  # type: ignore[attr-defined]
    monkeypatch.setattr(quota, "limit", 1000)
    large = {"text": "x" * 1000}
    refused = site.ask("POST", "/v1/tokens/parse", site.other, large)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "server_busy")
    assert site.ask("POST", "/v1/tokens/parse", site.other, {"text": "hi"}).status_code == 200
    headers = {"authorization": f"Bearer {site.other}"}
    with site.client.websocket_connect("/v1/responses", headers=headers) as connection:
        connection.send_json({"type": "response.create", "input": "x" * 1000})
        assert connection.receive_json()["status"] == 429
    assert not quota._held


def test_the_answers_that_a_key_s_clients_do_not_read_are_limited(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that reads nothing has a piece in its connection, and its key no room for more."""
    quota = site.client.app.state.services.answer_bytes  # type: ignore[attr-defined]
    monkeypatch.setattr(quota, "limit", 2 * _PIECE)
    headers = {"authorization": f"Bearer {site.other}"}
    content = bytes(3 * _PIECE + 1)
    file = site.client.post(
        "/v1/files", headers=headers, files={"file": ("a", content)}, data={"purpose": "user_data"}
    ).json()["id"]
    path = f"/v1/files/{file}/content"
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
    }
    scope |= {"asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http"}
    scope |= {
        "query_string": b"",
        "headers": [(b"authorization", headers["authorization"].encode())],
    }

    async def never() -> Any:
        await asyncio.Event().wait()

    async def begun_twice() -> list[list[Any]]:
        is_read, has_begun = asyncio.Event(), asyncio.Event()
        sent: list[list[Any]] = [[], []]

        async def ask(client: int) -> None:
            async def send(message: Any) -> None:
                sent[client].append(message)
                if client == 0 and "body" in message:
                    has_begun.set()
                    await is_read.wait()

            await site.client.app({**scope}, never, send)

        first = asyncio.create_task(ask(0))
        await has_begun.wait()
        await ask(1)
        assert len(sent[0]) == 2
        is_read.set()
        await first
        return sent

    assert site.client.portal is not None
    read, refused = site.client.portal.call(begun_twice)
    assert refused[0]["status"] == 429
    assert json.loads(refused[1]["body"])["error"]["code"] == "server_busy"
    pieces = [message["body"] for message in read[1:]]
    assert (read[0]["status"], b"".join(pieces)) == (200, content)
    assert [len(piece) for piece in pieces] == [_PIECE, _PIECE, _PIECE, 1]
    assert not quota._held
    assert site.client.get(path, headers=headers).content == content


def test_what_a_key_s_requests_are_unpacked_to_is_limited(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece at a time, which counts before the next is unpacked, and until the request ends."""
    services = site.client.app.state.services  # type: ignore[attr-defined]
    monkeypatch.setattr(services.decoded_bytes, "limit", 2 * _PIECE)
    taken: list[int] = []

    def ask(size: int, key: str = site.other) -> httpx2.Response:
        headers = {"authorization": f"Bearer {key}", "content-encoding": "gzip"}
        headers["content-type"] = "application/json"
        body = gzip.compress(json.dumps({"text": "x" * size}).encode())
        answer: httpx2.Response = site.client.post(
            "/v1/tokens/parse", content=body, headers=headers
        )
        return answer

    decode = requests._BodyDecoder.decode

    def noted(self: Any, data: bytes, *, is_last: bool) -> bytes:
        decoded = decode(self, data, is_last=is_last)
        taken.append(len(decoded))
        return decoded

    monkeypatch.setattr(requests._BodyDecoder, "decode", noted)
    assert ask(2 * _PIECE - 100).status_code == 200
    assert taken[:2] == [_PIECE, _PIECE - 88]
    taken.clear()
    refused = ask(40 * _PIECE)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "server_busy")
    assert "bytes of compressed requests, unpacked" in refused.json()["error"]["message"]
    assert len(taken) == 3
    assert ask(100).status_code == 200
    plain = site.ask("POST", "/v1/tokens/parse", site.other, {"text": "x" * (4 * _PIECE)})
    assert plain.status_code == 200
    assert not services.decoded_bytes._held


LONG = {"input": "hi " * 5_000}  # which is counted in a thread
LARGE = json.dumps({"input": "x" * 100_000}).encode()


def test_work_of_clients_that_have_gone_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two requests hold the threads of their owner; those behind them go away, and never run."""
    begun, gate, entered = list[str](), threading.Event(), threading.Event()
    planned_turn = plan.planned_turn

    def slow(services: Any, owner: str, request: Any) -> Any:
        begun.append(request.model)
        entered.set()
        assert gate.wait(PATIENCE)
        return planned_turn(services, owner, request)

    dropped = threading.Semaphore(0)
    run = FairPool.run

    async def watched_run(self: FairPool, *arguments: Any) -> Any:
        try:
            return await run(self, *arguments)
        except asyncio.CancelledError:
            dropped.release()
            raise

    monkeypatch.setattr(FairPool, "run", watched_run)
    monkeypatch.setattr("gpt_oss_harmony.server.responses.routes.planned_turn", slow)
    monkeypatch.setattr("gpt_oss_harmony.server.fair_turns.os.cpu_count", lambda: 1)
    with serving(ScriptedEngine(TEXT)) as url, httpx2.Client(base_url=url) as client:
        path = "/responses/input_tokens"
        answers = list[httpx2.Response]()
        threads = [
            threading.Thread(target=lambda: answers.append(client.post(path, json=LONG)))
            for _ in range(2)  # as many as an owner has
        ]
        for thread in threads:
            thread.start()
        assert entered.wait(PATIENCE)
        gone = [_sent(url, path) for _ in range(6)]
        for connection in gone:
            connection.close()
        for _ in gone:
            assert dropped.acquire(timeout=PATIENCE)
        gate.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert [answer.status_code for answer in answers] == [200, 200]
        assert client.post(path, json=LONG).status_code == 200
    assert len(begun) == 3


def _sent(url: str, path: str) -> socket.socket:
    """Send a request on a connection of its own, and do not wait for the answer."""
    where = urlsplit(url)
    head = f"POST {where.path}{path} HTTP/1.1\r\nHost: {where.netloc}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(LARGE)}\r\n\r\n"
    connection = socket.create_connection((where.hostname, where.port or 80))
    connection.sendall(head.encode() + LARGE)
    return connection


def test_the_quotas_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "server.md").read_text(
        encoding="utf-8"
    )
    assert f"{app._SOCKETS} WebSockets" in page
    assert f"{16 * app._LARGE_REQUESTS} MiB" in page
    assert f"{16 * app._DECODED_REQUESTS} MiB of it" in page
    assert f"in bytes | {16 * app._LARGE_ANSWERS} MiB |" in page
