"""The application around the routes: errors in the shape of the API, sizes, keys."""

from __future__ import annotations

import gc
import itertools
import json
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel, ValidationError

from gpt_oss_harmony import ConversationError, HarmonyError
from gpt_oss_harmony.apis import RequestBody, validation_problem
from gpt_oss_harmony.engines import ContextLengthError, EngineError, SamplingError
from gpt_oss_harmony.grammar import GrammarError
from gpt_oss_harmony.server import Settings, create_app
from gpt_oss_harmony.server import app as server_app
from gpt_oss_harmony.server.app import MemoryKeeper
from gpt_oss_harmony.server.auth.api_keys import ApiKeys, AuthenticatedCaller
from gpt_oss_harmony.server.store.database import Database
from support.local_client import LocalClient
from support.scripted_engine import ScriptedEngine
from support.wrong_requests import RAW


class Body(BaseModel):
    words: list[str]


FAILURES: dict[str, tuple[HarmonyError, int, str, str | None]] = {
    "conversation": (ConversationError("odd", field="input[2]"), 400, "invalid_value", "input[2]"),
    "context": (ContextLengthError(5000, 4096), 400, "context_length_exceeded", "input"),
    "schema": (GrammarError("odd", pointer="#/x"), 400, "invalid_json_schema", "#/x"),
    "setting": (SamplingError("odd"), 400, "unsupported_value", None),
    "engine": (EngineError("gone", retryable=True), 503, "engine_unavailable", None),
    "model": (EngineError("broken"), 500, "server_error", None),
}


def application(**settings: Any) -> FastAPI:
    app = create_app(ScriptedEngine(), Settings(**settings))

    @app.post("/try")
    async def try_body(body: Body, caller: AuthenticatedCaller) -> dict[str, Any]:
        return {"words": len(body.words), "owner": caller.owner}

    @app.get("/fail/{name}")
    async def fail(name: str) -> None:
        if name == "bug":
            raise ZeroDivisionError
        raise FAILURES[name][0]

    return app


@pytest.fixture
def client() -> Iterator[TestClient]:
    with LocalClient(application(max_request_bytes=1000), raise_server_exceptions=False) as client:
        yield client


@pytest.mark.parametrize("name", FAILURES)
def test_errors_of_the_library_have_the_shape_of_the_api(client: TestClient, name: str) -> None:
    error, status, code, param = FAILURES[name]
    answer = client.get(f"/fail/{name}")
    assert answer.status_code == status
    assert answer.json()["error"].keys() == {"message", "type", "param", "code"}
    assert answer.json()["error"]["code"] == code
    assert answer.json()["error"]["param"] == param
    message = answer.json()["error"]["message"]
    if param and code != "invalid_json_schema":  # whose path is that within the schema
        assert message.startswith(param)
    assert message.removeprefix(f"{param}: ") in str(error)
    assert ("retry-after" in answer.headers) == (status == 503)


def test_a_bug_is_an_error_of_the_server_without_its_details(client: TestClient) -> None:
    answer = client.get("/fail/bug")
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "server_error"
    assert "ZeroDivision" not in answer.text
    assert answer.headers["connection"] == "close"  # which the server then does


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        (b"{", None, "invalid_json"),
        (b"[1]", None, "invalid_value"),
        (b"{}", "words", "missing_required_parameter"),
        (b'{"words": ["a", 1]}', "words[1]", "invalid_value"),
        (b"", None, "missing_required_parameter"),
    ],
)
def test_bad_bodies_name_the_field(
    client: TestClient, body: bytes, param: str | None, code: str
) -> None:
    answer = client.post("/try", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["param"], error["code"]) == (param, code)
    assert error["type"] == "invalid_request_error"
    assert not RAW.search(error["message"])


@pytest.mark.parametrize("path", ["responses", "chat/completions", "messages", "completions"])
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b'{"model":"\xff"}', "the body is not valid JSON: it is not UTF-8 (byte 10)"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": NaN}', "the body is not valid JSON: NaN is not JSON"),
        (b'{"a": [-1e400]}', "the body is not valid JSON: the number -1e400 is too large"),
        (b'{"a": [' + b"[]," * 100_000 + b"1e999]}", "the number 1e999 is too large"),
        (
            b'{\n"model": "demo",\n"input"}',
            "the body is not valid JSON (line 3, column 8): expected : after the field name",
        ),
    ],
)
def test_bytes_that_no_reader_takes_are_named(path: str, body: bytes, problem: str) -> None:
    with LocalClient(create_app(ScriptedEngine(), Settings())) as client:
        kind = {"content-type": "application/json"}
        answer = client.post(f"/v1/{path}", content=body, headers=kind)
    assert answer.status_code == 400
    assert problem in answer.json()["error"]["message"]


