"""Who may ask the server: its rule without keys, CORS, and the pages that it does not have."""

from __future__ import annotations

import socket as sockets
import zlib
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from starlette.testclient import WebSocketDenialResponse
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from gpt_oss_harmony.server import Settings, create_app
from gpt_oss_harmony.server.auth.api_keys import ApiKeys
from gpt_oss_harmony.server.store import Store
from support.local_client import LocalClient
from support.responses_server import PATH, TEXT, answer, serving
from support.scripted_engine import ScriptedEngine
from support.served import PATIENCE, sdk
from support.served import serving as serving_at

APP = "https://app.example"
FOREIGN: dict[str, dict[str, str]] = {
    "another origin": {"Origin": "https://attacker.example"},
    "another port": {"Origin": "http://127.0.0.1:8001"},
    "no origin that a page has": {"Origin": "null"},
    "another host": {"Host": "attacker.example"},
    "both": {"Host": "attacker.example:8000", "Origin": "http://attacker.example:8000"},
}


def paths(client: TestClient) -> list[tuple[str, str]]:
    """Every operation of the server: method and path."""
    document = client.get("/openapi.json").json()
    operations = [
        (method.upper(), path) for path, item in document["paths"].items() for method in item
    ]
    return [*operations, ("GET", "/"), ("GET", "/openapi.json"), ("POST", "/inspector/api/render")]


@pytest.mark.slow
@pytest.mark.parametrize("name", FOREIGN)
def test_no_operation_answers_a_foreign_page(name: str) -> None:
    with serving() as client:
        for method, path in paths(client):
            refused = client.request(method, path, headers=FOREIGN[name])
            assert refused.status_code == (400 if "Host" in FOREIGN[name] else 403), path
            error = refused.json()["error"]
            code = "host_not_allowed" if "Host" in FOREIGN[name] else "origin_not_allowed"
            if path.startswith("/api/"):  # errors in Ollama's form are texts
                assert code.partition("_")[0] in error
            elif path.startswith("/v1/messages"):  # those in Anthropic's form have no codes
                assert error["type"] in ("invalid_request_error", "permission_error")
            else:
                assert error["code"] == code
            assert not [header for header in refused.headers if header.startswith("access-control")]
        with (
            pytest.raises(WebSocketDenialResponse) as denied,
            client.websocket_connect(PATH, headers=FOREIGN[name]),
        ):
            pass
        assert denied.value.status_code in (400, 403)
        metrics = client.get("/metrics").text
    assert 'status="40' in metrics


def test_the_first_key_opens_the_server_to_those_who_have_one(tmp_path: Path) -> None:
    """A key that is made while the server runs counts at once."""
    database = f"sqlite:///{tmp_path / 'keys.db'}"
    with serving(TEXT, database=database) as client:
        foreign = {"Host": "harmony.example"}
        assert client.get("/v1/models", headers=foreign).status_code == 400
        with Store(database) as store:
            key = ApiKeys(store.keys).create("a test").key
        assert client.get("/v1/models", headers=foreign).status_code == 401
        known = {**foreign, "Authorization": f"Bearer {key}", "Origin": "https://a.example"}
        assert client.get("/v1/models", headers=known).status_code == 200
        with client.websocket_connect(PATH, headers=known) as socket:
            assert answer(socket, input="hi")["status"] == "completed"


def test_addresses_that_others_reach() -> None:
    """As where a program makes the application and binds it to every address."""
    app = create_app(ScriptedEngine())
    with LocalClient(app) as client:  # runs the lifespan
        there = TestClient(app, base_url="http://192.168.0.7:8000")
        refused = there.get("/v1/models", headers={"Host": "localhost"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "key_needed")
        assert client.get("/v1/models").status_code == 200
    with_key = create_app(ScriptedEngine(), Settings(api_keys=("a key",)))
    with TestClient(with_key, base_url="http://192.168.0.7:8000") as there:
        asked = there.get("/v1/models", headers={"Authorization": "Bearer a key"})
        assert asked.status_code == 200


def test_hosts_and_origins_can_be_allowed() -> None:
    with serving(TEXT, allowed_hosts=("Harmony.internal",), allowed_origins=(APP,)) as client:
        allowed = {"Host": "harmony.internal:8000", "Origin": APP}
        assert client.get("/v1/models", headers=allowed).status_code == 200
        with client.websocket_connect(PATH, headers=allowed) as socket:
            assert answer(socket, input="hi")["status"] == "completed"
        for headers in FOREIGN.values():
            assert client.get("/v1/models", headers=headers).status_code in (400, 403)


@pytest.mark.parametrize(
    "settings", [{"allowed_origins": ("*",)}, {"allowed_hosts": ("*.example",)}]
)
def test_a_wildcard_is_refused_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"is not an? "), serving(**settings):
        pass


