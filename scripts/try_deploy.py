"""Run what `deploy` describes, as far as one machine goes, and say what was seen.

Two ``harmony serve demo`` on one PostgreSQL, behind nginx by `deploy/nginx.conf`, each request
through the proxy; Prometheus by `deploy/prometheus` scrapes them. nginx, prometheus and promtool
are those of the system, from the packages of their names.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import httpx2  # noqa: E402
from websockets.sync.client import connect  # noqa: E402

from gpt_oss_harmony.server.metrics import NAMES  # noqa: E402
from gpt_oss_harmony.server.store import Store  # noqa: E402
from support.postgres_server import new_database, postgres_programs, running_postgres  # noqa: E402

KEY = "sk-harmony-try"
HEADERS = {"Authorization": f"Bearer {KEY}", "X-Request-Id": "try-1"}
PATIENCE = 300  # seconds for a server to load its model


def main() -> int:
    """Start everything, try it, and stop it."""
    missing = [name for name in ("nginx", "prometheus", "promtool") if not _program(name)]
    if missing:
        print(f"install {', '.join(missing)} first", file=sys.stderr)
        return 2
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="harmony-deploy-")))
        folder.chmod(0o755)
        postgres = opened.enter_context(running_postgres())
        database = opened.enter_context(new_database(postgres))
        ports = [_free_port() for _ in range(4)]
        servers = [opened.enter_context(_server(folder, port, database)) for port in ports[:2]]
        for port in ports[:2]:
            _wait(f"http://127.0.0.1:{port}/ready")
        opened.enter_context(_nginx(folder, ports))
        opened.enter_context(_prometheus(folder, ports))
        proxy = f"http://127.0.0.1:{ports[2]}"
        with httpx2.Client(base_url=proxy, headers=HEADERS, timeout=PATIENCE) as client:
            _try_api(client, folder)
            _try_stream(client)
            _try_websocket(ports[2])
            _try_prometheus(client, ports[3])
            servers[0].send_signal(signal.SIGKILL)
            servers[0].wait()
            for _ in range(6):
                answered = client.get("/v1/models")
                assert answered.status_code == 200, answered.text
            print("one server killed: six requests of six answered by the other")
        with new_database(postgres) as copy:
            _try_backup(folder, database, copy)
    return 0


def _try_api(client: httpx2.Client, folder: Path) -> None:
    assert client.get("/metrics").status_code == 404
    print("/metrics is not shown by the proxy")
    asked = {"model": "demo", "input": "What is 27 + 45?", "temperature": 0}
    first = client.post("/v1/responses", json=asked)
    assert first.status_code == 200, first.text
    assert first.headers["x-request-id"] == "try-1"
    ids = [first.json()["id"]]
    for question in ("And 1 + 1?", "And 2 + 2?", "And 3 + 3?"):
        body = {**asked, "input": question, "previous_response_id": ids[-1]}
        ids.append(client.post("/v1/responses", json=body).json()["id"])

    def logged() -> dict[str, list[str]]:
        """The ids of the requests in the log of each server."""
        texts = {name: (folder / f"{name}.log").read_text() for name in _LOGS}
        return {
            name: re.findall(r'"message": "request", "request_id": "([^"]+)"', text)
            for name, text in texts.items()
        }

    # The last line is written after the client has the response.
    _until(lambda: sum(map(len, logged().values())) == len(ids), "every request is logged")
    assert {id for requests in logged().values() for id in requests} == {"try-1"}
    shares = sorted(map(len, logged().values()))
    print(f"a chain of {len(ids)} responses over two servers, which took {shares} requests each")


def _try_stream(client: httpx2.Client) -> None:
    """A stream whose events are held back would come as one piece at its end."""
    body = {"model": "demo", "input": "Count to ten.", "stream": True, "max_output_tokens": 100}
    times: list[float] = []
    with client.stream("POST", "/v1/responses", json=body) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            if line.startswith("data: "):
                times.append(time.perf_counter())
    steps = [later - earlier for earlier, later in itertools.pairwise(times)]
    gaps = sum(step > 0.002 for step in steps)
    assert gaps > len(times) // 4, steps
    print(f"a stream of {len(times)} events came in {gaps + 1} pieces")


def _try_websocket(port: int) -> None:
    with connect(f"ws://127.0.0.1:{port}/v1/responses", additional_headers=HEADERS) as socket:
        assert socket.response is not None
        assert socket.response.headers["x-request-id"] == "try-1"
        for _ in range(2):
            create = {"type": "response.create", "model": "demo", "input": "What is 2 + 3?"}
            socket.send(json.dumps(create))
            while json.loads(socket.recv(PATIENCE))["type"] != "response.completed":
                pass
    print("two responses over one WebSocket")


def _try_prometheus(client: httpx2.Client, port: int) -> None:
    """Every query of the dashboard and the rules must be evaluated, and the scraped be found."""

    def answer(query: str) -> list[Any]:
        url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        with urllib.request.urlopen(url, timeout=30) as response:
            result: list[Any] = json.load(response)["data"]["result"]
            return result

    _until(lambda: len(answer("up{job='harmony'} == 1")) == 2, "both servers are scraped")
    for _ in range(4):  # a rate is that of numbers that rise between two scrapes
        client.post("/v1/responses", json={"model": "demo", "input": "What is 4 + 5?"})
    _until(lambda: bool(answer("harmony:completion_tokens:rate5m > 0")), "the rules are evaluated")
    dashboard = ROOT / "deploy" / "grafana" / "dashboards" / "harmony.json"
    panels = json.loads(dashboard.read_text(encoding="utf-8"))["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    filled = 0
    for query in queries:
        for variable, value in (("$__rate_interval", "1m"), ("$instance", ".*")):
            query = query.replace(variable, value)
        filled += bool(answer(query))  # an invalid one is an error of HTTP
    print(f"{len(queries)} queries of the dashboard are valid, {filled} have an answer already")
    found = {series["metric"]["__name__"] for series in answer('{__name__=~"vllm:.+"}')}
    for name in itertools.chain.from_iterable(NAMES.values()):
        assert any(one.startswith(f"vllm:{name}") for one in found), name
    rate = 'rate(vllm:time_to_first_token_seconds_bucket{model_name="demo"}[1m])'
    assert answer(f"histogram_quantile(0.95, sum by(le) ({rate}))"), found
    print(f"{len(found)} metrics have vLLM's names, and a query of its dashboard is answered")


def _try_backup(folder: Path, database: str, copy: str) -> None:
    dump = str(folder / "harmony.dump")
    programs = str(postgres_programs(folder))  # as new as the server
    copying = [f"{programs}/pg_dump", "--format", "custom", "--file", dump, database]
    restoring = [f"{programs}/pg_restore", "--clean", "--if-exists", "--dbname", copy, dump]
    for command in (copying, restoring):
        subprocess.run([*map(str, command)], check=True)
    with Store(database) as store, Store(copy) as restored:
        (owner,) = store.owned.owners()
        assert list(restored.owned.export(owner)) == list(store.owned.export(owner))
        restored.owned.delete(owner)
        assert (restored.owned.owners(), store.owned.owners()) == ([], [owner])
    print("pg_dump and pg_restore give the same database; the owner's data is deleted in the copy")


# What is started

_LOGS: list[str] = []


@contextmanager
def _process(folder: Path, name: str, *command: str, **variables: str) -> Iterator[Any]:
    _LOGS.append(name) if name.startswith("harmony") else None
    with (folder / f"{name}.log").open("wb") as log:
        environment = {**os.environ, **variables}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def _server(folder: Path, port: int, database: str) -> Any:
    command = [sys.executable, "-m", "gpt_oss_harmony", "serve", "demo", f"--port={port}"]
    command += [f"--database={database}", f"--key-file={folder / 'reasoning.key'}"]
    command += ["--log-format=json", "--log-level=info", "--vllm-metrics"]
    return _process(folder, f"harmony-{port}", *command, HARMONY_API_KEY=KEY)


def _nginx(folder: Path, ports: list[int]) -> Any:
    text = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    for number, port in enumerate(ports[:2], 1):
        text = text.replace(f"harmony-{number}:8000", f"127.0.0.1:{port}")
    text = text.replace("listen 8080", f"listen 127.0.0.1:{ports[2]}")
    text = text.replace("/tmp/nginx", str(folder / "nginx"))
    (folder / "nginx.conf").write_text(text, encoding="utf-8")
    command = [_program("nginx"), "-e", "stderr", "-g", "daemon off;"]
    return _process(folder, "nginx", *command, "-c", str(folder / "nginx.conf"))


def _prometheus(folder: Path, ports: list[int]) -> Any:
    shutil.copytree(ROOT / "deploy" / "prometheus", folder / "prometheus")
    config = folder / "prometheus" / "prometheus.yaml"
    text = config.read_text(encoding="utf-8").replace("interval: 15s", "interval: 1s")
    for number, port in enumerate(ports[:2], 1):
        text = text.replace(f"harmony-{number}:8000", f"127.0.0.1:{port}")
    config.write_text(text, encoding="utf-8")
    listen = f"--web.listen-address=127.0.0.1:{ports[3]}"
    data = f"--storage.tsdb.path={folder / 'measurements'}"
    program = _program("prometheus")
    return _process(folder, "prometheus", program, f"--config.file={config}", listen, data)


def _program(name: str) -> str:
    return shutil.which(name, path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin") or ""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _wait(url: str) -> None:
    def is_ready() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    _until(is_ready, f"{re.sub(r'.*/', '/', url)} says that it serves")


def _until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
    print(what)


if __name__ == "__main__":
    sys.exit(main())
