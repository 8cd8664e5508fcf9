"""Servers as processes: two on one database, and one that is started again in the midst of work."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony.server.encryption import rotate_keys
from support.counting_engine import COUNT
from support.postgres_server import new_database
from support.served import PATIENCE
from support.server_process import Server, deltas, running_server

pytestmark = pytest.mark.slow

pytest_plugins = ("support.postgres_server", "support.databases")


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "sealing.key"


@pytest.fixture(scope="module")
def pair(module_postgres: str, key_file: Path) -> Iterator[tuple[Server, Server]]:
    """Two servers of one database, for all tests that leave them alive."""
    with (
        running_server(module_postgres, key_file) as one,
        running_server(module_postgres, key_file) as other,
    ):
        yield one, other


def text_of(response: dict[str, Any]) -> str:
    assert response["status"] == "completed", response
    text: str = response["output"][-1]["content"][0]["text"]
    return text


ENDS = {"killed": signal.SIGKILL, "told to end": signal.SIGTERM}


@pytest.mark.skipif(os.name != "posix", reason="the signals are those of POSIX")
@pytest.mark.parametrize("end", ENDS)
def test_a_restart_fails_what_ran_in_the_background_and_keeps_the_rest(
    tmp_path: Path, key_file: Path, end: str
) -> None:
    database = f"sqlite:///{tmp_path / 'harmony.db'}"
    with running_server(database, key_file) as first:
        kept = first.respond(input="hi")
        running = first.begin_in_background()
        first.end(ENDS[end])
    with running_server(database, key_file) as second:
        check_the_rest(second, kept, running, end)


def check_the_rest(living: Server, kept: dict[str, Any], running: str, end: str) -> None:
    """Check what a server has of one that ended: a response that it kept, and one that ran."""
    lost = living.response(running)
    assert lost["status"] == "failed"
    expected = "server_error" if end == "killed" else "server_shutting_down"
    assert lost["error"]["code"] == expected
    events = living.client.get(f"/responses/{running}?stream=true").text
    assert events.rstrip().endswith("data: [DONE]")
    assert "response.failed" in events
    assert living.response(kept["id"]) == kept
    assert text_of(living.respond(input="go on", previous_response_id=kept["id"])) == "Hello you"
    assert living.client.delete(f"/responses/{running}").status_code == 200


def test_two_servers_have_the_same_responses_and_conversations(pair: tuple[Server, Server]) -> None:
    one, other = pair
    response = one.respond(input="hi")
    assert other.response(response["id"]) == response
    following = other.respond(input="go on", previous_response_id=response["id"])
    assert one.response(following["id"])["previous_response_id"] == response["id"]

    conversation = one.client.post("/conversations", json={}).json()["id"]
    for asked, at in (("hi", one), ("and?", other)):
        assert text_of(at.respond(input=asked, conversation=conversation)) == "Hello you"
    items = one.client.get(f"/conversations/{conversation}/items?order=asc").json()["data"]
    texts = [item["content"][0]["text"] for item in items if item["type"] == "message"]
    assert texts == ["hi", "Hello you", "and?", "Hello you"]


def test_any_server_streams_a_response_and_cancels_it(pair: tuple[Server, Server]) -> None:
    one, other = pair
    id = one.begin_in_background()
    assert other.response(id)["status"] == "in_progress"
    with closing(other.events(id)) as first:
        begun = deltas(first, 30)
    assert [event["sequence_number"] for event in begun] == [*range(len(begun))]
    assert begun[0]["type"] == "response.created"

    last = begun[-1]["sequence_number"]
    with (
        closing(other.events(id, after=last)) as there,
        closing(one.events(id, after=last)) as here,
    ):
        resumed = deltas(there, 30)
        assert resumed == deltas(here, 30)
        assert resumed[0]["sequence_number"] == last + 1
        text = "".join(event.get("delta", "") for event in (*begun, *resumed))
        assert text.startswith("0 1 2 3 4 ")

        cancelled = other.client.post(f"/responses/{id}/cancel").json()
        assert one.running == 0
        rest = list(there)
        assert rest == list(here)
    assert rest[-1]["type"] == "response.incomplete"
    assert rest[-1]["response"] == cancelled
    assert cancelled["status"] == "cancelled"
    assert cancelled == one.response(id) == other.response(id)
    assert list(other.events(id)) == list(one.events(id))


def test_a_response_that_runs_elsewhere_is_deleted_there(pair: tuple[Server, Server]) -> None:
    one, other = pair
    id = one.begin_in_background()
    with closing(one.events(id)) as events:
        next(events)
        assert other.client.delete(f"/responses/{id}").status_code == 200
        assert one.running == 0
        *_, last = events
    assert last["response"]["status"] == "cancelled"
    for server in pair:
        assert server.client.get(f"/responses/{id}").status_code == 404
        assert server.client.get(f"/responses/{id}?stream=true").status_code == 404


@pytest.mark.skipif(os.name != "posix", reason="the signals are those of POSIX")
@pytest.mark.parametrize("end", ENDS)
def test_the_responses_of_a_server_that_ended_fail_at_the_others(
    pair: tuple[Server, Server], module_postgres: str, key_file: Path, end: str
) -> None:
    living, other = pair
    going_on = living.begin_in_background()
    with running_server(module_postgres, key_file) as dying:
        kept = dying.respond(input="hi")
        lost = dying.begin_in_background()
        with closing(living.events(lost)) as events:
            begun = deltas(events, 3)
            dying.end(ENDS[end])
            *_, last = (*begun, *events)
    assert last["type"] == "response.failed"
    assert living.response(lost) == other.response(lost) == last["response"]
    check_the_rest(living, kept, lost, end)
    assert other.response(going_on)["status"] == "in_progress"
    assert other.client.post(f"/responses/{going_on}/cancel").json()["status"] == "cancelled"


@pytest.mark.skipif(os.name != "posix", reason="the signals are those of POSIX")
def test_a_response_of_a_server_that_stands_still_is_cancelled_in_the_database(
    pair: tuple[Server, Server], module_postgres: str, key_file: Path
) -> None:
    """Its lease holds; when it goes on, it ends the response as the others have it."""
    with running_server(module_postgres, key_file) as stopped:
        id = stopped.begin_in_background()
        stopped.process.send_signal(signal.SIGSTOP)
        try:
            assert pair[0].client.post(f"/responses/{id}/cancel").json()["status"] == "cancelled"
        finally:
            stopped.process.send_signal(signal.SIGCONT)
        cancelled = stopped.client.post(f"/responses/{id}/cancel").json()
        assert cancelled["status"] == "cancelled"
        assert stopped.running == 0


def test_what_one_server_seals_another_opens_before_and_after_a_rotation(
    pair: tuple[Server, Server], key_file: Path
) -> None:
    one, other = pair
    sealing = {"input": "hi", "store": False, "include": ["reasoning.encrypted_content"]}
    before = one.respond(**sealing)["output"][0]
    assert rotate_keys(key_file) == 2
    after = one.respond(**sealing)["output"][0]
    for item in (before, after):
        for reader in (one, other):
            # The reasoning before a call is in the prompt; its text comes from the seal alone.
            call = {
                "type": "function_call",
                "call_id": "call_1",
                "name": "f",
                "arguments": "{}",
            }
            sealed = {**item, "content": [], "summary": []}
            body = {"input": [{"role": "user", "content": "hi"}, sealed, call]}
            rendered = reader.client.post("/tokens/render", json=body)
            assert "Hm, hm." in rendered.json()["text"], rendered.text
    assert before["encrypted_content"][:9] != after["encrypted_content"][:9]


THREAD: dict[str, Any] = {"model": "script", "max_tokens": 99}


def test_a_thread_goes_on_at_the_other_server(pair: tuple[Server, Server]) -> None:
    one, other = pair

    def ask(server: Server, text: str, **thread: str) -> Any:
        said = [{"role": "user", "content": text}]
        return server.client.post("/messages", json={**THREAD, "messages": said, "thread": thread})

    first = ask(one, "hi", type="create").json()
    went_on = {"type": "continue", "previous_message_id": first["id"]}
    second = ask(other, "and?", **went_on).json()
    # The prompt has what was said at the other server.
    short = {**THREAD, "messages": [{"role": "user", "content": "and?"}]}
    alone = other.client.post("/messages/count_tokens", json=short).json()["input_tokens"]
    usage = second["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] > alone + 5
    for server in pair:  # it is continued once
        assert ask(server, "again", **went_on).status_code == 404
    after = {"type": "continue", "previous_message_id": second["id"]}
    assert ask(one, "so?", **after).status_code == 200


def test_threads_of_two_servers_have_owners_and_expire(
    postgres_server: str, key_file: Path
) -> None:
    said = {**THREAD, "messages": [{"role": "user", "content": "hi"}]}

    def ask(server: Server, key: str, **thread: str) -> Any:
        headers = {"x-api-key": key}
        return server.client.post("/messages", json={**said, "thread": thread}, headers=headers)

    keys: dict[str, Any] = {"api_keys": ["one", "two"]}
    with (
        new_database(postgres_server) as url,
        running_server(url, key_file, **keys) as here,
        running_server(url, key_file, **keys, keep_days=2 / 86_400) as short,
    ):
        kept = ask(here, "one", type="create").json()["id"]
        after = {"type": "continue", "previous_message_id": kept}
        assert ask(short, "two", **after).status_code == 404
        brief = ask(short, "one", **after).json()["id"]  # kept for two seconds from now on
        time.sleep(3)
        last = {"type": "continue", "previous_message_id": brief}
        assert ask(here, "one", **last).status_code == 404


def test_a_batch_is_read_and_cancelled_at_any_server_and_outlives_its_own(
    pair: tuple[Server, Server], module_postgres: str, key_file: Path
) -> None:
    def begun(server: Server, **texts: str) -> str:
        requests = [
            {"custom_id": id, "params": {**THREAD, "messages": [{"role": "user", "content": text}]}}
            for id, text in texts.items()
        ]
        answer = server.client.post("/messages/batches", json={"requests": requests})
        assert answer.status_code == 200, answer.text
        id: str = answer.json()["id"]
        return id

    def until(server: Server, id: str, **counts: int) -> dict[str, Any]:
        for _ in range(10 * PATIENCE):
            batch: dict[str, Any] = server.client.get(f"/messages/batches/{id}").json()
            if counts.items() <= batch["request_counts"].items():
                return batch
            time.sleep(0.1)
        pytest.fail(f"it has not come so far: {batch}")

    one, other = pair
    id = begun(one, a="hi", b=COUNT)
    assert until(other, id, succeeded=1)["processing_status"] == "in_progress"
    assert other.client.post(f"/messages/batches/{id}/cancel").status_code == 200
    assert until(other, id, canceled=1)["processing_status"] == "ended"
    assert (one.running, other.running) == (0, 0)

    # The others stand still until it has the batch; then it dies, and one of them goes on.
    with running_server(module_postgres, key_file) as dying:
        assert dying.running == 0
        for server in pair:
            server.process.send_signal(signal.SIGSTOP)
        try:
            id = begun(dying, a="hi", b=COUNT, c="hi")
            until(dying, id, succeeded=2)
            assert dying.running == 1
        finally:
            for server in pair:
                server.process.send_signal(signal.SIGCONT)
        dying.end(signal.SIGKILL)
        for _ in range(10 * PATIENCE):
            if one.running + other.running == 1:
                break
            time.sleep(0.1)
        assert one.running + other.running == 1
        assert one.client.post(f"/messages/batches/{id}/cancel").status_code == 200
        until(one, id, succeeded=2, canceled=1)
