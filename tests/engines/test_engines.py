"""The contract of the engines, kept by all of them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from gpt_oss_harmony.engines import (
    Engine,
    Sampling,
    SamplingError,
)
from gpt_oss_harmony.engines.token_sampler import TokenSampler
from support.engine_contract import CHECKS, Check, sample
from support.engine_servers import SERVERS, serving
from support.scripted_engine import ScriptedEngine


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_servers_keep_the_contract(kind: str, check: Check) -> None:
    async def run() -> None:
        async with serving(kind) as (_, engine):
            await check(engine)

    asyncio.run(run())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_llama_cpp_keeps_the_contract_without_streaming(check: Check) -> None:
    async def run() -> None:
        async with serving("llama.cpp", stream=False) as (_, engine):
            if "frees" not in check.__name__:  # it has no first token to wait for
                await check(engine)

    asyncio.run(run())


def test_other_engines_do_not_end_turns_in_time() -> None:
    sampling = Sampling(grammar="start: /a/", close_in_time=True)
    with pytest.raises(SamplingError, match="close_in_time: script cannot"):
        ScriptedEngine().generate([1], sampling)


class HeldSampler(TokenSampler):
    """One whose making takes until `go` is set, as for a large grammar."""

    begun = threading.Event()
    go = threading.Event()
    threads: ClassVar[set[int]] = set()

    def __init__(self, *given: Any) -> None:
        self.threads.add(threading.get_ident())
        self.begun.set()
        assert self.go.wait(60)
        super().__init__(*given)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[HeldSampler]]:
    HeldSampler.begun.clear()
    HeldSampler.go.clear()
    monkeypatch.setattr("gpt_oss_harmony.engines.in_process_engine.TokenSampler", HeldSampler)
    yield HeldSampler
    HeldSampler.go.set()


@pytest.mark.slow
def test_a_sampler_is_made_off_the_event_loop(
    loop: asyncio.AbstractEventLoop, demo: Engine, held: type[HeldSampler]
) -> None:
    async def run() -> None:
        task = asyncio.ensure_future(sample(demo, Sampling(max_tokens=2)))
        while not held.begun.is_set():
            await asyncio.sleep(0)  # the loop goes on
        held.go.set()
        assert len(await task) == 2
        assert threading.get_ident() not in held.threads

    loop.run_until_complete(run())


def test_cancelling_while_a_sampler_is_made_leaves_nothing(
    loop: asyncio.AbstractEventLoop, demo: Engine, held: type[HeldSampler]
) -> None:
    async def run() -> None:
        task = asyncio.ensure_future(sample(demo, Sampling(max_tokens=2)))
        while not held.begun.is_set():
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await demo.health()).running == 0
        held.go.set()
        assert len(await sample(demo, Sampling(max_tokens=2))) == 2

    loop.run_until_complete(run())


def test_engines_are_imported_when_they_are_used() -> None:
    program = """
import sys
import gpt_oss_harmony.engines as engines
from gpt_oss_harmony.installation import requirement

assert not {"torch", "transformers", "httpx2"} & set(sys.modules)
assert engines.VllmEngine.__name__ == "VllmEngine"
assert engines.LlamaCppEngine.__name__ == "LlamaCppEngine"
assert "torch" not in sys.modules
sys.modules["torch"] = None
try:
    engines.TransformersEngine
except ImportError as error:
    assert f"pip install {requirement('transformers')}" in str(error), error
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", program], check=True)
