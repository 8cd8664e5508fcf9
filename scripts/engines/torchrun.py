"""Run the demo model in two processes of torchrun: ``make engine-torchrun``.

    torchrun.py [--processes N] [--update-docs]

The engine must hold the contract of engines (`contract`) and give the tokens of one process, and
``harmony serve`` must answer requests in the same way (`served_requests`). The table goes to
standard output, and with ``--update-docs`` into docs/understand/engines.md.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import torch
import transformers
from contract import run_checks
from try_server import PASSED, PATIENCE, Results, run_requests, table, update_docs

from gpt_oss_harmony.engines import Sampling, TransformersEngine
from gpt_oss_harmony.engines.demo_model import demo_model_folder
from support.engine_contract import sample
from support.served import server_process

MODEL = "demo"


async def tokens_of(engine: TransformersEngine) -> list[int]:
    return [sampled.token for sampled in await sample(engine, Sampling(seed=1, max_tokens=60))]


async def print_results(engine: TransformersEngine) -> None:
    """Print what is wrong with each check, and tokens, as JSON."""
    results = {}
    async with engine:
        async for name, seconds, problem in run_checks(engine):
            results[name] = problem or PASSED
            print(f"{name}: {results[name]} ({seconds:.1f} s)", file=sys.stderr, flush=True)
        print(json.dumps({"results": results, "tokens": await tokens_of(engine)}))


async def tokens_of_one() -> list[int]:
    engine = TransformersEngine.load(demo_model_folder(), experts_implementation="grouped_mm")
    async with engine:
        return await tokens_of(engine)


def served(launcher: list[str]) -> Results:
    """Make the requests to ``harmony serve`` in several processes, which must end when told to."""
    cache = demo_model_folder().parents[1]
    with (
        tempfile.TemporaryDirectory() as state,
        server_process(Path(state), cache, MODEL, "--port", "0", launcher=launcher) as server,
    ):

        def running() -> int:
            with urllib.request.urlopen(f"{server.url.removesuffix('/v1')}/health") as answer:
                return int(json.load(answer)["running"])

        try:
            return run_requests(server.url, running)
        finally:  # killed, torchrun would leave its processes behind
            server.process.terminate()
            server.ended()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--update-docs", action="store_true", help="write docs/understand/engines.md, too"
    )
    arguments = parser.parse_args()
    if "RANK" in os.environ:  # started by the command below
        engine = TransformersEngine.load(demo_model_folder(), name=MODEL)
        if engine.is_follower:
            engine.follow()
        else:
            asyncio.run(print_results(engine))
        return 0
    count = str(arguments.processes)
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", count]
    launcher += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    printed = subprocess.run(
        [sys.executable, *launcher, __file__],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
    ).stdout
    run = json.loads(printed.splitlines()[-1])
    contract: Results = run["results"]
    is_same = run["tokens"] == asyncio.run(tokens_of_one())
    contract["the same tokens as one process"] = PASSED if is_same else "differ"
    requests = served(launcher)
    today = datetime.datetime.now(datetime.timezone.utc)
    text = (
        f"{count} processes over gloo, torch {torch.__version__}, transformers "
        f"{transformers.__version__}; {today:%Y-%m-%d}\n"
    )
    text += table("Check", {"Result": contract})
    text += table("Request through `harmony serve`", {"Result": requests})
    print(text)
    if arguments.update_docs:
        update_docs("torchrun", text)
    return 0 if {*contract.values(), *requests.values()} == {PASSED} else 1


if __name__ == "__main__":
    sys.exit(main())
