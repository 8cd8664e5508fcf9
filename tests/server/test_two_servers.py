"""Servers as processes: two on one database, and one that is started again in the midst of work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx2
import pytest

from openai_harmony.server.responses.encryption import rotate_keys
from support.responses_server import TEXT, THOUGHT
from support.served import PATIENCE

pytest_plugins = ("support.postgres_server", "support.databases")

SERVER = """
import asyncio, itertools, json, socket, sys
from openai_harmony.engines import SampledToken
from openai_harmony.server import Settings, create_app, run_server
from support.scripted_engine import ENCODING, ScriptedEngine

class Answering(ScriptedEngine):
    "Counts as long as it may where it is asked to, and answers the same to all else."

    async def _generate(self, prompt, sampling, max_tokens):
        asked = ENCODING.decode(prompt).rpartition("<|start|>user<|message|>")[2]
        if asked.startswith("Count."):
            words = map("{} ".format, itertools.count())
            for text in itertools.chain(["<|channel|>final<|message|>"], words):
                for token in ENCODING.encode(text, allowed_special="all"):
                    await asyncio.sleep(0.001)
                    yield SampledToken(token)
        else:
            self.completions = [options["completion"]]
            async for sampled in super()._generate(prompt, sampling, max_tokens):
                yield sampled

options = json.loads(sys.argv[1])
settings = Settings(database=options["database"], key_file=options["key_file"], shutdown_seconds=0)
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    engine = Answering()
    engine.context_length = 10**9
    app = create_app(engine, settings)
    asyncio.run(run_server(app, settings, listener))
"""


class Server:
    """A process that serves a script."""

    def __init__(self, database: str, key_file: Path) -> None:
        options = {
            "database": database,
            "key_file": str(key_file),
            "completion": THOUGHT + TEXT,
        }
        paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, json.dumps(options)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )

    @cached_property
    def client(self) -> httpx2.Client:
        assert self.process.stdout is not None
        port = int(self.process.stdout.readline())
        # The socket listens already: the first request waits until the server is ready.
        return httpx2.Client(base_url=f"http://127.0.0.1:{port}/v1", timeout=PATIENCE)

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
        with closing(self.events(id)) as events:
            next(event for event in events if event["type"] == "response.output_text.delta")
        return id

    def events(self, id: str, after: int | None = None) -> Iterator[dict[str, Any]]:
        """Read the events of a response above a number, as they come."""
        more = {} if after is None else {"starting_after": after}
        with self.client.stream(
            "GET", f"/responses/{id}", params={"stream": True, **more}
        ) as answer:
            assert answer.status_code == 200, answer.read()
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    yield json.loads(line.removeprefix("data: "))

    @property
    def running(self) -> int:
        """The completions at its engine."""
        count: int = self.client.get("../health").json()["running"]
        return count

    def end(self, number: int) -> None:
        self.process.send_signal(number)
        self.process.wait(PATIENCE)


@contextmanager
def server(database: str, key_file: Path) -> Iterator[Server]:
    with ExitStack() as opened:
        started = Server(database, key_file)
        opened.enter_context(started.process)
        opened.callback(started.process.kill)
        opened.callback(lambda: started.client.close())
        yield started


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "sealing.key"


@pytest.fixture(scope="module")
def pair(shared_postgres: str, key_file: Path) -> Iterator[tuple[Server, Server]]:
    """Two servers of one database, for all tests that leave them alive."""
    with server(shared_postgres, key_file) as one, server(shared_postgres, key_file) as other:
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
    with server(database, key_file) as first:
        kept = first.respond(input="hi")
        running = first.begin_in_background()
        first.end(ENDS[end])
    with server(database, key_file) as second:
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


def deltas(events: Iterator[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Read events up to so many pieces of text."""
    read = []
    for event in events:
        read.append(event)
        count -= event["type"] == "response.output_text.delta"
        if not count:
            break
    return read


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
    pair: tuple[Server, Server], shared_postgres: str, key_file: Path, end: str
) -> None:
    living, other = pair
    going_on = living.begin_in_background()
    with server(shared_postgres, key_file) as dying:
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
    pair: tuple[Server, Server], shared_postgres: str, key_file: Path
) -> None:
    """Its lease holds; when it goes on, it ends the response as the others have it."""
    with server(shared_postgres, key_file) as stopped:
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