HALF = r"a\udfff"  # of a surrogate pair, as JSON writes it
FUNCTION = f'{{"name":"{HALF}","type":"function","parameters":{{}},"{HALF}":1}}'
USER = f'{{"role":"user","content":"x","{HALF}":1}}'


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", f'"input":[{USER}],"tools":[{FUNCTION}]'),
        ("/v1/chat/completions", f'"messages":[{USER}],"tools":[{FUNCTION}]'),
        ("/v1/messages", f'"max_tokens":9,"messages":[{USER}],"tools":[{FUNCTION}]'),
        ("/v1/completions", '"prompt":"x"'),
        ("/api/chat", f'"model":"script","messages":[{USER}]'),
    ],
)
@pytest.mark.parametrize("choice", ["auto", HALF])
def test_half_a_surrogate_pair_may_stand_in_any_name(path: str, body: str, choice: str) -> None:
    raw = f'{{{body},"{HALF}":1,"tool_choice":{{"type":"function","name":"{choice}"}}}}'
    engine = ScriptedEngine()
    engine.completions = ["<|channel|>final<|message|>Noon.<|return|>"]
    with LocalClient(create_app(engine, Settings())) as client:
        answer = client.post(path, content=raw, headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400), answer.text
    assert json.loads(answer.text.splitlines()[0])


NAMED = '{"type":"function","name":"%s","parameters":{"enum":["%s"]}}'


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ('"tools":[%s]' % (NAMED % (HALF, "x")), "tools[0].name"),
        ('"tools":[%s]' % (NAMED % ("f", HALF)), "tools/functions.f#"),
        (f'"metadata":{{"a":"{HALF}"}}', "metadata.a"),
    ],
)
def test_half_a_surrogate_pair_is_named_where_it_may_not_stand(fields: str, param: str) -> None:
    with LocalClient(create_app(ScriptedEngine(), Settings())) as client:
        kind = {"content-type": "application/json"}
        for path, body in (
            ("responses", '"input":"x"'),
            ("chat/completions", '"messages":[{"role":"user","content":"x"}]'),
        ):
            answer = client.post(f"/v1/{path}", content=f"{{{body},{fields}}}", headers=kind)
            error = answer.json()["error"]
            assert (answer.status_code, error["param"]) == (400, param)
            assert "lone surrogate" in error["message"]
            assert not RAW.search(error["message"])


CALLED = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>"
NOW = {"type": "function", "name": "now", "parameters": {"type": "object"}}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"input": "x", "tools": [NOW]}),
        ("/v1/chat/completions", {"messages": [USER_X := {"role": "user", "content": "x"}]}),
        ("/v1/messages", {"messages": [USER_X], "max_tokens": 99}),
        ("/api/chat", {"model": "script", "messages": [USER_X]}),
    ],
)
def test_a_model_may_write_what_is_no_json(path: str, body: dict[str, Any], stream: bool) -> None:
    for arguments in ('{"a":NaN}', '{"a":[1e400]}', r'{"\ud800":-Infinity}', "[" * 3000):
        engine = ScriptedEngine()
        engine.completions = [CALLED.replace("{}", arguments)]
        tool = {"function": NOW, "type": "function"} if "responses" not in path else NOW
        if path.endswith("/messages"):
            tool = {"name": "now", "input_schema": {"type": "object"}}
        with LocalClient(create_app(engine, Settings())) as client:
            answer = client.post(path, json={"tools": [tool], "stream": stream, **body})
        assert answer.status_code == 200
        lines = answer.text.splitlines() if stream else [answer.text]
        for line in lines:
            if line.startswith(("data: {", "{")):
                json.loads(line.removeprefix("data: "), parse_constant=pytest.fail)


ODD: list[Any] = [None, [], {}, "", -1, 1e99, 1.5, True, [None], {"x": None}, "x" * 5000, [{}]]


def models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        yield model
        yield from models(model)