# CORS

PREFLIGHT = {
    "Origin": APP,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os",
}


@pytest.mark.parametrize("keys", [(), ("a key",)])
def test_a_preflight_needs_no_key_and_an_allowed_origin(keys: tuple[str, ...]) -> None:
    with serving(allowed_origins=(APP,), api_keys=keys) as client:
        allowed = client.options("/v1/responses", headers=PREFLIGHT)
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == APP
        assert allowed.headers["access-control-allow-credentials"] == "true"
        names = allowed.headers["access-control-allow-headers"].lower().split(",")
        assert {"authorization", "content-type", "x-stainless-os"} <= {n.strip() for n in names}
        methods = allowed.headers["access-control-allow-methods"].split(", ")
        assert {"GET", "POST", "DELETE"} <= set(methods)
        assert "Origin" in allowed.headers["vary"]
        other = client.options(
            "/v1/responses", headers={**PREFLIGHT, "Origin": "https://b.example"}
        )
        assert other.status_code >= 400
        assert "access-control-allow-origin" not in other.headers
        method = {**PREFLIGHT, "Access-Control-Request-Method": "PUT"}
        assert client.options("/v1/responses", headers=method).status_code == 400


def test_answers_can_be_read_by_allowed_pages_alone() -> None:
    with serving(TEXT, allowed_origins=(APP,), api_keys=("a key",)) as client:
        key = {"Authorization": "Bearer a key"}
        body = {"input": "hi", "stream": True}
        for headers, status in (({}, 401), (key, 200)):
            sent = client.post("/v1/responses", json=body, headers={**headers, "Origin": APP})
            assert sent.status_code == status
            assert sent.headers["access-control-allow-origin"] == APP
            assert "Retry-After" in sent.headers["access-control-expose-headers"]
            assert "Origin" in sent.headers["vary"]
        other = client.get("/v1/models", headers={**key, "Origin": "https://b.example"})
        assert "access-control-allow-origin" not in other.headers


def test_without_allowed_origins_no_page_may_read() -> None:
    with serving(api_keys=("a key",)) as client:
        key = {"Authorization": "Bearer a key", "Origin": APP}
        answer = client.get("/v1/models", headers=key)
        assert answer.status_code == 200
        assert not [header for header in answer.headers if header.startswith("access-control")]
        assert client.options("/v1/responses", headers=PREFLIGHT).status_code == 405


# Pages


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/docs/oauth2-redirect"])
def test_no_page_loads_scripts_from_elsewhere(path: str) -> None:
    with serving() as client:
        assert client.get(path).status_code == 404
        assert client.get("/openapi.json").json()["openapi"].startswith("3.")


def test_html_is_sent_with_the_policy_of_the_inspector() -> None:
    """Every page of the origin in which the inspector keeps keys."""
    with serving() as client:
        for method, path in paths(client):
            sent = client.request(method, path)
            if "html" in sent.headers.get("content-type", ""):
                assert "default-src 'self'" in sent.headers["content-security-policy"]


# Bodies and heads that do not end, at the server itself


