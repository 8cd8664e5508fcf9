"""Run the contract of the engines against a real server: ``contract.py URL [--kind vllm]``.

The checks are those of ``tests/support/engine_contract.py``; a table says which of them hold.
They are strict about numbers: on a GPU, a batch of another size may round otherwise, so that
sixteen requests at once need not give what they give alone.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from gpt_oss_harmony.engines import Engine, EngineError, LlamaCppEngine, SglangEngine, VllmEngine

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.engine_contract import CHECKS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="such as http://localhost:8000")
    parser.add_argument(
        "--kind", choices=["vllm", "llama.cpp", "sglang"], help="asked of the server if left out"
    )
    parser.add_argument("--model", help="vLLM: one of its models")
    parser.add_argument(
        "--endpoint", choices=["generate", "completions"], help="vLLM: only this one"
    )
    parser.add_argument("--llguidance", action="store_true", help="llama.cpp was built with it")
    parser.add_argument("--no-stream", action="store_true", help="llama.cpp: whole completions")
    parser.add_argument(
        "--original-logprobs", action="store_true", help="SGLang: it runs with that setting"
    )
    parser.add_argument("--api-key")
    options = parser.parse_args()
    try:
        return asyncio.run(run(options))
    except EngineError as error:
        print(error, file=sys.stderr)
        return 2


async def run(options: argparse.Namespace) -> int:
    async with await connect(options) as engine:
        print(f"{engine.model}, {engine.context_length:,} tokens of context\n")
        print("| Check | Seconds | Result |\n|---|--:|---|")
        failed = 0
        async for name, seconds, problem in run_checks(engine):
            print(f"| {name} | {seconds:.1f} | {problem or 'passed'} |", flush=True)
            failed += problem is not None
    return 1 if failed else 0


async def run_checks(engine: Engine) -> AsyncIterator[tuple[str, float, str | None]]:
    """Yield the name of each check, its seconds, and what is wrong, in a line."""
    for check in CHECKS:
        start = time.perf_counter()
        problem = None
        try:
            await check(engine)
        except (AssertionError, EngineError) as error:
            lines = str(error).splitlines()
            problem = f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]
            problem = problem.replace("|", "\\|")
        yield check.__name__.replace("_", " "), time.perf_counter() - start, problem


async def connect(options: argparse.Namespace) -> Engine:
    url, key = options.url, options.api_key
    kind = options.kind
    if kind == "llama.cpp" or (not kind and await LlamaCppEngine.answers(url, api_key=key)):
        return await LlamaCppEngine.connect(
            url, llguidance=options.llguidance, stream=not options.no_stream, api_key=key
        )
    if kind == "sglang" or (not kind and await SglangEngine.answers(url, api_key=key)):
        return await SglangEngine.connect(
            url, original_logprobs=options.original_logprobs, api_key=key
        )
    return await VllmEngine.connect(url, options.model, endpoint=options.endpoint, api_key=key)


if __name__ == "__main__":
    sys.exit(main())
