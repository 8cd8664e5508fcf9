"""Batches, by the SDKs of OpenAI and Anthropic: answered, cancelled, expired, after a restart."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from fastapi import FastAPI

from gpt_oss_harmony.apis.batches import Batch, BatchBodyError, read_batch_file
from gpt_oss_harmony.server import Settings
from gpt_oss_harmony.server import batches as batches_of_server
from gpt_oss_harmony.server.batches import BatchRunner
from gpt_oss_harmony.server.store import Batches, BatchResult, Store, StoreError, tables
from support.chat_server import FINAL
from support.scripted_engine import ScriptedEngine
from support.served import PATIENCE, serving

pytest_plugins = ("support.postgres_server", "support.databases")

HI = {"role": "user", "content": "hi"}
NO_END = "<|channel|>final<|message|>and so on..."
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [HI]},
    "/v1/responses": {"input": "hi"},
    "/v1/completions": {"prompt": "<|start|>assistant"},
}


@contextmanager
def clients(url: str, key: str = "none") -> Iterator[tuple[Any, Any]]:
    root = url.removesuffix("/v1")
    with (
        openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=PATIENCE) as ours,
        anthropic.Anthropic(base_url=root, api_key=key, max_retries=0, timeout=PATIENCE) as theirs,
    ):
        yield ours, theirs


def waited(read: Callable[[], Any], is_over: Callable[[Any], bool]) -> Any:
    for _ in range(10 * PATIENCE):
        found = read()
        if is_over(found):
            return found
        time.sleep(0.1)
    pytest.fail(f"it does not end: {found}")


def ended(client: Any, id: str) -> Any:
    if isinstance(client, openai.OpenAI):
        over = {"completed", "cancelled", "expired", "failed"}
        return waited(lambda: client.batches.retrieve(id), lambda batch: batch.status in over)
    batches = client.messages.batches
    return waited(lambda: batches.retrieve(id), lambda batch: batch.processing_status == "ended")


def uploaded(client: Any, lines: list[Any]) -> str:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    data = "\n".join(texts).encode()
    id: str = client.files.create(file=("in.jsonl", data), purpose="batch").id
    return id


def line(id: str, url: str = "/v1/chat/completions", **body: Any) -> dict[str, Any]:
    return {"custom_id": id, "method": "POST", "url": url, "body": {**BODIES[url], **body}}


def begun(client: Any, lines: list[Any], url: str = "/v1/chat/completions", **fields: Any) -> Any:
    return client.batches.create(
        input_file_id=uploaded(client, lines), endpoint=url, completion_window="24h", **fields
    )


def answers(client: Any, file_id: str) -> dict[str, Any]:
    text = client.files.content(file_id).text
    return {each["custom_id"]: each for each in map(json.loads, text.splitlines())}


def requests(*ids: str, **fields: Any) -> list[dict[str, Any]]:
    params = {"model": "script", "max_tokens": 99, "messages": [HI], **fields}
    return [{"custom_id": id, "params": params} for id in ids]


@pytest.mark.parametrize("url", BODIES)
def test_answers_are_those_of_the_endpoint(url: str) -> None:
    engine = ScriptedEngine(*[FINAL] * 3)
    with serving(engine) as root, clients(root) as (client, _):
        lines = [line("a", url), line("b", url, temperature=9), "", line("c", url)]
        expiry = {"anchor": "created_at", "seconds": 3600}
        batch = begun(client, lines, url, metadata={"topic": "demo"}, output_expires_after=expiry)
        assert (batch.endpoint, batch.metadata) == (url, {"topic": "demo"})
        over = ended(client, batch.id)
        direct = client.post(url.removeprefix("/v1"), cast_to=object, body=BODIES[url])
        good, bad = answers(client, over.output_file_id), answers(client, over.error_file_id)
        file = client.files.retrieve(over.output_file_id)
        assert (file.purpose, file.expires_at - file.created_at) == ("batch_output", 3600)
    counts = over.request_counts
    assert (over.status, counts.total, counts.completed, counts.failed) == ("completed", 3, 2, 1)
    assert list(good) == ["a", "c"]
    for each in good.values():
        assert each["response"]["status_code"] == 200
        assert without_ids(each["response"]["body"]) == without_ids(direct)
        assert each["response"]["request_id"].startswith("req_")
    assert bad["b"]["response"]["status_code"] == 400
    assert bad["b"]["response"]["body"]["error"]["param"] == "temperature"


def test_what_is_ignored_is_named_in_each_line() -> None:
    with serving(ScriptedEngine(*[FINAL] * 4)) as root, clients(root) as (client, theirs):
        lines = [line("a", temprature=0, messages=[{**HI, "zz": 1}]), line("b")]
        good = answers(client, ended(client, begun(client, lines).id).output_file_id)
        asked = [*requests("c", messages=[{**HI, "zz": 1}]), *requests("d")]
        batch = ended(theirs, theirs.messages.batches.create(requests=asked).id)
        found = {each.custom_id: each.result for each in theirs.messages.batches.results(batch.id)}
    assert good["a"]["response"]["headers"] == {"Harmony-Ignored": "temprature, messages[].zz"}
    assert "headers" not in good["b"]["response"]
    assert found["c"].headers == {"Harmony-Ignored": "messages[].zz"}
    assert not hasattr(found["d"], "headers")


def without_ids(answer: Any) -> Any:
    if isinstance(answer, list):
        return list(map(without_ids, answer))
    if not isinstance(answer, dict):
        return answer
    skipped = {"id", "created", "created_at", "completed_at", "metadata"}
    return {name: without_ids(each) for name, each in answer.items() if name not in skipped}


def test_batches_of_messages() -> None:
    with serving(ScriptedEngine(*[FINAL] * 9)) as root, clients(root) as (ours, client):
        batches = client.messages.batches
        asked = [*requests("a", "b"), *requests("wrong", temperature=9)]
        batch = batches.create(requests=asked)
        assert batch.processing_status in ("in_progress", "ended")
        over = ended(client, batch.id)
        found = {each.custom_id: each.result for each in batches.results(batch.id)}
        assert over.request_counts.to_dict() == {
            "processing": 0, "succeeded": 2, "errored": 1, "canceled": 0, "expired": 0,
        }  # fmt: skip
        assert list(found) == ["a", "b", "wrong"]
        assert found["a"].message.content[0].text == "Hello 🏰 there."
        assert found["wrong"].error.error.type == "invalid_request_error"
        later = batches.create(requests=requests("c"))
        assert [each.id for each in batches.list()] == [later.id, batch.id]
        assert [each.id for each in batches.list(limit=1)] == [later.id, batch.id]
        assert [each.id for each in batches.list(before_id=batch.id)] == [later.id]
        assert ours.batches.list().data == []
        with pytest.raises(openai.NotFoundError):
            ours.batches.retrieve(batch.id)
        ended(client, later.id)
        assert batches.delete(later.id).type == "message_batch_deleted"
        with pytest.raises(anthropic.NotFoundError):
            batches.retrieve(later.id)


WRONG_LINES: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "this is not JSON"),
    "no object": ([1], "expected an object"),
    "another endpoint": (line("a", "/v1/responses"), "method and url must be POST and /v1/chat"),
    "no id": ({**line("a"), "custom_id": ""}, "custom_id must be a text"),
    "no body": ({**line("a"), "body": 1}, "body must be the object of a request"),
    "a stream": (line("a", stream=True), "a batch has whole answers"),
    "the same id": (line("first"), "an earlier request has the custom_id 'first'"),
}


def test_a_file_with_wrong_lines_fails() -> None:
    with serving(ScriptedEngine()) as root, clients(root) as (client, theirs):
        lines = [line("first"), *(wrong for wrong, _ in WRONG_LINES.values())]
        batch = begun(client, lines)
        assert batch.status == "failed"
        errors = [(error.line, error.message) for error in batch.errors.data]
        assert [number for number, _ in errors] == [*range(2, len(lines) + 1)]
        for (_, problem), (_, message) in zip(WRONG_LINES.values(), errors, strict=True):
            assert message.startswith(problem)
        assert begun(client, [""]).errors.data[0].code == "empty_file"
        with pytest.raises(anthropic.BadRequestError, match="request 2: an earlier request has"):
            theirs.messages.batches.create(requests=requests("a", "a"))
        file = client.files.create(file=("in.jsonl", b"{}"), purpose="user_data").id
        with pytest.raises(openai.BadRequestError, match="upload it with the purpose batch"):
            client.batches.create(
                input_file_id=file, endpoint="/v1/responses", completion_window="24h"
            )


def test_cancelled_requests_have_no_answer_and_the_others_keep_theirs() -> None:
    settings = Settings(max_running=2)
    with (
        serving(ScriptedEngine(FINAL, NO_END, NO_END), settings) as root,
        clients(root) as (ours, theirs),
    ):
        batch = begun(ours, [line("a"), line("b"), line("c")])
        waited(
            lambda: ours.batches.retrieve(batch.id), lambda now: now.request_counts.completed == 1
        )
        with pytest.raises(anthropic.NotFoundError):
            theirs.messages.batches.cancel(batch.id)
        assert ours.batches.cancel(batch.id).status == "cancelling"
        over = ended(ours, batch.id)
        assert (over.status, over.request_counts.completed) == ("cancelled", 1)
        assert list(answers(ours, over.output_file_id)) == ["a"]
        errors = {id: each["error"] for id, each in answers(ours, over.error_file_id).items()}
        assert {id: error["code"] for id, error in errors.items()} == {
            "b": "batch_cancelled", "c": "batch_cancelled",
        }  # fmt: skip
        assert ours.batches.cancel(batch.id).status == "cancelled"
        metrics = httpx2.get(root.removesuffix("/v1") + "/metrics").text
        assert 'status="499"' in metrics  # the running request of the batch is no failure
        assert 'status="500"' not in metrics

        other = theirs.messages.batches.create(requests=requests("a"))
        with pytest.raises(anthropic.BadRequestError, match="has not ended"):
            theirs.messages.batches.delete(other.id)
        theirs.messages.batches.cancel(other.id)
        ended(theirs, other.id)
        (only,) = theirs.messages.batches.results(other.id)
        assert only.result.type == "canceled"


def test_a_batch_ends_once(store: Store) -> None:
    """Its server may see it once more before its end is stored; the answers are gone by then."""
    batch = Batch(
        id="batch_1", owner="", endpoint="/v1/responses", status="in_progress", created_at=1,
        deadline=100, expires_at=None, total=1, metadata={}, state={},
    )  # fmt: skip
    store.batches.add(batch, [("a", {"input": "hi"})])
    store.batches.answer("batch_1", "", BatchResult(0, 200, {}))
    store.batches.finish(replace(batch, status="cancelled", state={"counts": [1, 0]}), [])
    store.batches.finish(replace(batch, status="cancelled", state={"counts": [0, 0]}), [])
    store.batches.answer("batch_1", "", BatchResult(0, 200, {}))
    assert store.batches.open("batch_1", "") == []
    assert store.batches.counts("batch_1", "").total() == 0
    assert store.batches.get("batch_1", "").state == {"counts": [1, 0]}


def test_an_answer_at_the_end_of_a_batch_is_counted_and_sent(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was cancelled may still store the answer that it had."""
    batch = Batch(
        id="batch_1", owner="", endpoint="/v1/responses", status="cancelling", created_at=1,
        deadline=100, expires_at=None, total=2, metadata={}, state={"seconds": None},
    )  # fmt: skip
    answer = {"request_id": "req_1", "body": {}}
    store.batches.add(batch, [("a", {}), ("b", {})])
    store.batches.answer("batch_1", "", BatchResult(0, 200, answer))
    read = Batches.results

    def read_late(rows: Batches, *arguments: Any) -> Any:
        found = read(rows, *arguments)
        with suppress(StoreError):  # it comes once
            rows.answer("batch_1", "", BatchResult(1, 200, answer))
        return found

    monkeypatch.setattr(Batches, "results", read_late)
    ends = [batches_of_server._finish(store, batch, "cancelled", Settings()) for _ in range(2)]
    assert ends == [False, True]
    state = store.batches.get("batch_1", "").state
    (file,) = store.uploads.page("", after=None, limit=9, order="asc", purpose=None).items
    assert state["counts"] == [2, 0]
    assert len(store.uploads.data(file.id, "").splitlines()) == 2


