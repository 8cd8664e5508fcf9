"""The Responses API: what is kept of responses, and how others go on from them."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from gpt_oss_harmony.engines import FinishReason, SampledToken, Sampling
from gpt_oss_harmony.server.responses.history import CURRENT_DATE
from gpt_oss_harmony.tokens.special_tokens import END, RETURN
from support.responses_server import (
    CALL,
    NOW,
    PREAMBLE,
    RUN,
    RUNNING,
    TEXT,
    THOUGHT,
    create,
    replay,
    serving,
    stream,
    types,
)
from support.scripted_engine import ENCODING, ScriptedEngine

pytest_plugins = ("support.postgres_server", "support.databases")


def test_a_response_is_retrieved_as_it_ended(database_url: str) -> None:
    with serving(THOUGHT + TEXT, PREAMBLE + CALL, database=database_url) as client:
        response = create(client, input="hi")
        events = stream(client, input="hi", tools=[NOW], previous_response_id=response["id"])
        for one in (response, events[-1]["response"]):
            assert client.get(f"/v1/responses/{one['id']}").json() == one


def test_events_are_read_again_from_any_number(database_url: str) -> None:
    with serving(THOUGHT + TEXT, TEXT, database=database_url) as client:
        events = stream(client, input="hi")
        id = events[0]["response"]["id"]
        assert replay(client, id) == events
        for after in range(len(events) + 1):
            assert replay(client, id, after) == events[after + 1 :]
        whole = create(client, input="hi")
        assert types(replay(client, whole["id"]))[-1] == "completed"


def test_responses_outlive_the_server(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/kept.db"
    key_file = str(tmp_path / "key")
    with serving(THOUGHT + CALL, database=database, key_file=key_file) as client:
        events = stream(client, input="hi", tools=[NOW], include=["reasoning.encrypted_content"])
    response = events[-1]["response"]
    thought, call = response["output"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "noon"}
    engine = ScriptedEngine(TEXT, TEXT)
    with serving(engine=engine, database=database, key_file=key_file) as client:
        assert client.get(f"/v1/responses/{response['id']}").json() == response
        assert replay(client, response["id"]) == events
        create(client, input=[result], previous_response_id=response["id"], tools=[NOW])
        secret = {**thought, "id": "rs_0", "content": []}
        create(client, input=[{"role": "user", "content": "hi"}, secret, call, result], tools=[NOW])
    assert engine.prompts[0] == engine.prompts[1]
    assert "Hm, hm." in engine.prompts[0]


def test_conversations_go_on_after_the_sealing_key_was_changed(tmp_path: Path) -> None:
    """A new line before the old one; where the old one is gone, the reasoning is to be left out."""
    key_file = tmp_path / "key"
    ask = {"tools": [NOW], "include": ["reasoning.encrypted_content"], "store": False}
    with serving(THOUGHT + CALL, key_file=str(key_file)) as client:
        thought, call = create(client, input="hi", **ask)["output"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "noon"}
    back = [{"role": "user", "content": "hi"}, {**thought, "content": []}, call, result]
    new = base64.b64encode(bytes(range(32))).decode()
    for lines, is_read in ((f"{new}\n{key_file.read_text()}", True), (new, False)):
        key_file.write_text(lines)
        engine = ScriptedEngine(THOUGHT + CALL)
        with serving(engine=engine, key_file=str(key_file)) as client:
            if not is_read:
                refused = client.post("/v1/responses", json={"input": back, **ask})
                assert refused.json()["error"]["param"] == "input[1].encrypted_content"
                back.pop(1)
            create(client, input=back, **ask)
        assert ("Hm, hm." in engine.prompts[0]) is is_read
        assert "noon" in engine.prompts[0]


# Turns of a chain: what is asked, and what is sampled. No reasoning is dropped in them.
CHAINS: dict[str, list[tuple[str, str]]] = {
    "texts": [("hi", TEXT), ("and?", TEXT), ("and?", TEXT)],
    "tools": [("hi", THOUGHT + CALL), ("noon", THOUGHT + PREAMBLE + CALL), ("one", TEXT)],
    "custom tools": [("hi", THOUGHT + RUNNING), ("3", CALL), ("noon", THOUGHT + TEXT)],
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("way", ["previous", "conversation", "replayed"])
def test_a_prompt_repeats_what_was_sampled(name: str, way: str) -> None:
    chain = CHAINS[name]
    engine = ScriptedEngine(*(completion for _, completion in chain))
    with serving(engine=engine) as client:
        turns = _Chain(client, way)
        for text, _ in chain:
            turns.ask(text)
    for at, (_, completion) in enumerate(chain[:-1]):
        said = engine.prompts[at] + completion.replace("<|return|>", "<|end|>")
        assert engine.prompts[at + 1].startswith(said)
    assert len(engine.prompts) == len(chain)


class _Chain:
    """Asks turn after turn, in one of the ways to go on."""

    def __init__(self, client: TestClient, way: str) -> None:
        self.client = client
        self.fields: dict[str, Any] = {"tools": [NOW, RUN]}
        self.items: list[dict[str, Any]] = []
        self.way = way
        if way == "conversation":
            self.fields["conversation"] = client.post("/v1/conversations", json={}).json()["id"]

    def ask(self, text: str) -> None:
        asked = [self._answer_to(self.items[-1:], text)]
        given = [*self.items, *asked] if self.way == "replayed" else asked
        response = create(self.client, input=given, **self.fields)
        self.items += [*asked, *response["output"]]
        if self.way == "previous":
            self.fields["previous_response_id"] = response["id"]

    @staticmethod
    def _answer_to(last: list[dict[str, Any]], text: str) -> dict[str, Any]:
        for item in last:
            if item["type"].endswith("_call"):
                kind = f"{item['type']}_output"
                return {"type": kind, "call_id": item["call_id"], "output": text}
        return {"type": "message", "role": "user", "content": text}


class OddEngine(ScriptedEngine):
    """Says hello letter by letter, and notes prompts as tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.token_prompts: list[list[int]] = []

    async def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        self.token_prompts.append(prompt)
        for token in HELLO[:-1]:
            yield SampledToken(token)
        yield SampledToken(HELLO[-1], finish_reason=FinishReason.STOP)


