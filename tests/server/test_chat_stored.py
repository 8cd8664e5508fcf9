"""Stored chat completions: kept on request, listed page by page, and gone for others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import NotFoundError, OpenAI

from gpt_oss_harmony.server import Settings, chat, create_app
from gpt_oss_harmony.server.chat import store_completion
from gpt_oss_harmony.server.services import Services
from gpt_oss_harmony.server.store import Store
from support.chat_server import CALL, FINAL, HI, NOW, THINK
from support.local_client import LocalClient
from support.scripted_engine import ScriptedEngine
from support.served import serving

KEYS = ("key-one", "key-two")


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture(scope="module")
def url(engine: ScriptedEngine) -> Iterator[str]:
    with serving(engine, Settings(api_keys=KEYS)) as url:
        yield url


@pytest.fixture
def client(url: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=url, api_key=KEYS[0], max_retries=0) as client:
        yield client
        for completion in list(client.chat.completions.list(limit=100)):
            client.chat.completions.delete(completion.id)


def test_a_completion_is_kept_read_changed_and_deleted(
    client: OpenAI, engine: ScriptedEngine, url: str
) -> None:
    engine.completions = [THINK + FINAL, FINAL]
    ask: Any = {"model": "script", "messages": HI}
    made = client.chat.completions.create(**ask, store=True, metadata={"topic": "demo"})
    client.chat.completions.create(**ask)
    completions = client.chat.completions
    assert [listed.id for listed in completions.list()] == [made.id]
    read = completions.retrieve(made.id).to_dict()
    assert read == {**made.to_dict(), "metadata": {"topic": "demo"}}
    changed = completions.update(made.id, metadata={"topic": "other"}).to_dict()
    assert changed == {**made.to_dict(), "metadata": {"topic": "other"}}
    (message,) = completions.messages.list(made.id).data
    assert (message.role, message.content) == ("user", "hi")
    with OpenAI(base_url=url, api_key=KEYS[1], max_retries=0) as other:
        assert list(other.chat.completions.list()) == []
        for attempt in (other.chat.completions.retrieve, other.chat.completions.delete):
            with pytest.raises(NotFoundError) as caught:
                attempt(made.id)
            assert caught.value.code == "completion_not_found"
    assert completions.delete(made.id).deleted
    with pytest.raises(NotFoundError):
        completions.retrieve(made.id)


def test_a_stream_is_kept_whole(client: OpenAI, engine: ScriptedEngine) -> None:
    engine.completions = [THINK + CALL, THINK + CALL]
    ask: Any = {"model": "script", "messages": HI, "tools": [NOW], "store": True}
    *_, last = client.chat.completions.create(**ask, stream=True)
    streamed = client.chat.completions.retrieve(last.id).to_dict()
    whole = client.chat.completions.create(**ask).to_dict()
    for completion in (streamed, whole):
        for name in ("id", "created", "metadata"):
            completion.pop(name, None)
        completion["choices"][0]["message"]["tool_calls"][0].pop("id")  # type: ignore[index]
    assert streamed == whole


def test_pages_and_selections(client: OpenAI, engine: ScriptedEngine) -> None:
    engine.completions = [FINAL] * 5
    ids = [
        client.chat.completions.create(
            model="script",
            messages=[{"role": "user", "content": "hi"}],
            store=True,
            metadata={"n": str(number % 2)},
        ).id
        for number in range(5)
    ]
    completions = client.chat.completions
    assert {listed.id for listed in completions.list(limit=2)} == set(ids)  # the SDK turns pages
    ascending = [listed.id for listed in completions.list()]
    assert [listed.id for listed in completions.list(order="desc", limit=3)] == ascending[::-1]
    odd = {listed.id for listed in completions.list(metadata={"n": "1"}, limit=1)}
    assert odd == {ids[1], ids[3]}
    assert list(completions.list(model="another")) == []


def test_completions_expire(tmp_path: Path) -> None:
    now = 1_000.0
    path = tmp_path / "responses.db"
    with serving(ScriptedEngine(FINAL), Settings(database=f"sqlite:///{path}")) as url:
        client = OpenAI(base_url=url, api_key="none")
        messages: Any = HI
        made = client.chat.completions.create(model="script", messages=messages, store=True)
    now = made.created + 31 * 24 * 3600.0
    with Store(f"sqlite:///{path}", clock=lambda: now) as store:
        assert store.completions.page("").items == ()
        assert store.completions.delete_expired() == 1


@pytest.mark.parametrize("stream", [False, True])
def test_the_engine_is_free_before_a_completion_is_stored(
    stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that takes long to answer keeps no one from the engine."""
    running: list[int] = []

    async def noted(services: Services, *stored: Any) -> None:
        running.append(services.admission.running)
        await store_completion(services, *stored)

    monkeypatch.setattr(chat, "store_completion", noted)
    body = {"messages": HI, "store": True, "stream": stream}
    app = create_app(ScriptedEngine(FINAL), Settings())
    with LocalClient(app) as local:
        assert local.post("/v1/chat/completions", json=body).status_code == 200
        assert len(local.get("/v1/chat/completions").json()["data"]) == 1
    assert running == [0]
