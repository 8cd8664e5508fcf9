"""The engine of Transformers keeps the contract; what is its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GptOssConfig, GptOssForCausalLM

from gpt_oss_harmony import Conversation
from gpt_oss_harmony.engines import (
    Engine,
    EngineError,
    FinishReason,
    Sampling,
    TransformersEngine,
    open_engine,
)
from gpt_oss_harmony.grammar import TurnOptions, find_mismatch, turn_grammar
from gpt_oss_harmony.tokens.special_tokens import RETURN
from support.engine_contract import CHECKS, PATIENCE, SHORT_TURN, Check, sample


@pytest.fixture(scope="module")
def transformers_engine(
    loop: asyncio.AbstractEventLoop, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("model")
    config = GptOssConfig(
        num_hidden_layers=2,
        hidden_size=64,
        intermediate_size=64,
        num_local_experts=4,
        num_experts_per_tok=2,
        head_dim=16,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=201_088,
        layer_types=["sliding_attention", "full_attention"],
        max_position_embeddings=4096,
        eos_token_id=RETURN,
        pad_token_id=199_999,
    )
    GptOssForCausalLM(config).save_pretrained(folder)
    engine = TransformersEngine.load(folder, name="noise")
    yield engine
    loop.run_until_complete(engine.close())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_transformers_keeps_the_contract(
    loop: asyncio.AbstractEventLoop, transformers_engine: Engine, check: Check
) -> None:
    async def run() -> None:
        await check(transformers_engine)

    loop.run_until_complete(run())


def test_transformers_outlives_event_loops(transformers_engine: Engine) -> None:
    async def some() -> list[int]:
        tokens = []
        async for sampled in transformers_engine.generate([1, 2], Sampling(seed=1, max_tokens=50)):
            tokens.append(sampled.token)
            if len(tokens) == 5:
                break
        return tokens

    assert asyncio.run(some()) == asyncio.run(some())
    assert asyncio.run(transformers_engine.health()).ready


def test_transformers_says_what_it_runs(transformers_engine: Engine) -> None:
    assert transformers_engine.origin.endswith(", float32 on cpu with 1 thread")


def test_transformers_caches_nothing_for_a_model_with_sliding_windows(
    loop: asyncio.AbstractEventLoop, transformers_engine: Engine
) -> None:
    result = loop.run_until_complete(sample(transformers_engine, Sampling(max_tokens=2)))
    assert [sampled.cached_tokens for sampled in result] == [None, 0]


def test_transformers_does_not_run_the_model_for_what_a_grammar_forces(
    loop: asyncio.AbstractEventLoop, transformers_engine: Engine
) -> None:
    """Where log-probabilities are requested, the same tokens are sampled one by one."""

    async def run() -> None:
        for seed in range(3):
            sampling = Sampling(seed=seed, max_tokens=40, grammar=SHORT_TURN)
            slow = await sample(transformers_engine, replace(sampling, logprobs=0))
            beside = Sampling(seed=9, max_tokens=30)
            fast, _ = await asyncio.gather(
                sample(transformers_engine, sampling), sample(transformers_engine, beside)
            )
            assert [sampled.token for sampled in fast] == [sampled.token for sampled in slow]
            assert any(sampled.is_forced for sampled in fast)
            assert not any(sampled.is_forced for sampled in slow)
            assert all(sampled.logprob is not None for sampled in slow)
        forced = Sampling(grammar='start: <[200005]> "final" <[200008]> <[200002]>')
        (*_, last) = completion = await sample(transformers_engine, forced)
        assert [sampled.token for sampled in completion] == [200005, 17196, 200008, 200002]
        assert all(sampled.is_forced for sampled in completion)
        assert last.finish_reason is FinishReason.STOP

    loop.run_until_complete(run())


def test_transformers_ends_turns_in_time(
    loop: asyncio.AbstractEventLoop, transformers_engine: Engine
) -> None:
    """Random weights write without end; a limit would cut every answer."""
    wanted: dict[str, Any] = {"type": "json_schema", "schema": {"type": "array", "minItems": 1}}
    options = TurnOptions(response_format=wanted, reasoning=False, preambles=False)
    grammar = turn_grammar(Conversation.from_messages([]), options)
    for seed, logprobs in ((1, None), (2, 0)):
        sampling = Sampling(
            seed=seed, max_tokens=40, grammar=grammar, close_in_time=True, logprobs=logprobs
        )
        result = loop.run_until_complete(sample(transformers_engine, sampling))
        tokens = [sampled.token for sampled in result]
        assert result[-1].finish_reason is FinishReason.STOP
        assert find_mismatch(grammar, tokens) is None


def test_transformers_ends_a_completion_at_its_own_stop_tokens_only(
    loop: asyncio.AbstractEventLoop, transformers_engine: Engine
) -> None:
    async def length(**settings: Any) -> int:
        sampling = Sampling(temperature=0, max_tokens=5, **settings)
        completion = await asyncio.wait_for(sample(transformers_engine, sampling), PATIENCE)
        return len(completion)

    async def run() -> None:
        returns = "start: <[200002]> <[200002]> <[200002]>"
        assert await length(grammar=returns, logprobs=0) == 1
        assert await length(grammar=returns, logprobs=0, stop_tokens=frozenset((5,))) == 3
        assert await length(stop_tokens=frozenset()) == 5

    loop.run_until_complete(run())


def test_an_option_that_an_engine_does_not_have_is_an_error(transformers_engine: Engine) -> None:
    folder = transformers_engine.origin.partition(",")[0]
    for model in (folder, "http://127.0.0.1:9"):
        with pytest.raises(EngineError, match="colour"):
            asyncio.run(open_engine(model, colour="red"))


def test_loading_shows_no_progress_where_nobody_looks(
    transformers_engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = transformers_engine.origin.partition(",")[0]
    asyncio.run(TransformersEngine.load(folder).close())
    assert "Loading weights" not in capsys.readouterr().err


def test_a_path_is_a_folder(transformers_engine: Engine, tmp_path: Path) -> None:
    folder = Path(transformers_engine.origin.partition(",")[0])

    async def run() -> None:
        async with await open_engine(folder) as engine:
            assert engine.model == str(folder)
            assert len(await sample(engine, Sampling(max_tokens=2))) == 2

    asyncio.run(run())
    for missing in (tmp_path / "nothing", Path("demo"), Path("somebody/something")):
        with pytest.raises(EngineError, match=f"there is no folder .*{missing}"):
            asyncio.run(open_engine(missing))