HELLO = [
    *ENCODING.encode("<|channel|>final<|message|>", allowed_special="all"),
    *(ENCODING.encode(letter)[0] for letter in "Hello"),
    RETURN,
]


def test_tokens_are_repeated_however_they_were_cut() -> None:
    engine = OddEngine()
    with serving(engine=engine) as client:
        first = create(client, input="hi")
        create(client, input="and?", previous_response_id=first["id"])
    assert first["output"][0]["content"][0]["text"] == "Hello"
    said = [*engine.token_prompts[0], *HELLO[:-1], END]
    assert engine.token_prompts[1][: len(said)] == said


def test_reasoning_before_an_answer_is_left_out() -> None:
    engine = ScriptedEngine(THOUGHT + TEXT, TEXT)
    with serving(engine=engine) as client:
        first = create(client, input="hi", instructions="Be brief.")
        create(client, input="and?", previous_response_id=first["id"])
    assert "Hm, hm." not in engine.prompts[1]
    assert "Hello you" in engine.prompts[1]
    assert "Be brief." in engine.prompts[0]
    assert "Be brief." not in engine.prompts[1]


def test_a_chain_keeps_its_date(tmp_path: Path) -> None:
    engine = ScriptedEngine(TEXT, TEXT, TEXT)
    database = f"sqlite:///{tmp_path}/kept.db"
    with serving(engine=engine, database=database, current_date="2025-06-28") as client:
        first = create(client, input="hi")
    with serving(engine=engine, database=database, current_date="2025-06-29") as client:
        second = create(client, input="and?", previous_response_id=first["id"])
        create(client, input="and?", previous_response_id=second["id"])
        assert CURRENT_DATE not in client.get(f"/v1/responses/{first['id']}").json()
    assert [prompt.count("2025-06-28") for prompt in engine.prompts] == [1, 1, 1]


