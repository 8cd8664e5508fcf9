"""Several processes of one server, on a file of SQLite: one port, one engine, one queue."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from gpt_oss_harmony.server.workers import socket_folder
from support.counting_engine import COUNT
from support.served import PATIENCE
from support.server_process import Server, deltas, running_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="workers need the sockets of POSIX"),
]

WORKERS = 2
RUNNING, WAITING = 3, 1


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of two workers; at the end it is told to end, with all of them."""
    folder = tmp_path_factory.mktemp("workers")
    limits = {"max_running": RUNNING, "max_waiting": WAITING}
    with running_server(
        f"sqlite:///{folder / 'harmony.db'}",
        folder / "sealing.key",
        "support.workers_server",
        **limits,
    ) as started:
        yield started
        workers = workers_of(started)
        assert len(workers) == WORKERS
        started.begin_in_background()
        started.end(signal.SIGTERM)
        assert started.process.returncode == 0
        assert not any(worker.is_running() for worker in workers)


@pytest.fixture
def fresh(server: Server) -> Iterator[httpx2.Client]:
    """A client with a connection of its own for each request: any worker may get it."""
    limits = httpx2.Limits(max_keepalive_connections=0)
    url = str(server.client.base_url)
    with httpx2.Client(base_url=url, timeout=PATIENCE, limits=limits) as client:
        yield client


def workers_of(server: Server) -> list[psutil.Process]:
    """The processes that serve; Python's own helper is none of them."""
    workers = []
    for child in psutil.Process(server.process.pid).children():
        with suppress(psutil.Error):  # one that has just ended
            if "spawn_main" in " ".join(child.cmdline()):
                workers.append(child)
    return workers


def metric(client: httpx2.Client, name: str) -> float:
    """The sum of a metric over its labels."""
    lines = client.get("../metrics").text.splitlines()
    values = [line.rpartition(" ")[2] for line in lines if re.match(rf"{name}[{{ ]", line)]
    return sum(map(float, values))


def until(holds: Any) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def cancel(client: httpx2.Client, id: str) -> None:
    answer = client.post(f"/responses/{id}/cancel")
    assert answer.json()["status"] == "cancelled", answer.text


def test_workers_share_responses_metrics_and_the_queue(
    server: Server, fresh: httpx2.Client
) -> None:
    before = metric(fresh, "harmony_completions_total")
    ids = [server.begin_in_background() for _ in range(RUNNING)]
    waiting = fresh.post("/responses", json={"input": COUNT, "background": True}).json()["id"]
    for _ in range(4):  # whichever worker is asked
        assert fresh.get(f"/responses/{waiting}").json()["status"] == "queued"
        refused = fresh.post("/responses", json={"input": COUNT})
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "server_busy")
        with closing(server.events(ids[0])) as events:
            assert deltas(events, 3)[0]["type"] == "response.created"
    assert metric(fresh, "harmony_running") == RUNNING
    assert metric(fresh, "harmony_waiting") == 1
    cancel(fresh, ids[0])
    until(lambda: fresh.get(f"/responses/{waiting}").json()["status"] == "in_progress")
    for id in (*ids[1:], waiting):
        cancel(fresh, id)
        assert server.response(id)["status"] == "cancelled"
    until(lambda: metric(fresh, "harmony_running") == 0)
    assert metric(fresh, "harmony_completions_total") == before + RUNNING + 1
    completed = fresh.post("/responses", json={"input": "hi"}).json()
    following = {"input": "go on", "previous_response_id": completed["id"]}
    assert fresh.post("/responses", json=following).json()["status"] == "completed"


def test_a_worker_that_dies_is_replaced_and_its_responses_fail(
    server: Server, fresh: httpx2.Client
) -> None:
    ids = [
        fresh.post("/responses", json={"input": COUNT, "background": True}).json()["id"]
        for _ in range(RUNNING)
    ]

    def statuses() -> list[str]:
        return [fresh.get(f"/responses/{id}").json()["status"] for id in ids]

    until(lambda: statuses() == ["in_progress"] * RUNNING)
    killed, living = workers_of(server)
    killed.kill()
    until(lambda: len({worker.pid for worker in workers_of(server)} - {killed.pid}) == WORKERS)
    assert living.is_running()
    # The dead worker's places at the engine are free again; the rest goes on.
    after = dict(zip(ids, statuses(), strict=True))
    assert set(after.values()) <= {"failed", "in_progress"}
    going_on = [id for id, status in after.items() if status == "in_progress"]
    assert metric(fresh, "harmony_running") == len(going_on)
    more = [
        fresh.post("/responses", json={"input": COUNT, "background": True}).json()["id"]
        for _ in range(RUNNING - len(going_on))
    ]
    until(lambda: metric(fresh, "harmony_running") == RUNNING)
    for id in (*going_on, *more):
        cancel(fresh, id)
    for _ in range(4):
        assert fresh.post("/responses", json={"input": "hi"}).json()["status"] == "completed"


LEFT_BEHIND = """
import os, sys
from pathlib import Path
from gpt_oss_harmony.server.workers import socket_folder
with socket_folder(Path(sys.argv[1])) as folder:
    (folder / "metrics").mkdir()
    print(folder, flush=True)
    sys.stdin.read(1)
    os.kill(os.getpid(), 9)
"""


def test_the_folder_of_a_killed_server_is_removed_at_the_next_start(tmp_path: Path) -> None:
    unrelated = tmp_path / "harmony-unrelated"
    unrelated.mkdir()
    program = [sys.executable, "-c", LEFT_BEHIND, str(tmp_path)]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        left = Path(killed.stdout.readline().strip())
        with socket_folder(tmp_path) as own:
            assert {left, own, unrelated} == set(tmp_path.iterdir())  # it still lives
        killed.communicate("x")
    assert left.exists()
    with socket_folder(tmp_path) as own:
        assert {own, unrelated} == set(tmp_path.iterdir())
    assert [unrelated] == list(tmp_path.iterdir())