def test_results_are_read_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """All requests of a batch are one column: they are read once, not for each page."""
    loaded: list[str] = []

    def loads(text: str) -> Any:
        loaded.append(text)
        return json.loads(text)

    asked = requests(*"abcdefghij")
    with serving(ScriptedEngine(*[FINAL] * 10)) as root, clients(root) as (_, client):
        batch = client.messages.batches.create(requests=asked)
        ended(client, batch.id)
        monkeypatch.setattr("gpt_oss_harmony.server.batches._PAGE", 3, raising=False)
        monkeypatch.setattr(tables, "json", SimpleNamespace(loads=loads))
        found = [each.custom_id for each in client.messages.batches.results(batch.id)]
    assert found == [each["custom_id"] for each in asked]
    assert sum('"a"' in text and '"j"' in text for text in loaded) == 1


def test_the_lines_of_a_file_have_limits() -> None:
    line = b'{"custom_id": "%d", "method": "POST", "url": "/v1/responses", "body": {}}\n'
    with pytest.raises(BatchBodyError, match="request 1: a request has at most 10 bytes, not 72"):
        read_batch_file(line % 1, "/v1/responses", 10)
    with pytest.raises(BatchBodyError) as raised:
        read_batch_file(b"[]\n" * 10_000, "/v1/responses")
    assert len(raised.value.errors) == 100
    with pytest.raises(BatchBodyError, match="a batch has at most 50,000 requests"):
        read_batch_file(b"".join(line % n for n in range(50_001)), "/v1/responses")


