"""Bodies of requests, their content types and encodings, and methods that a path does not have."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from gpt_oss_harmony.server.http.requests import DecodedBodies
from support.responses_server import TEXT, serving
from support.scripted_engine import ScriptedEngine

LIMIT = 200_000
BODY = json.dumps({"input": "hi " * 1000}).encode()
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    engine = ScriptedEngine()
    engine.context_length = 10_000
    return engine


@pytest.fixture(scope="module")
def client(engine: ScriptedEngine) -> Iterator[TestClient]:
    with serving(engine=engine, max_request_bytes=LIMIT) as client:
        yield client


def zstd(data: bytes) -> bytes:
    compressed: bytes = pytest.importorskip("backports.zstd").compress(data)
    return compressed


def post(client: TestClient, body: Any, **headers: str) -> tuple[int, dict[str, Any]]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = client.post("/v1/responses", content=body, headers={**JSON, **named})
    return answer.status_code, answer.json()


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "GZIP", "identity"])
def test_compressed_bodies_are_read(
    client: TestClient, engine: ScriptedEngine, encoding: str
) -> None:
    compress = {"gzip": gzip.compress, "zstd": zstd}.get(encoding.lower(), bytes)
    engine.completions = [TEXT, TEXT]
    assert post(client, compress(BODY), Content_Encoding=encoding)[0] == 200
    pieces = (compress(BODY)[start : start + 7] for start in range(0, len(compress(BODY)), 7))
    assert post(client, pieces, Content_Encoding=encoding)[0] == 200
    assert "hi hi hi" in engine.prompts[-1]


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_damaged_bodies_are_refused(client: TestClient, encoding: str) -> None:
    whole = {"gzip": gzip.compress, "zstd": zstd}[encoding](BODY)
    for body, problem in (
        (whole[:-3], "its end is missing"),
        (whole + whole, "more data"),
        (b"{}", "damaged"),
        (BODY, "damaged"),
    ):
        status, answer = post(client, body, Content_Encoding=encoding)
        assert status == 400
        assert problem in answer["error"]["message"]
        assert answer["error"]["code"] == "invalid_encoding"


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_the_limit_is_for_the_decoded_body(client: TestClient, encoding: str) -> None:
    bomb = {"gzip": gzip.compress, "zstd": zstd}[encoding](b" " * 50_000_000)
    assert len(bomb) < LIMIT
    status, answer = post(client, bomb, Content_Encoding=encoding)
    assert status == 413
    assert "200,000 bytes" in answer["error"]["message"]


def test_other_encodings_are_named(client: TestClient) -> None:
    status, answer = post(client, BODY, Content_Encoding="br")
    assert status == 415
    assert "'br'" in answer["error"]["message"]
    assert "gzip" in answer["error"]["message"]


@pytest.mark.parametrize(
    "content_type", ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data", ""]
)
@pytest.mark.parametrize("path", ["responses", "chat/completions", "tokens/parse"])
def test_a_body_that_is_not_said_to_be_json_is_refused(
    client: TestClient, path: str, content_type: str
) -> None:
    headers = {"Content-Type": content_type}
    answer = client.post(f"/v1/{path}", content=BODY, headers=headers)
    assert answer.status_code == 415
    error = answer.json()["error"]
    assert error["code"] == "unsupported_content_type"
    assert "Content-Type: application/json" in error["message"]


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "application/a+json"])
def test_json_has_several_content_types(
    client: TestClient, engine: ScriptedEngine, content_type: str
) -> None:
    engine.completions = [TEXT]
    assert post(client, BODY, Content_Type=content_type)[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/responses", "POST"),
        ("PUT", "/v1/responses/resp_1", "DELETE, GET, HEAD"),
        ("DELETE", "/v1/chat/completions", "GET, HEAD, POST"),
        ("POST", "/v1/models", "GET, HEAD"),
    ],
)
def test_a_path_names_its_methods(client: TestClient, method: str, path: str, allowed: str) -> None:
    answer = client.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == allowed
    assert answer.json()["error"]["code"] == "method_not_allowed"


def test_a_full_context_is_said_in_the_words_of_the_api(client: TestClient) -> None:
    """Libraries look for these words to choose a model with a larger context."""
    messages = [{"role": "user", "content": "hi " * 10_500}]
    answer = client.post("/v1/chat/completions", json={"messages": messages})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert "This model's maximum context length is 10000 tokens." in error["message"]
    assert error["code"] == "context_length_exceeded"


def test_bodies_are_decoded_in_turns() -> None:
    """A piece takes about a millisecond, and the event loop would wait for one of each body."""
    body, pieces, most = gzip.compress(bytes(4 << 20)), [0], 0

    async def read(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pieces[0] += 1

    async def received(*_: object) -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def main() -> None:
        nonlocal most
        decoded = DecodedBodies(read, 1 << 30)
        scope = {"type": "http", "headers": [(b"content-encoding", b"gzip")]}
        reading = asyncio.gather(*(decoded(dict(scope), received, received) for _ in range(20)))
        while not reading.done():
            before = pieces[0]
            await asyncio.sleep(0)
            most = max(most, pieces[0] - before)

    asyncio.run(main())
    assert pieces[0] >= 20 * 15
    assert most <= 2
