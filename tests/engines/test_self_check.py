"""The check at the start, with attention that is broken on purpose; and errors in steps."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AttentionInterface, AutoModelForCausalLM, GptOssConfig
from transformers.masking_utils import AttentionMaskInterface

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.engines import (
    EngineError,
    Sampling,
    TransformersEngine,
    batching_memory,
    cpu_model,
    self_check,
)

SIZES: dict[str, Any] = {"context_length": 400, "max_requests": 4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    config = GptOssConfig(
        num_hidden_layers=2,
        hidden_size=32,
        intermediate_size=32,
        num_local_experts=4,
        num_experts_per_tok=2,
        head_dim=16,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=1000,
        sliding_window=64,
        layer_types=["sliding_attention", "full_attention"],
        max_position_embeddings=512,
        initializer_range=0.3,  # with the usual 0.02, the attention of a small model has no effect
    )
    folder = tmp_path_factory.mktemp("model")
    model: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model.save_pretrained(folder)
    return folder


def broken(**changes: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return our attention with some arguments changed."""

    def attend(module: Any, query: Any, key: Any, value: Any, mask: Any, **named: Any) -> Any:
        arguments = {"query": query, "key": key, "value": value, **named}
        for name, change in changes.items():
            arguments[name] = change(arguments.get(name))
        query, key, value = (arguments.pop(name) for name in ("query", "key", "value"))
        return cpu_model._attend(module, query, key, value, mask, **arguments)

    return attend


BROKEN = {
    "no sinks": broken(s_aux=lambda sinks: torch.full_like(sinks, -1e4)),
    "sinks of other heads": broken(s_aux=lambda sinks: sinks.flip(0)),
    "no window": broken(sliding_window=lambda window: None),
    "a window of one token less": broken(sliding_window=lambda window: window and window - 1),
    "another scale": broken(scaling=lambda scaling: scaling * 1.3),
    "values of other heads": broken(value=lambda value: value.flip(1)),
    "queries of other heads": broken(query=lambda query: query.flip(1)),
    "not a number": broken(query=lambda query: query * float("nan")),
}


@pytest.fixture
def attention() -> Iterator[Callable[[Any], None]]:
    name = cpu_model._ATTENTION
    yield lambda function: AttentionInterface.register(name, function)
    AttentionInterface.register(name, cpu_model._attend)
    AttentionMaskInterface.register(name, cpu_model._no_mask)


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_attention_is_found(
    fault: str, folder: Path, attention: Callable[[Any], None]
) -> None:
    attention(BROKEN[fault])
    with pytest.raises(EngineError, match=r"self-check failed: .*harmony_flash") as caught:
        TransformersEngine.load(folder, self_check=True, **SIZES)
    assert "attn_implementation=eager" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_requests_that_see_each_other_are_found_in_a_batch(
    folder: Path, attention: Callable[[Any], None]
) -> None:
    def attend(*arguments: Any, cu_seq_lens_q: Any, **named: Any) -> Any:
        output, none = cpu_model._attend(*arguments, cu_seq_lens_q=cu_seq_lens_q, **named)
        return (output if len(cu_seq_lens_q) == 2 else output.roll(1, dims=1)), none

    attention(attend)
    with pytest.raises(EngineError, match="in a batch"):
        TransformersEngine.load(folder, self_check=True, **SIZES)


@pytest.mark.parametrize("options", [{}, {"attn_implementation": "eager"}, {"dtype": "bfloat16"}])
def test_sound_attention_passes(folder: Path, options: dict[str, Any]) -> None:
    engine = TransformersEngine.load(folder, self_check=True, **SIZES, **options)
    assert len(asyncio.run(sampled(engine, [1, 2, 3]))) == 5


def test_without_the_check_the_engine_starts(
    folder: Path, attention: Callable[[Any], None]
) -> None:
    attention(BROKEN["no sinks"])
    engine = TransformersEngine.load(folder, self_check=False, **SIZES)
    assert len(asyncio.run(sampled(engine, [1, 2, 3]))) == 5