def test_only_its_owner_sees_a_batch_and_its_limits_hold() -> None:
    settings = Settings(api_keys=("one", "two"), max_stored_bytes=20_000)
    with (
        serving(ScriptedEngine(FINAL, FINAL), settings) as root,
        clients(root, "one") as (one, of_one),
        clients(root, "two") as (two, of_two),
    ):
        batch = begun(one, [line("a")])
        message_batch = of_one.messages.batches.create(requests=requests("a"))
        ended(one, batch.id)
        ended(of_one, message_batch.id)
        assert (two.batches.list().data, of_two.messages.batches.list().data) == ([], [])
        for ask in (two.batches.retrieve, two.batches.cancel):
            with pytest.raises(openai.NotFoundError):
                ask(batch.id)
        for ask in (of_two.messages.batches.delete, of_two.messages.batches.results):
            with pytest.raises(anthropic.NotFoundError):
                ask(message_batch.id)
        with pytest.raises(anthropic.RequestTooLargeError):
            of_one.messages.batches.create(requests=requests("a", system="a" * 20_000))


def test_a_repeated_request_gets_the_same_batch() -> None:
    headers = {"Idempotency-Key": "one"}
    with serving(ScriptedEngine(FINAL)) as root, clients(root) as (_, client):
        ids = {
            client.messages.batches.create(requests=requests("a"), extra_headers=headers).id
            for _ in range(2)
        }
        ended(client, *ids)