def test_input_items_are_listed_in_pages(database_url: str) -> None:
    given = [{"role": "user", "content": f"{number}"} for number in range(5)]
    with serving(TEXT, TEXT, database=database_url) as client:
        first = create(client, input=given)
        second = create(client, input="and?", previous_response_id=first["id"])
        path = f"/v1/responses/{first['id']}/input_items"
        newest = client.get(path, params={"limit": 2}).json()
        older = client.get(path, params={"limit": 9, "after": newest["last_id"]}).json()
        oldest = client.get(path, params={"limit": 1, "order": "asc"}).json()
        own = client.get(f"/v1/responses/{second['id']}/input_items").json()
        assert client.get(path, params={"limit": 0}).status_code == 400
        assert client.get(path, params={"after": "msg_0"}).status_code == 404
    texts = [item["content"][0]["text"] for item in [*newest["data"], *older["data"]]]
    assert texts == ["4", "3", "2", "1", "0"]
    assert (newest["has_more"], older["has_more"]) == (True, False)
    assert oldest["data"] == older["data"][-1:]
    assert [item["content"][0]["text"] for item in own["data"]] == ["and?"]


def test_what_is_deleted_is_gone(database_url: str) -> None:
    engine = ScriptedEngine(TEXT, TEXT, TEXT)
    with serving(engine=engine, database=database_url) as client:
        first = create(client, input="hi")
        second = create(client, input="and?", previous_response_id=first["id"])
        answer = client.delete(f"/v1/responses/{first['id']}")
        assert answer.json() == {"id": first["id"], "object": "response", "deleted": True}
        for path in ("", "?stream=true", "/input_items"):
            assert client.get(f"/v1/responses/{first['id']}{path}").status_code == 404
        assert client.delete(f"/v1/responses/{first['id']}").status_code == 404
        refused = client.post(
            "/v1/responses", json={"input": "hi", "previous_response_id": first["id"]}
        )
        assert refused.json()["error"]["code"] == "previous_response_not_found"
        create(client, input="more", previous_response_id=second["id"])
    assert engine.prompts[2].count("Hello you") == 2


@contextmanager
def with_key(client: TestClient, key: str) -> Iterator[None]:
    before = client.headers.get("authorization")
    client.headers["authorization"] = f"Bearer {key}"
    yield
    client.headers["authorization"] = before or ""


def test_a_response_is_visible_to_its_own_key_alone() -> None:
    with serving(TEXT, TEXT, api_keys=("first", "second")) as client:
        with with_key(client, "first"):
            response = create(client, input="hi")
            conversation = client.post("/v1/conversations", json={}).json()
        id = response["id"]
        with with_key(client, "second"):
            for path in ("", "?stream=true", "/input_items"):
                answer = client.get(f"/v1/responses/{id}{path}")
                assert answer.status_code == 404
                assert answer.json()["error"]["code"] == "response_not_found"
            assert client.delete(f"/v1/responses/{id}").status_code == 404
            assert client.post(f"/v1/responses/{id}/cancel").status_code == 404
            assert client.get(f"/v1/conversations/{conversation['id']}").status_code == 404
            for fields in ({"previous_response_id": id}, {"conversation": conversation["id"]}):
                answer = client.post("/v1/responses", json={"input": "hi", **fields})
                assert answer.json()["error"]["code"].endswith("_not_found")
        assert client.get(f"/v1/responses/{id}").status_code == 401
        with with_key(client, "first"):
            assert client.get(f"/v1/responses/{id}").json() == response


def test_items_are_named_by_their_ids() -> None:
    engine = ScriptedEngine(TEXT, TEXT)
    with serving(engine=engine) as client:
        first = create(client, input="hi")
        reference = {"type": "item_reference", "id": first["output"][0]["id"]}
        question = {"role": "user", "content": "and?"}
        second = create(client, input=[reference, question])
        listed = client.get(f"/v1/responses/{second['id']}/input_items?order=asc").json()["data"]
        unknown = {"type": "item_reference", "id": "msg_0"}
        refused = client.post("/v1/responses", json={"input": [unknown]})
    assert "<|start|>assistant<|channel|>final<|message|>Hello you<|end|>" in engine.prompts[1]
    assert listed[0] == first["output"][0]
    assert refused.json()["error"]["param"] == "input[0].id"


def test_an_item_that_was_changed_says_what_it_says_now() -> None:
    engine = ScriptedEngine(TEXT, TEXT)
    with serving(engine=engine) as client:
        first = create(client, input="hi")
        (item,) = first["output"]
        changed = {**item, "content": [{"type": "output_text", "text": "Goodbye"}]}
        create(client, input=[changed, {"role": "user", "content": "and?"}])
    assert "Goodbye" in engine.prompts[1]
    assert "Hello" not in engine.prompts[1]
