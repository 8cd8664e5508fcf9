"""Servers as processes: two on one database, and one that is started again in the midst of work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from openai_harmony.server.responses.encryption import rotate_keys
from support.responses_server import TEXT, THOUGHT
from support.served import PATIENCE

pytest_plugins = ("support.postgres_server", "support.databases")

ENDLESS = "<|channel|>final<|message|>One, two, ..."

SERVER = """
import asyncio, json, socket, sys
from openai_harmony.server import Settings, create_app, run_server
from support.scripted_engine import ScriptedEngine

options = json.loads(sys.argv[1])
settings = Settings(database=options["database"], key_file=options["key_file"], shutdown_seconds=0)
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    app = create_app(ScriptedEngine(*options["completions"]), settings)
    asyncio.run(run_server(app, settings, listener))
"""


class Server:
    """A process that serves a script."""

    def __init__(self, database: str, key_file: Path, *completions: str) -> None:
        options = {"database": database, "key_file": str(key_file), "completions": completions}
        paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, json.dumps(options)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        assert self.process.stdout is not None
        port = int(self.process.stdout.readline())
        # The socket listens already: the first request waits until the server is ready.
        self.client = httpx2.Client(base_url=f"http://127.0.0.1:{port}/v1", timeout=PATIENCE)

    def respond(self, **body: Any) -> dict[str, Any]:
        answer = self.client.post("/responses", json=body)
        assert answer.status_code == 200, answer.text
        response: dict[str, Any] = answer.json()
        return response

    def response(self, id: str) -> dict[str, Any]:
        response: dict[str, Any] = self.client.get(f"/responses/{id}").json()
        return response

    def begin_in_background(self) -> str:
        """Begin a response that never ends by itself; return its id once it is under way."""
        id: str = self.respond(input="Count.", background=True)["id"]
        deadline = time.monotonic() + PATIENCE
        while self.response(id)["status"] != "in_progress":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return id

    def end(self, number: int) -> None:
        self.process.send_signal(number)
        self.process.wait(PATIENCE)


@contextmanager
def server(database: str, key_file: Path, *completions: str) -> Iterator[Server]:
    with ExitStack() as opened:
        started = Server(database, key_file, *completions)
        opened.callback(started.client.close)
        opened.enter_context(started.process)
        opened.callback(started.process.kill)
        yield started


def text_of(response: dict[str, Any]) -> str:
    assert response["status"] == "completed", response
    text: str = response["output"][-1]["content"][0]["text"]
    return text


ENDS = {"killed": signal.SIGKILL, "told to end": signal.SIGTERM}


@pytest.mark.skipif(os.name != "posix", reason="the signals are those of POSIX")
@pytest.mark.parametrize("end", ENDS)
def test_a_restart_fails_what_ran_in_the_background_and_keeps_the_rest(
    database_url: str, tmp_path: Path, end: str
) -> None:
    key_file = tmp_path / "sealing.key"
    with server(database_url, key_file, TEXT, ENDLESS) as first:
        kept = first.respond(input="hi")
        running = first.begin_in_background()
        first.end(ENDS[end])
    with server(database_url, key_file, TEXT) as second:
        lost = second.response(running)
        assert lost["status"] == "failed"
        expected = "server_error" if end == "killed" else "server_shutting_down"
        assert lost["error"]["code"] == expected
        events = second.client.get(f"/responses/{running}?stream=true").text
        assert events.rstrip().endswith("data: [DONE]")
        assert "response.failed" in events
        assert second.response(kept["id"]) == kept
        assert (
            text_of(second.respond(input="go on", previous_response_id=kept["id"])) == "Hello you"
        )
        assert second.client.delete(f"/responses/{running}").status_code == 200


def test_two_servers_have_the_same_responses_and_conversations(
    shared_postgres: str, tmp_path: Path
) -> None:
    key_file = tmp_path / "sealing.key"
    with (
        server(shared_postgres, key_file, TEXT, TEXT) as one,
        server(shared_postgres, key_file, TEXT, TEXT) as other,
    ):
        response = one.respond(input="hi")
        assert other.response(response["id"]) == response
        following = other.respond(input="go on", previous_response_id=response["id"])
        assert one.response(following["id"])["previous_response_id"] == response["id"]

        conversation = one.client.post("/conversations", json={}).json()["id"]
        for asked, at in (("hi", one), ("and?", other)):
            assert text_of(at.respond(input=asked, conversation=conversation)) == "Hello you"
        items = one.client.get(f"/conversations/{conversation}/items?order=asc").json()["data"]
        texts = [item["content"][0]["text"] for item in items]
        assert texts == ["hi", "Hello you", "and?", "Hello you"]


def test_a_response_that_runs_elsewhere_is_seen_and_cancelled_but_not_streamed(
    shared_postgres: str, tmp_path: Path
) -> None:
    key_file = tmp_path / "sealing.key"
    with (
        server(shared_postgres, key_file, ENDLESS) as one,
        server(shared_postgres, key_file) as other,
    ):
        id = one.begin_in_background()
        assert other.response(id)["status"] == "queued"  # as it was stored when it began
        streamed = other.client.get(f"/responses/{id}?stream=true")
        assert streamed.status_code == 409
        assert streamed.json()["error"]["code"] == "response_runs_elsewhere"
        assert other.client.post(f"/responses/{id}/cancel").json()["status"] == "cancelled"
        assert other.response(id)["status"] == "cancelled"


@pytest.mark.skipif(os.name != "posix", reason="the signals are those of POSIX")
def test_a_server_that_starts_fails_the_work_of_one_that_died_and_of_no_other(
    shared_postgres: str, tmp_path: Path
) -> None:
    key_file = tmp_path / "sealing.key"
    with (
        server(shared_postgres, key_file, ENDLESS) as dying,
        server(shared_postgres, key_file, ENDLESS) as living,
    ):
        lost, going_on = dying.begin_in_background(), living.begin_in_background()
        dying.end(signal.SIGKILL)
        with server(shared_postgres, key_file) as third:
            assert third.response(lost)["status"] == "failed"
            assert third.response(going_on)["status"] == "queued"
            assert living.response(lost)["status"] == "failed"
            assert living.response(going_on)["status"] == "in_progress"


def test_what_one_server_seals_another_opens_before_and_after_a_rotation(
    shared_postgres: str, tmp_path: Path
) -> None:
    key_file = tmp_path / "sealing.key"
    sealing = {"input": "hi", "store": False, "include": ["reasoning.encrypted_content"]}
    with (
        server(shared_postgres, key_file, THOUGHT + TEXT, THOUGHT + TEXT) as one,
        server(shared_postgres, key_file) as other,
    ):
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