def test_a_busy_server_answers_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpt_oss_harmony.server.batches._LONGEST_WAIT", 0.05)
    engine = ScriptedEngine("<|channel|>!", FINAL)  # which breaks off: 503
    with serving(engine) as root, clients(root) as (_, client):
        batch = client.messages.batches.create(requests=requests("a"))
        ended(client, batch.id)
        (only,) = client.messages.batches.results(batch.id)
    assert only.result.type == "succeeded"
    assert len(engine.prompts) == 2


@pytest.mark.slow
def test_the_next_server_goes_on_and_asks_nothing_twice(database_url: str) -> None:
    settings = Settings(database=database_url, max_running=2, shutdown_seconds=0)
    engine = ScriptedEngine(FINAL, NO_END)
    with serving(engine, settings) as root, clients(root) as (client, theirs):
        batch = begun(client, [line("a"), line("b"), line("c")])
        waited(
            lambda: client.batches.retrieve(batch.id), lambda now: now.request_counts.completed == 1
        )
        waiting = theirs.messages.batches.create(requests=requests("a"))
    with serving(ScriptedEngine(*[FINAL] * 3), settings) as root, clients(root) as (client, theirs):
        over = ended(client, batch.id)
        assert (over.status, over.request_counts.completed) == ("completed", 3)
        assert list(answers(client, over.output_file_id)) == ["a", "b", "c"]
        assert ended(theirs, waiting.id).request_counts.succeeded == 1


@pytest.mark.slow
def test_requests_without_an_answer_expire(database_url: str) -> None:
    settings = Settings(database=database_url, max_running=2, shutdown_seconds=0)
    with (
        serving(ScriptedEngine(FINAL, NO_END), settings) as root,
        clients(root) as (_, client),
    ):
        batches = client.messages.batches
        batch = batches.create(requests=requests("a", "b"))
        waited(lambda: batches.retrieve(batch.id), lambda now: now.request_counts.succeeded == 1)
        with Store(database_url) as store, store._database.writing() as connection:
            connection.exec_driver_sql("UPDATE batches SET deadline = 1")
        assert ended(client, batch.id).request_counts.expired == 1
        assert [each.result.type for each in batches.results(batch.id)] == ["succeeded", "expired"]


@pytest.mark.parametrize("steps", range(5))
def test_a_runner_ends_whenever_it_is_cancelled(steps: int) -> None:
    """Also in the step of the event loop in which it hears of a new batch."""

    async def begin_and_cancel() -> None:
        new_batches = asyncio.Event()
        runner = BatchRunner(FastAPI(), SimpleNamespace(new_batches=new_batches))  # type: ignore[arg-type]
        running = asyncio.ensure_future(runner.run())
        for _ in range(3):
            await asyncio.sleep(0)
        new_batches.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        _, alive = await asyncio.wait({running}, timeout=1)
        assert not alive

    asyncio.run(begin_and_cancel())