@pytest.mark.parametrize("model", sorted({*models(RequestBody)}, key=str), ids=lambda m: m.__name__)
def test_no_error_of_a_field_has_words_of_the_libraries_below(model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        for value in ODD:
            try:
                model.model_validate({field.alias or name: value})
            except ValidationError as error:
                for one in error.errors(include_url=False):
                    _, problem = validation_problem([one])
                    assert not RAW.search(problem), one


def test_unknown_places_and_methods_are_json_too(client: TestClient) -> None:
    assert client.get("/nothing").json()["error"]["code"] == "not_found"
    answer = client.get("/try")
    assert answer.status_code == 405
    assert answer.json()["error"]["code"] == "method_not_allowed"


READ = ["/v1/models", "/v1/models/gpt-oss-20b", "/v1/chat/completions", "/v1/files", "/api/tags",
        "/health", "/ready", "/metrics"]  # fmt: skip


@pytest.mark.parametrize("path", READ)
def test_head_is_get_without_a_body(path: str) -> None:
    app = create_app(ScriptedEngine(), Settings(model_names=("gpt-oss-20b",)))
    with LocalClient(app) as client:
        got, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == got.headers["content-type"]
        if path != "/metrics":  # whose numbers change
            assert head.headers["content-length"] == got.headers["content-length"]
        counted = client.get("/metrics").text
        refused = client.put(path)
    route = path.replace("gpt-oss-20b", "{name:path}")
    assert f'method="HEAD",route="{route}",status="200"' in counted
    assert (refused.status_code, refused.headers["allow"][:9]) == (405, "GET, HEAD")


def test_head_does_not_run_what_post_does(client: TestClient) -> None:
    answer = client.head("/v1/messages")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_a_slash_at_the_end_leads_to_the_path_without_it(client: TestClient) -> None:
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        for method in operations:
            sent = client.request(method, f"{path}/?limit=2", follow_redirects=False)
            assert sent.status_code == 307, (method, path)
            assert client.base_url.join(sent.headers["location"]).params["limit"] == "2"
            assert client.base_url.join(sent.headers["location"]).path == path


def test_large_bodies_are_refused_announced_or_not(client: TestClient) -> None:
    large = b'{"words": ["' + b"a" * 2000 + b'"]}'

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(large), 100):
            yield large[start : start + 100]

    json_type = {"content-type": "application/json"}
    for content in (large, pieces()):
        answer = client.post("/try", content=content, headers=json_type)
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "request_too_large"
    fits = b'{"words": ["' + b"a" * 900 + b'"]}'
    assert client.post("/try", content=fits, headers=json_type).json()["words"] == 1


def test_keys_are_asked_for_and_make_the_owner() -> None:
    with LocalClient(application(api_keys=("one", "two"))) as client:

        def ask(**headers: str) -> Any:
            return client.post("/try", json={"words": []}, headers=headers)

        assert ask().status_code == 401
        assert ask().headers["www-authenticate"] == "Bearer"
        assert ask(authorization="Bearer three").json()["error"]["code"] == "invalid_api_key"
        assert ask(authorization="Basic one").json()["error"]["code"] == "missing_api_key"
        owners = [
            ask(authorization=f"Bearer {key}").json()["owner"] for key in ("one", "two", "one")
        ]
        assert owners[0] == owners[2] != owners[1]
        assert "one" not in owners[0]


def test_without_keys_everyone_may_ask(client: TestClient) -> None:
    assert client.post("/try", json={"words": []}).json() == {"words": 0, "owner": ""}


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("/v1/embeddings", "serve an embedding model beside it"),
        ("/v1/moderations", "gpt-oss-safeguard"),
        ("/v1/images/generations", "text only"),
        ("/v1/embeddingsx", "/openapi.json lists all endpoints"),
        ("/v1/respones", "there is no POST /v1/respones; did you mean /v1/responses?"),
    ],
)
def test_endpoints_that_this_server_does_not_have_say_what_helps(
    client: TestClient, path: str, remedy: str
) -> None:
    answer = client.post(path, json={})
    assert answer.status_code == 404
    assert remedy in answer.json()["error"]["message"]


class Ring:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def _server_thresholds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    earlier = gc.get_threshold()
    monkeypatch.setattr(server_app, "_GARBAGE", (10**9, 10, 10))
    gc.set_threshold(10**9, 10, 10)
    yield
    gc.set_threshold(*earlier)


@pytest.mark.usefixtures("_server_thresholds")
@pytest.mark.parametrize(("seconds", "times"), [(0.01, 1), (0.5, 10)])
def test_garbage_is_collected_less_often_where_it_takes_long(seconds: float, times: int) -> None:
    clock = itertools.count(0, seconds)
    keeper = MemoryKeeper(lambda: next(clock))
    keeper.keep()
    ring = weakref.ref(Ring())
    for _ in range(times):
        assert ring() is not None
        keeper.keep()
    assert ring() is None


def test_garbage_of_another_program_is_its_own() -> None:
    gc.disable()
    try:
        ring = weakref.ref(Ring())
        MemoryKeeper().keep()
        assert ring() is not None
    finally:
        gc.enable()


def test_the_end_waits_for_what_maintains_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()
    order: list[str] = []

    def slow_check(_: ApiKeys) -> None:
        begun.set()
        time.sleep(0.3)
        order.append("checked")

    def noted_close(database: Database) -> None:
        order.append("closed")
        close(database)

    close = Database.close
    monkeypatch.setattr(ApiKeys, "check_recent", slow_check)
    monkeypatch.setattr(Database, "close", noted_close)
    with LocalClient(application()):
        assert begun.wait(10)
    assert order[-2:] == ["checked", "closed"]
