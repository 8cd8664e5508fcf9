"""Containers in use: deleted while code runs in them, and named by several responses at once."""

from __future__ import annotations

import ast
import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.sync.client import connect
from websockets.sync.connection import Connection

from gpt_oss_harmony import Message
from gpt_oss_harmony.engines import SampledToken, Sampling
from gpt_oss_harmony.server import Settings
from gpt_oss_harmony.server.responses import lifecycle, plan
from gpt_oss_harmony.tools.tool import ToolMessage
from support.responses_server import ENDS
from support.scripted_engine import ENCODING
from support.served import PATIENCE, serving
from support.server_tools import COMPUTE, PretendedPython, RoomyEngine, _Memory, answer, compute

CALLING = "response.code_interpreter_call.interpreting"

pytest_plugins = ("support.postgres_server", "support.databases")


class Reader(RoomyEngine):
    """Calls python with each line of the last message of the user, and then answers."""

    async def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        last = ENCODING.decode(prompt).rpartition("<|start|>user<|message|>")[2]
        lines = last.partition("<|end|>")[0].split("\n")
        done = last.count("<|start|>python")
        self.completions = [compute(line) for line in lines if line != "say"][done:]
        self.completions = [*self.completions, answer("Done.")][:1]
        async for sampled in super()._generate(prompt, sampling, max_tokens):
            yield sampled