async def sampled(engine: TransformersEngine, prompt: list[int]) -> list[int]:
    async with engine:
        return await completion(engine, prompt)


async def completion(engine: TransformersEngine, prompt: list[int], count: int = 5) -> list[int]:
    sampling = Sampling(temperature=0, max_tokens=count, stop_tokens=frozenset())
    return [token.token async for token in engine.generate(prompt, sampling)]


class Parrot:
    """A model that expects each token to be followed by the one that follows in `text`."""

    device = torch.device("cpu")

    def __init__(self, text: list[int]) -> None:
        self._following = dict(itertools.pairwise(text))

    def __call__(self, inputs: torch.Tensor, *, use_cache: bool) -> Any:
        assert not use_cache
        logits = torch.zeros(1, inputs.shape[1], 201_088)
        for place, token in enumerate(inputs[0].tolist()):
            logits[0, place, self._following.get(token, 0)] = 15
        return SimpleNamespace(logits=logits)


def test_a_model_that_knows_no_language_is_found() -> None:
    """Experts that are laid out wrongly are wrong in the plain model, too."""
    text = load_harmony_encoding("HarmonyGptOss").encode(self_check._TEXT)
    self_check.check_language(Parrot(text))
    for following in (text[::-1], [1, 2]):
        with pytest.raises(EngineError, match="as unlikely as its words in the opposite order"):
            self_check.check_language(Parrot(following))


# Errors in steps

POISON = 999


@pytest.fixture
def fails_at_poison(folder: Path) -> Iterator[TransformersEngine]:
    engine = TransformersEngine.load(folder, **SIZES)
    inner = engine._model.forward

    def forward(input_ids: torch.Tensor, **named: Any) -> Any:
        if POISON in input_ids:
            raise RuntimeError("the forward failed")
        return inner(input_ids, **named)

    engine._model.forward = forward
    yield engine
    asyncio.run(engine.close())


def test_an_error_ends_one_request_and_the_others_go_on(
    fails_at_poison: TransformersEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine = fails_at_poison
    prompts = [[5] * 40, [6, POISON, 7], [8, 9], [10] * 70]

    async def run() -> tuple[list[Any], list[list[int]]]:
        together = await asyncio.gather(
            *(completion(engine, prompt, 30) for prompt in prompts), return_exceptions=True
        )
        alone = [await completion(engine, prompts[at], 30) for at in (0, 2, 3)]
        assert (await engine.health()).ready
        return together, alone

    with caplog.at_level(logging.ERROR):
        together, alone = asyncio.run(run())
    problem = together.pop(1)
    assert isinstance(problem, EngineError)
    assert "the forward failed" in str(problem)
    assert together == alone
    assert "the forward failed" in caplog.text


def test_a_first_step_that_fails_is_the_error_of_the_constructor(
    folder: Path, attention: Callable[[Any], None]
) -> None:
    def attend(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no kernel image is available")

    attention(attend)
    with pytest.raises(EngineError, match="no kernel image is available"):
        TransformersEngine.load(folder, **SIZES)


def test_a_cache_that_cannot_be_made_is_the_error_of_the_constructor(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise MemoryError("the footprint is too large")

    cache = "transformers.generation.continuous_batching.continuous_api.PagedAttentionCache"
    monkeypatch.setattr(cache, refuse)
    with pytest.raises(EngineError, match="KV cache cannot be made: the footprint is too large"):
        TransformersEngine.load(folder, **SIZES)
    assert batching_memory.PAGE == 256


def test_health_names_the_error_that_ended_the_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = TransformersEngine.load(folder, **SIZES)
    private: Any = engine._batching
    recovery = private._batching._recovery

    def fail(*_: Any) -> None:
        raise RuntimeError("the device is lost")

    async def run() -> str:
        monkeypatch.setattr(recovery, "recover", fail)
        engine._model.forward = fail
        with pytest.raises(EngineError, match="the device is lost"):
            await completion(engine, [1, 2])
        private.join()
        with pytest.raises(EngineError, match="the device is lost"):
            await completion(engine, [1, 2])
        return (await engine.health()).detail

    assert "the device is lost" in asyncio.run(run())
