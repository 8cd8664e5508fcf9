"""Run the demo model in two processes of torchrun: ``make engine-torchrun``.

    torchrun.py [--processes N]

The engine must hold the contract (`contract`) and give the tokens of one process. ``harmony serve``
must answer a few requests in the same way. The table goes to standard output.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from openai import OpenAI

from openai_harmony.engines import EngineError, Sampling, TransformersEngine
from openai_harmony.engines.demo_model import demo_model_folder

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.engine_contract import CHECKS, sample

PATIENCE = 600  # seconds for one of its programs
HOLDS = "holds"
MODEL = "demo"
SUM: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "What is 2 + 2?"}],
    "temperature": 0,
}
WEATHER: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "What is the weather like in Tokyo?"}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_current_weather",
                "parameters": {
                    "type": "object",
                    "properties": {"location": {"type": "string"}},
                    "required": ["location"],
                },
            },
        }
    ],
    "tool_choice": "required",
    "temperature": 0,
}


async def tokens_of(engine: TransformersEngine) -> list[int]:
    return [sampled.token for sampled in await sample(engine, Sampling(seed=1, max_tokens=60))]


async def print_results(engine: TransformersEngine) -> None:
    """Print what is wrong with each check, and tokens, as JSON."""
    results = {}
    async with engine:
        for check in CHECKS:
            try:
                await check(engine)
                problem = HOLDS
            except (AssertionError, EngineError) as error:
                problem = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
            results[check.__name__.replace("_", " ")] = problem
            print(f"{check.__name__}: {problem}", file=sys.stderr, flush=True)
        print(json.dumps({"results": results, "tokens": await tokens_of(engine)}))


async def tokens_of_one() -> list[int]:
    engine = TransformersEngine(demo_model_folder(), experts_implementation="grouped_mm")
    async with engine:
        return await tokens_of(engine)


def plain(client: OpenAI) -> None:
    answer = client.chat.completions.create(**SUM)
    assert answer.choices[0].message.content == "2 + 2 = 4.", answer


def streamed(client: OpenAI) -> None:
    events = client.chat.completions.create(**SUM, stream=True)
    text = "".join(event.choices[0].delta.content or "" for event in events if event.choices)
    assert text == "2 + 2 = 4.", text


def tool_required(client: OpenAI) -> None:
    answer = client.chat.completions.create(**WEATHER)
    (call,) = answer.choices[0].message.tool_calls or []
    assert call.type == "function", call
    assert json.loads(call.function.arguments) == {"location": "Tokyo"}, call


REQUESTS: tuple[Callable[[OpenAI], None], ...] = (plain, streamed, tool_required)


def served(command: Sequence[str], environment: dict[str, str]) -> dict[str, str]:
    """Make the requests to ``harmony serve`` in several processes; it must end when told to."""
    results = {}
    process = subprocess.Popen(
        [*command, "-m", "openai_harmony", "serve", MODEL, "--port", "0"],
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    matches = (re.search(r"serving demo at (\S+)", line) for line in lines)
    url = next((match[1] for match in matches if match), None)
    if url is None:
        return {"harmony serve": "does not start"}
    with OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        for request in REQUESTS:
            try:
                request(client)
                results[request.__name__.replace("_", " ")] = HOLDS
            except Exception as error:  # noqa: BLE001 - it goes into the table
                results[request.__name__] = f"{type(error).__name__}: {error}"[:200]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    if "RANK" in os.environ:  # started by the command below
        engine = TransformersEngine(demo_model_folder(), name=MODEL)
        if engine.is_follower:
            engine.follow()
        else:
            asyncio.run(print_results(engine))
        return 0
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node"]
    command += [
        str(arguments.processes),
        "--rdzv-backend",
        "c10d",
        "--rdzv-endpoint",
        "localhost:0",
    ]
    with tempfile.TemporaryDirectory() as state:
        environment = {**os.environ, "XDG_STATE_HOME": state}
        environment.setdefault("XDG_CACHE_HOME", str(demo_model_folder().parents[1]))
        printed = subprocess.run(
            [*command, __file__],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            env=environment,
        ).stdout
        run = json.loads(printed)
        results = run["results"]
        is_same = run["tokens"] == asyncio.run(tokens_of_one())
        results["the tokens of one process"] = HOLDS if is_same else "differ"
        results |= {f"harmony serve: {n}": r for n, r in served(command, environment).items()}
    today = datetime.datetime.now(datetime.timezone.utc)
    print(
        f"{arguments.processes} processes over gloo, torch {torch.__version__}, transformers "
        f"{transformers.__version__}; {today:%Y-%m-%d}\n\n| Check | Result |\n|---|---|"
    )
    for name, result in results.items():
        print(f"| {name} | {result.replace('|', chr(92) + '|')} |")
    return 0 if set(results.values()) == {HOLDS} else 1


if __name__ == "__main__":
    sys.exit(main())
