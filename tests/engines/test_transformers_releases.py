"""The Transformers engine with releases whose batching is not known."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import transformers

from gpt_oss_harmony.engines import EngineError, Sampling, TransformersEngine
from gpt_oss_harmony.engines.sequential_generation import SequentialGeneration
from gpt_oss_harmony.engines.transformers_engine import TESTED_BATCHING
from support.engine_contract import CHECKS, PATIENCE, PROMPT, SHORT_TURN, Check, sample
from support.shared_model import OPTIONS, completions, write_model

UNTESTED = "5.99.0"
VERSION = "gpt_oss_harmony.engines.transformers_engine.transformers_version"
FIRST, LAST = (tuple(map(int, release.split("."))) for release in TESTED_BATCHING)
RELEASE = tuple(map(int, transformers.__version__.split(".")[:2]))
IS_TESTED = FIRST <= RELEASE <= LAST
SAMPLINGS = {
    "greedy": Sampling(temperature=0, max_tokens=24, logprobs=2),
    "a seed": Sampling(seed=1, top_k=50, max_tokens=24),
    "penalties": Sampling(
        seed=2, top_k=20, frequency_penalty=1, repetition_penalty=1.2, max_tokens=24
    ),
    "a grammar": Sampling(seed=3, top_k=20, max_tokens=40, grammar=SHORT_TURN),
    "a grammar, nothing forced": Sampling(
        seed=3, top_k=20, max_tokens=40, grammar=SHORT_TURN, logprobs=1
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    write_model(folder, tied=False)
    # Settings such as these, from the files of a model, change no completion.
    settings = {"do_sample": True, "eos_token_id": list(range(1000)), "repetition_penalty": 3.0}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture
def is_untested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VERSION, UNTESTED)


def open_with_warnings(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> tuple[TransformersEngine, list[str]]:
    with caplog.at_level(logging.WARNING, "gpt_oss_harmony"):
        engine = TransformersEngine.load(folder, **OPTIONS)
    ours = [record for record in caplog.records if record.name.startswith("gpt_oss_harmony")]
    return engine, [record.getMessage() for record in ours]


def test_the_requirement_allows_all_releases_that_vllm_allows() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert re.findall(r'"transformers>=([^"]*)"', project) == ["5.16.1,<6"]


@pytest.mark.skipif(not IS_TESTED, reason="the batching of this release is not tested")
def test_a_tested_release_runs_requests_at_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine, warnings = open_with_warnings(folder, caplog)
    asyncio.run(engine.close())
    assert warnings == []
    assert engine.skips_forced


@pytest.mark.parametrize("version", ["5.18.9", "5.25.0.dev0", "6.0.0"])
def test_another_release_is_named_in_one_warning(
    version: str, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(VERSION, version)
    engine, warnings = open_with_warnings(folder, caplog)
    asyncio.run(engine.close())
    (warning,) = warnings
    assert warning == (
        f"requests run one after the other, not at once: transformers {version} is installed, and "
        "its batching was not tested (that of 5.19 to 5.24 was). For many requests at once, "
        "install a tested release: pip install 'transformers>=5.19,<5.25'"
    )
    assert not engine.skips_forced


@pytest.mark.skipif(not IS_TESTED, reason="the batching of this release is not tested")
@pytest.mark.parametrize(
    ("name", "arguments", "missing"),
    [
        ("batch_processor.new_place", (), "batch_processor.new_place"),
        ("request.new_place", (), "request.new_place"),
        ("item.new_place", (), "item.new_place"),
        ("batch_processor.update_batch", ("tokens",), r"batch_processor.update_batch\(tokens=\)"),
    ],
)
def test_a_private_name_that_is_missing_is_noticed_when_the_engine_is_opened(
    name: str,
    arguments: tuple[str, ...],
    missing: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from gpt_oss_harmony.engines.private_batching import PRIVATE_NAMES, PrivateName

    monkeypatch.setitem(PRIVATE_NAMES, name, PrivateName("a test", arguments))
    engine, warnings = open_with_warnings(folder, caplog)
    try:
        (warning,) = warnings
        assert re.search(f"and its batching has no {missing}. For", warning)
        sampling = Sampling(temperature=0, max_tokens=3)
        assert len(asyncio.run(sample(engine, sampling))) == 3
    finally:
        asyncio.run(engine.close())


@pytest.mark.skipif(not IS_TESTED, reason="the batching of this release is not tested")
def test_a_sliding_window_that_is_missing_is_noticed_when_the_engine_is_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from gpt_oss_harmony.engines.private_batching import PrivateBatching

    make_room = PrivateBatching.make_room_for_drafts

    def make_room_without_windows(batching: PrivateBatching, longest: int) -> int:
        del batching.cache.cache_allocators["sliding_attention"]
        return make_room(batching, longest)

    monkeypatch.setattr(PrivateBatching, "make_room_for_drafts", make_room_without_windows)
    engine, warnings = open_with_warnings(folder, caplog)
    asyncio.run(engine.close())
    (warning,) = warnings
    assert "and its cache has no sliding window: 'sliding_attention'. For" in warning


@pytest.mark.skipif(not IS_TESTED, reason="the batching of this release is not tested")
def test_a_module_that_is_gone_is_noticed_when_the_engine_is_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in ("continuous_batching", "private_batching"):
        monkeypatch.delitem(sys.modules, f"gpt_oss_harmony.engines.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "transformers.generation.continuous_batching.requests", None)
    engine, warnings = open_with_warnings(folder, caplog)
    asyncio.run(engine.close())
    (warning,) = warnings
    assert "transformers.generation.continuous_batching.requests" in warning


@pytest.fixture(scope="module")
def sequential(folder: Path) -> Iterator[TransformersEngine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VERSION, UNTESTED)
        engine = TransformersEngine.load(folder, name="noise", **OPTIONS)
    yield engine
    asyncio.run(engine.close())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_requests_one_after_the_other_keep_the_contract(
    sequential: TransformersEngine, check: Check
) -> None:
    async def run() -> None:
        await check(sequential)

    asyncio.run(run())


@pytest.mark.slow
@pytest.mark.skipif(not IS_TESTED, reason="the batching of this release is not tested")
def test_both_ways_sample_the_same_tokens(folder: Path, sequential: TransformersEngine) -> None:
    """The attention of the batching sums in another order, so log-probabilities differ a little."""

    async def run() -> None:
        async with TransformersEngine.load(folder, **OPTIONS) as batched:
            greedy = await sample(batched, SAMPLINGS["greedy"])
            stop = Sampling(temperature=0, max_tokens=24, stop_tokens=frozenset([greedy[9].token]))
            for name, sampling in {**SAMPLINGS, "a stop token": stop}.items():
                expected = await sample(batched, sampling)
                found = await sample(sequential, sampling)
                for one, other in zip(found, expected, strict=True):
                    assert one[0] == other[0], name
                    assert one[3:] == other[3:], name
                    assert one.logprob == pytest.approx(other.logprob, abs=1e-4)

    asyncio.run(run())


def test_a_request_waits_for_those_before_it(sequential: TransformersEngine) -> None:
    async def run() -> list[str]:
        ends: list[str] = []

        async def complete(name: str, tokens: int) -> None:
            assert len(await sample(sequential, Sampling(seed=1, max_tokens=tokens))) == tokens
            ends.append(name)

        await asyncio.gather(complete("first", 30), complete("second", 2), complete("third", 1))
        return ends

    assert asyncio.run(run()) == ["first", "second", "third"]


def test_a_request_that_nobody_reads_costs_no_step(
    sequential: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts: list[int] = []
    generate = sequential._model.generate

    def counted(prompt: object, **settings: object) -> object:
        prompts.append(len(prompt[0]))  # type: ignore[index]
        return generate(prompt, **settings)

    monkeypatch.setattr(sequential._model, "generate", counted)

    async def run() -> None:
        sampling = Sampling(seed=1, max_tokens=300)
        tasks = [
            asyncio.ensure_future(_read(sequential, PROMPT + [7] * added, sampling))
            for added in range(3)
        ]
        while not prompts:
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert len(await sample(sequential, Sampling(seed=1, max_tokens=2))) == 2

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert prompts == [len(PROMPT), len(PROMPT)]


async def _read(engine: TransformersEngine, prompt: list[int], sampling: Sampling) -> None:
    await sample(engine, sampling, prompt)


def failing(problem: str) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise ValueError(problem)

    return fail


def test_a_model_that_fails_ends_one_request(
    sequential: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(sequential._model, "forward", failing("no memory"))
            with pytest.raises(EngineError, match="the model failed: no memory"):
                await sample(sequential, Sampling(max_tokens=2))
        with monkeypatch.context() as patch:
            module = "gpt_oss_harmony.engines.torch_sampling"
            patch.setattr(f"{module}.choose_tokens", failing("no token"))
            with pytest.raises(EngineError, match="sampling failed: no token"):
                await sample(sequential, Sampling(max_tokens=2))
        assert (await sequential.health()).ready
        assert len(await sample(sequential, Sampling(max_tokens=2))) == 2

    asyncio.run(run())


@pytest.mark.usefixtures("is_untested")
def test_closing_ends_the_running_and_the_waiting_requests(folder: Path) -> None:
    async def run() -> None:
        engine = TransformersEngine.load(folder, **OPTIONS)
        running = engine.generate(PROMPT, Sampling(max_tokens=300))
        await anext(running)
        waiting = asyncio.ensure_future(sample(engine, Sampling(max_tokens=300)))
        await asyncio.sleep(0.1)
        await engine.close()
        with pytest.raises(EngineError, match="the engine was closed"):
            async for _ in running:
                pass
        with pytest.raises(EngineError, match="the engine was closed"):
            await waiting
        assert not (await engine.health()).ready
        with pytest.raises(EngineError, match="open it again"):
            await sample(engine, Sampling(max_tokens=2))

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_a_release_that_divides_models_in_another_way_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def old_configuration(tp_size: int, tp_plan: object) -> None:
        raise AssertionError

    module = "gpt_oss_harmony.engines.transformers_engine"
    monkeypatch.setattr(f"{module}.DistributedConfig", old_configuration)
    monkeypatch.setenv("WORLD_SIZE", "2")
    problem = f"transformers {re.escape(transformers.__version__)} is installed, .* 2 processes"
    with pytest.raises(EngineError, match=problem):
        TransformersEngine.load(folder, **OPTIONS)


@pytest.mark.slow
@pytest.mark.skipif(RELEASE < FIRST, reason="this release divides models in another way")
def test_two_processes_without_batching_give_the_tokens_of_one(folder: Path) -> None:
    """They meet over gloo, as those of torchrun do."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    source = Path(__file__).parents[2]
    program = (
        "import gpt_oss_harmony.engines.transformers_engine as engine\n"
        f"engine.transformers_version = {UNTESTED!r}\n"
        "from support.shared_model import main\n"
        "main()"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(source / "src"), str(source / "tests")]),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(folder)],
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        (printed, said), (nothing, _) = [process.communicate(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], said
    assert nothing == ""

    async def alone() -> list[list[int]]:
        engine = TransformersEngine.load(folder, **OPTIONS, experts_implementation="grouped_mm")
        async with engine:
            return await completions(engine)

    assert json.loads(printed) == asyncio.run(alone())


def test_the_thread_is_the_only_one_that_computes(sequential: TransformersEngine) -> None:
    assert isinstance(sequential._batching, SequentialGeneration)
    assert sequential._batching.cached_tokens == 0
