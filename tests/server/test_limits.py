"""The limits of keys and of the context, over all three APIs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from gpt_oss_harmony.server import Settings, create_app
from gpt_oss_harmony.server.auth.api_keys import ApiKeys
from gpt_oss_harmony.server.http.errors import error_response, too_many
from gpt_oss_harmony.server.store import KeyLimits, Store
from support.local_client import LocalClient
from support.scripted_engine import ScriptedEngine

ANSWER = "<|channel|>final<|message|>Yes.<|return|>"
REQUESTS: dict[str, dict[str, Any]] = {
    "/v1/responses": {"input": "Well?"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Well?"}]},
    "/v1/completions": {"prompt": "<|start|>user<|message|>Well?<|end|><|start|>assistant"},
}


class Server:
    def __init__(self, client: TestClient, database: str) -> None:
        self.client = client
        self._database = database

    def key(self, **limits: int) -> str:
        with Store(self._database) as store:
            return ApiKeys(store.keys).create("a test", KeyLimits(**limits)).key

    def ask(self, path: str, key: str, **fields: Any) -> Any:
        headers = {"authorization": f"Bearer {key}"}
        return self.client.post(path, json={**REQUESTS[path], **fields}, headers=headers)


@pytest.fixture
def server(tmp_path: Any) -> Iterator[Server]:
    database = f"sqlite:///{tmp_path / 'limits.db'}"
    engine = ScriptedEngine(*[ANSWER] * 10)
    app = create_app(engine, Settings(database=database, context_length=200))
    with LocalClient(app) as client:
        yield Server(client, database)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", REQUESTS)
def test_a_key_that_has_used_its_minute_is_refused(server: Server, path: str, stream: bool) -> None:
    key, other = server.key(requests_per_minute=1), server.key()
    assert server.ask(path, key, stream=stream).status_code == 200
    refused = server.ask(path, key, stream=stream)
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert server.ask(path, other, stream=stream).status_code == 200


@pytest.mark.parametrize("path", REQUESTS)
def test_tokens_of_prompt_and_answer_count(server: Server, path: str) -> None:
    key = server.key(tokens_per_minute=10)
    assert server.ask(path, key).status_code == 200
    assert server.ask(path, key).status_code == 429


@pytest.mark.parametrize("path", REQUESTS)
def test_a_request_that_has_ended_is_no_longer_concurrent(server: Server, path: str) -> None:
    key = server.key(concurrent_requests=1)
    for _ in range(3):
        assert server.ask(path, key).status_code == 200


@pytest.mark.parametrize("path", REQUESTS)
def test_a_prompt_beyond_the_limit_is_refused_with_the_numbers(server: Server, path: str) -> None:
    (field,) = REQUESTS[path]
    long = "word " * 300
    value: Any = [{"role": "user", "content": long}] if field == "messages" else long
    answer = server.ask(path, server.key(), **{field: value})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert "200" in error["message"]
    assert error["param"] == field


@pytest.mark.parametrize("path", REQUESTS)
def test_an_answer_has_the_room_that_the_limit_leaves(server: Server, path: str) -> None:
    engine: ScriptedEngine = server.client.app.state.services.engine  # type: ignore[attr-defined]
    assert server.ask(path, server.key()).status_code == 200
    (sampling,) = engine.samplings
    used = len(engine.prompts[0])  # in characters, of which a token has several
    assert sampling.max_tokens is not None
    assert 200 - used < sampling.max_tokens < 200


@pytest.mark.parametrize(("wait", "told"), [(0, "1"), (0.2, "1"), (29.4, "30"), (30, "30")])
def test_who_waits_as_told_has_waited_enough(wait: float, told: str) -> None:
    refused = error_response(too_many("busy", wait), {"type": "http", "path": "/v1/responses"})
    assert refused.headers["retry-after"] == told