class Held(PretendedPython):
    """Code that begins with ``wait`` runs until `go` is released."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Semaphore(0)
        self.go = threading.Semaphore(0)

    async def call(self, message: Message, session: _Memory) -> AsyncIterator[ToolMessage]:
        if message.text.startswith("wait"):
            self.waiting.release()
            assert await asyncio.to_thread(self.go.acquire, timeout=PATIENCE)
        async for said in super().call(message, session):
            yield said


class Served:
    """A server, and requests to it in other threads."""

    def __init__(self, url: str, python: Held, pool: ThreadPoolExecutor) -> None:
        self.url = url
        self.client = httpx2.Client(base_url=url, timeout=PATIENCE)
        self.python = python
        self._pool = pool

    def container(self) -> str:
        id: str = self.client.post("/containers", json={"name": "work"}).json()["id"]
        return id

    def respond(self, code: str, container: str | None = None, **fields: Any) -> dict[str, Any]:
        answered: dict[str, Any] = self.client.post(
            "/responses", json=body(code, container, **fields)
        ).json()
        return answered

    def begin(self, *arguments: Any, **fields: Any) -> Future[dict[str, Any]]:
        return self._pool.submit(self.respond, *arguments, **fields)

    def begin_waiting(self, *arguments: Any, **fields: Any) -> Future[dict[str, Any]]:
        """Begin a response; return once its code waits."""
        response = self.begin(*arguments, **fields)
        assert self.python.waiting.acquire(timeout=PATIENCE)
        return response

    def in_background(self, code: str, container: str) -> str:
        """Begin a response in the background; return its id once its first call has begun."""
        id: str = self.respond(code, container, background=True)["id"]
        with self.client.stream("GET", f"/responses/{id}?stream=true") as events:
            assert any(CALLING in line for line in events.iter_lines())
        return id

    def response(self, id: str) -> dict[str, Any]:
        response: dict[str, Any] = self.client.get(f"/responses/{id}").json()
        return response

    def ended(self, id: str) -> dict[str, Any]:
        until(lambda: self.response(id)["status"] not in ("queued", "in_progress"))
        return self.response(id)

    def delete(self, container: str) -> None:
        assert self.client.delete(f"/containers/{container}").json()["deleted"]

    def check_gone(self, container: str) -> None:
        """Check that nothing is there, nothing can be put there, and no request may name it."""
        for path in ("", "/files"):
            assert self.client.get(f"/containers/{container}{path}").status_code == 404
        sent = {"file": ("a.txt", b"A")}
        assert self.client.post(f"/containers/{container}/files", files=sent).status_code == 404
        named = self.respond("x", container)
        assert named["error"]["param"] == "tools[0].container", named


def body(code: str, container: str | None = None, **fields: Any) -> dict[str, Any]:
    """A request whose code runs line by line."""
    tool = COMPUTE if container is None else {**COMPUTE, "container": container}
    include = ["code_interpreter_call.outputs"]
    return {"input": code, "tools": [tool], "include": include, **fields}


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def last_call(response: dict[str, Any]) -> tuple[str, list[str]]:
    """The container of the last call, and the code that has run in it until then."""
    assert response["status"] == "completed", response
    call = [item for item in response["output"] if item["type"] == "code_interpreter_call"][-1]
    cells: list[str] = ast.literal_eval(call["outputs"][0]["logs"].removeprefix("after "))
    return call["container_id"], cells


@pytest.fixture
def python() -> Held:
    return Held()


def served_at(python: Held, held: ExitStack, **settings: Any) -> Served:
    url = held.enter_context(serving(Reader(), Settings(**settings), [python]))
    pool = held.enter_context(ThreadPoolExecutor(8))
    served = Served(url, python, pool)
    held.callback(served.client.close)
    return served


@pytest.fixture
def served(python: Held) -> Iterator[Served]:
    with ExitStack() as held:
        served = served_at(python, held)
        yield served
        python.go.release(100)  # so that a test that fails does not wait


# Deleted while code runs


def test_a_container_that_is_deleted_while_code_runs_in_it_stays_deleted(served: Served) -> None:
    container = served.container()
    old = served.respond("write old.txt old", container)
    named = served.begin_waiting("write a.txt A\nwait\nwrite b.txt B", container)
    following = served.begin_waiting("wait", previous_response_id=old["id"])
    served.delete(container)
    served.check_gone(container)
    served.python.go.release(2)
    for response in (named.result(), following.result()):
        assert last_call(response)[0] == container
        again = served.respond("x", previous_response_id=response["id"])
        assert last_call(again)[0] != container
        assert last_call(again)[1] == ["x"]
    # What was not stored is not cited.
    cited = named.result()["output"][-1]["content"][0]["annotations"]
    assert [citation["filename"] for citation in cited] == ["a.txt"]
    served.check_gone(container)


def test_the_container_of_a_conversation_begins_anew(served: Served) -> None:
    talk = served.client.post("/conversations", json={}).json()["id"]
    container, _ = last_call(served.respond("write a.txt secret", conversation=talk))
    running = served.begin_waiting("wait\nwrite b.txt B", conversation=talk)
    served.delete(container)
    served.python.go.release()
    assert last_call(running.result())[0] == container
    served.check_gone(container)
    anew, cells = last_call(served.respond("x", conversation=talk))
    assert (anew != container, cells) == (True, ["x"])
    assert last_call(served.respond("y", anew))[1] == ["x", "y"]


def test_a_response_in_the_background_brings_no_container_back(served: Served) -> None:
    container = served.container()
    id = served.in_background("wait\nwrite b.txt B", container)
    served.delete(container)
    served.python.go.release()
    assert last_call(served.ended(id))[0] == container
    served.check_gone(container)


def ask(socket: Connection, *arguments: Any, **fields: Any) -> dict[str, Any]:
    """Send a request over a connection; return its response."""
    socket.send(json.dumps({"type": "response.create", **body(*arguments, **fields)}))
    while True:
        event = json.loads(socket.recv(PATIENCE))
        if event["type"] in ENDS:
            response: dict[str, Any] = event["response"]
            return response


def test_a_connection_remembers_nothing_of_a_deleted_container(served: Served) -> None:
    container = served.container()
    with connect(f"ws{served.url.removeprefix('http')}/responses") as socket:
        first = ask(socket, "x", container, store=False)
        second = ask(socket, "y", store=False, previous_response_id=first["id"])
        assert last_call(second) == (container, ["x", "y"])
        served.delete(container)
        for is_stored in (False, True):
            third = ask(socket, "z", store=is_stored, previous_response_id=second["id"])
            assert last_call(third)[0] != container
            assert last_call(third)[1] == ["z"]
        # One that only the connection knew is stored with the first stored response.
        own = ask(socket, "a", store=False)
        kept = ask(socket, "b", store=True, previous_response_id=own["id"])
        assert last_call(kept) == (last_call(own)[0], ["a", "b"])
        assert last_call(served.respond("c", last_call(own)[0]))[1] == ["a", "b", "c"]
    served.check_gone(container)


@pytest.mark.slow
def test_another_server_deletes_a_container(empty_postgres: str, tmp_path: Path) -> None:
    python = Held()
    options = {"database": empty_postgres, "key_file": tmp_path / "sealing.key"}
    with ExitStack() as held:
        one, other = (served_at(python, held, **options) for _ in range(2))
        container = one.container()
        one.respond("write a.txt A", container)
        running = one.begin_waiting("wait\nwrite b.txt B", container)
        other.delete(container)
        python.go.release()
        assert last_call(running.result())[0] == container
        for server in (one, other):
            server.check_gone(container)


# Several responses in one container


def test_responses_that_name_a_container_run_code_one_after_the_other(served: Served) -> None:
    container = served.container()
    first = served.begin_waiting("wait\nwrite a.txt A", container)
    second = served.in_background("b\nwrite b.txt B", container)
    third = served.begin("c", container, store=False)
    # Neither one without code waits, nor one in another container.
    assert served.respond("say", container)["status"] == "completed"
    assert last_call(served.respond("x"))[1] == ["x"]
    assert (first.done(), third.done()) == (False, False)
    assert served.response(second)["status"] == "in_progress"
    served.python.go.release()
    assert last_call(first.result())[1] == ["wait", "write a.txt A"]
    cells = [*last_call(first.result())[1], "b", "write b.txt B"]
    assert last_call(served.ended(second))[1] == cells
    assert last_call(third.result())[1] == [*cells, "c"]
    # The third one kept nothing.
    assert last_call(served.respond("d", container))[1] == [*cells, "d"]
    files = served.client.get(f"/containers/{container}/files").json()["data"]
    assert {file["path"] for file in files} == {"/mnt/data/a.txt", "/mnt/data/b.txt"}


def test_a_container_has_one_state_in_and_outside_of_conversations(served: Served) -> None:
    container = served.container()
    talks = [served.client.post("/conversations", json={}).json()["id"] for _ in range(2)]
    cells: list[str] = []
    for talk in (None, talks[0], talks[1], None, talks[0], None):
        cells.append(str(len(cells)))
        named = served.respond(
            cells[-1], container, **({} if talk is None else {"conversation": talk})
        )
        assert last_call(named)[1] == cells


def test_each_call_is_a_use_of_the_container(served: Served) -> None:
    """It does not expire under a response that runs longer than `expires_after` says."""
    container = served.container()
    running = served.begin_waiting("wait\nx", container)
    time.sleep(1.1)  # the times are whole seconds
    about = f"/containers/{container}"
    before = served.client.get(about).json()["last_active_at"]
    served.python.go.release()
    assert last_call(running.result())[1] == ["wait", "x"]
    assert served.client.get(about).json()["last_active_at"] > before


def test_many_responses_lose_nothing(python: Held) -> None:
    """None of them has the only place at the engine while it waits for another."""
    with ExitStack() as held:
        served = served_at(python, held, max_running=1)
        container = served.container()
        responses = [served.begin(f"{n}\n{n}", container) for n in range(8)]
        found = sorted((last_call(response.result())[1] for response in responses), key=len)
        for before, cells in zip([[], *found], found, strict=False):
            assert cells[:-2] == before
            assert cells[-2] == cells[-1]
        assert len(found[-1]) == 16
        assert last_call(served.respond("end", container))[1] == [*found[-1], "end"]


def test_turns_are_those_of_the_arrival(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the first one was planned, the last one's state is the newest."""
    planning, going_on = threading.Event(), threading.Event()

    def slow(services: Any, caller: Any, request: Any, **fields: Any) -> Any:
        if request.input == "slow":
            planning.set()
            assert going_on.wait(PATIENCE)
        return plan.plan_response(services, caller, request, **fields)

    monkeypatch.setattr(lifecycle, "plan_response", slow)
    container = served.container()
    first = served.begin("slow", container)
    assert planning.wait(PATIENCE)
    second = served.in_background("next", container)
    going_on.set()
    assert last_call(first.result())[1] == ["slow"]
    assert last_call(served.ended(second))[1] == ["slow", "next"]
    assert last_call(served.respond("last", container))[1] == ["slow", "next", "last"]