def test_a_server_gives_a_client_a_time_to_ask() -> None:
    settings = Settings(head_seconds=0.3, body_seconds=0.3)
    with serving_at(ScriptedEngine(), settings) as url:
        host, port = url.removeprefix("http://").removesuffix("/v1").split(":")
        for request in (
            b"POST /v1/responses HTTP/1.1\r\n",
            b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{",
        ):
            with sockets.create_connection((host, int(port)), timeout=PATIENCE) as client:
                client.sendall(request)
                assert client.recv(1000).startswith(b"HTTP/1.1 408 ")
                while client.recv(1000):
                    pass
        with httpx2.Client(base_url=url, timeout=PATIENCE) as honest:
            statuses = (honest.get("/models").status_code for _ in range(200))
            assert next(status for status in statuses if status != 408) == 200


FLOOD = 300  # more than one key may have


@pytest.mark.slow
def test_a_flood_of_websockets_leaves_room_for_others() -> None:
    """Open and silent, or with half of a request: others are answered, and all end together."""
    keys = ("of the flood", "of another")
    settings = Settings(shutdown_seconds=0, api_keys=keys)
    floods, refusals = [], []
    with ExitStack() as stack:
        with serving_at(ScriptedEngine(TEXT, TEXT), settings) as url:
            place = url.replace("http://", "ws://") + "/responses"
            for number in range(FLOOD):
                headers = {"Authorization": f"Bearer {keys[0]}"}
                try:
                    flood = connect(place, additional_headers=headers, open_timeout=PATIENCE)
                except InvalidStatus as error:
                    refusals.append(error.response.status_code)
                    continue
                floods.append(stack.enter_context(flood))
                if number % 2:
                    flood.send(iter(['{"type": "response.create", "input": "', "hi"]))
            assert floods
            assert set(refusals) == {429}
            with sdk(url, keys[1]) as client:
                asked = client.responses.create(model="script", input="hi")
                assert asked.status == "completed"
            other_key = {"Authorization": f"Bearer {keys[1]}"}
            with connect(place, additional_headers=other_key) as other:
                other.send('{"type": "response.create", "input": "hi"}')
                assert "response.created" in str(other.recv(PATIENCE))
        for opened in floods:
            with suppress(ConnectionClosed):  # a connection that stays open is a TimeoutError
                while True:
                    opened.recv(PATIENCE)


HANDSHAKE = (
    "GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\n"
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
HALF_A_BODY = (
    "POST /inspector/api/render HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer mine\r\n"
    "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
)


@pytest.mark.parametrize("keys", [(), ("mine",)])
def test_who_is_refused_or_leaves_is_no_error_of_the_server(
    keys: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING")
    with serving_at(ScriptedEngine(), Settings(api_keys=keys)) as url:
        port = int(url.split(":")[2].partition("/")[0])
        with sockets.create_connection(("127.0.0.1", port)) as client:
            client.sendall(HANDSHAKE.encode())
            assert client.recv(100).startswith(b"HTTP/1.1 401" if keys else b"HTTP/1.1 403")
            while client.recv(1000):
                continue
        with sockets.create_connection(("127.0.0.1", port)) as client:
            client.sendall(HALF_A_BODY.encode())
        with sockets.create_connection(("127.0.0.1", port)) as client:  # it is answered later
            client.sendall(HALF_A_BODY.replace("Length: 1000", "Length: 1").encode())
            assert client.recv(100).startswith(b"HTTP/1.1 400")
    assert [record.getMessage() for record in caplog.records] == []


def test_no_frame_is_compressed() -> None:
    """A few bytes could become a message of the largest size."""
    with serving_at(ScriptedEngine()) as url:
        port = int(url.split(":")[2].partition("/")[0])
        shaken = HANDSHAKE.replace("Origin: http://evil.example", "X: y").replace(
            "\r\n\r\n", "\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
        )
        with sockets.create_connection(("127.0.0.1", port)) as client:
            client.sendall(shaken.encode())
            answer = client.recv(1000)
            assert answer.startswith(b"HTTP/1.1 101")
            assert b"permessage-deflate" not in answer
            packer = zlib.compressobj(wbits=-15)
            compressed = packer.compress(b"x" * 1_000_000) + packer.flush()
            header = bytes([0xC1, 0x80 | 126]) + len(compressed).to_bytes(2, "big") + bytes(4)
            client.sendall(header + compressed)
            assert b"reserved bits" in client.recv(1000)