@pytest.mark.parametrize("end", ["cancelled", "failed", "refused"])
def test_a_response_that_does_not_come_to_its_end_lets_the_next_one_run(
    served: Served, end: str
) -> None:
    container = served.container()
    first = served.in_background("wait", container)
    waiting = served.in_background("never", container)
    if end == "refused":
        assert "error" in served.respond("x", container, previous_response_id="resp_0")
    last = served.begin("last", container)
    if end == "cancelled":
        for id in (waiting, first):
            assert served.client.post(f"/responses/{id}/cancel").json()["status"] == "cancelled"
    elif end == "failed":
        served.delete(container)
        assert served.client.delete(f"/responses/{first}").status_code == 200
        assert container in served.ended(waiting)["error"]["message"]
        assert last.result()["error"]["param"] == "tools[0].container"
        return
    served.python.go.release()
    cells = last_call(last.result())[1]
    assert cells == (["last"] if end == "cancelled" else ["wait", "never", "last"])


def test_a_client_that_leaves_gives_its_turn_up(served: Served) -> None:
    container = served.container()
    first = served.in_background("wait", container)
    leaving = httpx2.Client(base_url=served.url, timeout=PATIENCE)
    with (
        leaving,
        leaving.stream("POST", "/responses", json=body("never", container, stream=True)) as events,
    ):
        assert any(CALLING in line for line in events.iter_lines())
    served.python.go.release()
    assert last_call(served.ended(first))[1] == ["wait"]
    assert last_call(served.respond("last", container))[1] == ["wait", "last"]
