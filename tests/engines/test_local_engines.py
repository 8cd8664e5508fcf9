"""GGUF files and MLX in this process, with the demo model: the contract, and what is their own."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony import Conversation, DeveloperContent, Message, Role, ToolDescription
from gpt_oss_harmony.engines import Engine, EngineError, Sampling, open_engine
from gpt_oss_harmony.engines.demo_model import demo_model_folder
from gpt_oss_harmony.grammar import Matcher, TurnOptions, turn_grammar
from gpt_oss_harmony.installation import requirement
from support.engine_contract import CHECKS, ENCODING, OPEN_PROMPT, PROMPT, SHORT_TURN, Check, sample

WRITER = Path(__file__).parents[2] / "scripts" / "demo_model" / "gguf_file.py"
KINDS = ("gguf", "mlx")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = importlib.util.spec_from_file_location("gguf_file", WRITER)
    assert spec is not None
    assert spec.loader is not None
    writer: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    file = tmp_path_factory.mktemp("gguf") / "demo.gguf"
    writer.write_gguf(demo_model_folder(), file)
    return file


class Engines(dict[str, Engine]):
    """Opens an engine when a test asks for it; a test of one that is not installed is skipped."""

    def __init__(self, loop: asyncio.AbstractEventLoop, file: Path) -> None:
        self.loop, self.file = loop, file

    def __missing__(self, kind: str) -> Engine:
        if kind == "gguf":
            pytest.importorskip("xllamacpp")
            opening = open_engine(self.file, max_requests=4)
        else:
            pytest.importorskip("mlx_lm")
            opening = open_engine("demo", engine="mlx")
        self[kind] = self.loop.run_until_complete(opening)
        return self[kind]


@pytest.fixture(scope="module")
def engines(loop: asyncio.AbstractEventLoop, gguf_file: Path) -> Iterator[Engines]:
    opened = Engines(loop, gguf_file)
    yield opened
    for engine in opened.values():
        loop.run_until_complete(engine.close())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract(
    loop: asyncio.AbstractEventLoop, engines: Engines, kind: str, check: Check
) -> None:
    engine = engines[kind]

    async def run() -> None:
        await check(engine)

    loop.run_until_complete(run())


def prompt_of(text: str) -> list[int]:
    conversation = Conversation.from_messages([Message.from_role_and_content(Role.USER, text)])
    return ENCODING.render_conversation_for_completion(conversation, Role.ASSISTANT)


def tokens_of(
    loop: asyncio.AbstractEventLoop, engine: Engine, sampling: Sampling, prompt: list[int]
) -> list[int]:
    found = loop.run_until_complete(sample(engine, sampling, prompt))
    return [sampled.token for sampled in found]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["What is 27 + 45?", "Hello!", "What is the capital of Peru?"])
def test_all_engines_compute_the_same_model(
    loop: asyncio.AbstractEventLoop, engines: Engines, kind: str, text: str
) -> None:
    greedy, prompt = Sampling(temperature=0, max_tokens=60), prompt_of(text)

    async def run() -> list[int]:
        async with await open_engine("demo") as engine:
            return [sampled.token for sampled in await sample(engine, greedy, prompt)]

    assert tokens_of(loop, engines[kind], greedy, prompt) == asyncio.run(run())


def test_llama_cpp_goes_on_where_it_takes_a_special_token_for_its_text(
    loop: asyncio.AbstractEventLoop, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a JSON string, its grammar allows ``<|end|>``, which a hot model samples."""
    engine: Any = engines["gguf"]
    tool = ToolDescription.new("tell", "Tells", {"type": "object", "required": ["text"],
        "properties": {"text": {"type": "string"}}, "additionalProperties": False})  # fmt: skip
    system = DeveloperContent.new().with_function_tools([tool])
    conversation = Conversation.from_messages([
        Message.from_role_and_content(Role.DEVELOPER, system),
        Message.from_role_and_content(Role.USER, "A story"),
    ])  # fmt: skip
    grammar = turn_grammar(conversation, TurnOptions(tool_choice="required", reasoning=False))
    prompt = ENCODING.render_conversation_for_completion(conversation, Role.ASSISTANT)
    rescued: list[int] = []
    go_on = engine.go_on

    def counted(*given: Any) -> Any:
        rescued.append(len(given[-1]))
        return go_on(*given)

    monkeypatch.setattr(engine, "go_on", counted)
    for seed in range(3):
        sampling = Sampling(temperature=1.8, seed=seed, grammar=grammar, max_tokens=40)
        found = loop.run_until_complete(sample(engine, sampling, prompt))
        tokens = [sampled.token for sampled in found]
        assert Matcher(grammar).accept_all(tokens) == len(tokens)
        assert [bool(one.finish_reason) for one in found] == [False] * (len(found) - 1) + [True]
    assert rescued


def test_they_say_what_they_run(engines: Engines, gguf_file: Path) -> None:
    assert engines["gguf"].origin == f"{gguf_file}, F16 in llama.cpp with 1 thread"
    assert engines["gguf"].context_length == 4096


def test_mlx_says_where_it_runs(engines: Engines) -> None:
    assert engines["mlx"].origin.endswith(("in MLX on the CPU", "in MLX on the GPU"))


def test_mlx_reads_what_a_grammar_forces_at_once(
    loop: asyncio.AbstractEventLoop, engines: Engines
) -> None:
    """Where log-probabilities are requested, the same tokens are sampled one by one."""
    mlx = engines["mlx"]
    for seed in range(3):
        sampling = Sampling(seed=seed, max_tokens=60, grammar=SHORT_TURN)

        async def both(sampling: Sampling = sampling) -> tuple[list[Any], list[Any]]:
            slow = await sample(mlx, replace(sampling, logprobs=0))
            beside = Sampling(seed=9, max_tokens=30)
            fast, _ = await asyncio.gather(sample(mlx, sampling), sample(mlx, beside))
            return slow, fast

        slow, fast = loop.run_until_complete(both())
        assert [sampled.token for sampled in fast] == [sampled.token for sampled in slow]
        assert sum(sampled.is_forced for sampled in fast) > 4
        assert not any(sampled.is_forced for sampled in slow)


def test_mlx_reads_the_prompt_of_the_next_turn_only_once(
    loop: asyncio.AbstractEventLoop, engines: Engines
) -> None:
    mlx, greedy = engines["mlx"], Sampling(temperature=0, max_tokens=8)
    first = prompt_of("What is 12 + 13? " * 20)
    answer = loop.run_until_complete(sample(mlx, greedy, first))
    following = [*first, *(sampled.token for sampled in answer), *prompt_of("And 7 + 8?")]
    warm = loop.run_until_complete(sample(mlx, greedy, following))
    assert answer[-1].cached_tokens == 0
    assert warm[-1].cached_tokens == len(first) + len(answer)
    # A seed is computed without the cache, and gives the same greedy tokens.
    cold = loop.run_until_complete(sample(mlx, replace(greedy, seed=1), following))
    assert cold[-1].cached_tokens == 0
    assert [one.token for one in cold] == [one.token for one in warm]


def test_mlx_scores_as_it_samples(loop: asyncio.AbstractEventLoop, engines: Engines) -> None:
    mlx = engines["mlx"]
    sampled = loop.run_until_complete(
        sample(mlx, Sampling(temperature=0, max_tokens=6, logprobs=1), PROMPT)
    )
    text = [*PROMPT, *(one.token for one in sampled)]
    scored = loop.run_until_complete(mlx.score(text, 1))
    assert [one.token for one in scored] == text
    assert [one.logprob for one in scored[len(PROMPT) :]] == pytest.approx(
        [one.logprob for one in sampled], abs=1e-3
    )


def test_mlx_ends_turns_in_time(loop: asyncio.AbstractEventLoop, engines: Engines) -> None:
    wanted: dict[str, Any] = {"type": "json_schema", "schema": {"type": "array", "minItems": 1}}
    options = TurnOptions(response_format=wanted, reasoning=False, preambles=False)
    grammar = turn_grammar(Conversation.from_messages([]), options)
    sampling = Sampling(seed=1, max_tokens=40, grammar=grammar, close_in_time=True)
    found = loop.run_until_complete(sample(engines["mlx"], sampling))
    assert found[-1].finish_reason == "stop"


def test_broken_weights_are_an_error_and_end_one_request(
    loop: asyncio.AbstractEventLoop, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlx: Any = engines["mlx"]

    class Broken:
        def __call__(self, *given: Any, **named: Any) -> Any:
            raise RuntimeError("no memory")

    generator = mlx._batching._generator
    monkeypatch.setattr(generator, "next", Broken())
    with pytest.raises(EngineError, match="the model failed: no memory"):
        loop.run_until_complete(sample(mlx, Sampling(max_tokens=2)))
    assert len(loop.run_until_complete(sample(mlx, Sampling(max_tokens=2)))) == 2


def test_logits_that_are_no_numbers_end_a_request(
    loop: asyncio.AbstractEventLoop, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlx.core as mx

    engine: Any = engines["mlx"]
    head = engine._batching._model.lm_head
    broken = head.weight * mx.nan
    mx.eval(broken)
    monkeypatch.setattr(head, "weight", broken)
    with pytest.raises(EngineError, match="no token is possible: the model's logits are not num"):
        loop.run_until_complete(sample(engine, Sampling(temperature=0, max_tokens=2)))


def test_a_closed_engine_takes_no_requests(gguf_file: Path) -> None:
    pytest.importorskip("mlx_lm")

    async def run(model: Any, **options: Any) -> None:
        engine = await open_engine(model, **options)
        rambling = engine.generate(OPEN_PROMPT, Sampling(temperature=2, seed=1))
        await anext(rambling)
        await engine.close()
        with pytest.raises(EngineError):
            async for _ in rambling:
                pass
        with pytest.raises(EngineError, match="closed"):
            await sample(engine, Sampling(max_tokens=2))
        assert not (await engine.health()).ready
        await engine.close()

    asyncio.run(run(gguf_file, max_requests=1))
    asyncio.run(run("demo", engine="mlx"))


# Files


def failure(model: Any, **options: Any) -> str:
    with pytest.raises(EngineError) as caught:
        asyncio.run(open_engine(model, **options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_files_that_cannot_be_opened(gguf_file: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(gguf_file.read_bytes()[:-1])
    assert "is cut short: it has" in failure(cut)
    assert "does not have all of the options" in failure(gguf_file, gpu_layer=1)
    assert "context_length must be an integer from 1" in failure(gguf_file, context_length=0)
    assert "has at most 4,096 tokens" in failure(gguf_file, context_length=5000)
    assert "cannot be opened with the engine mlx" in failure(gguf_file, engine="mlx")
    assert "cannot be opened with the engine llamacpp" in failure("demo", engine="llamacpp")
    assert "there is no engine 'vllm'; choose" in failure("demo", engine="vllm")


def test_too_little_memory_is_said_before_loading(
    gguf_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("gguf_engine._free_memory", "mlx_engine._free_memory"):
        monkeypatch.setattr(f"gpt_oss_harmony.engines.{module}", lambda: 10**8)
    expected = "does not fit into the memory: 0.1 GB of weights"
    assert expected in failure(gguf_file)
    assert expected in failure("demo", engine="mlx")


def test_mlx_names_another_model_and_damaged_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert "cannot be opened with the engine mlx" in failure(tmp_path, engine="mlx")
    config = json.loads((demo_model_folder() / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization": {"bits": 4}}))
    assert "MLX cannot load the model" in failure(tmp_path)  # only MLX reads it
    whole = (demo_model_folder() / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:100_000])
    assert "MLX cannot load the model" in failure(tmp_path)


def test_the_self_check_of_mlx_finds_a_wrong_window(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlx_lm")
    from mlx_lm.models import gpt_oss

    asyncio.run(checked())
    monkeypatch.setattr(gpt_oss.Model, "make_cache", forgetful)
    with pytest.raises(EngineError, match="computes other logits for the same tokens at once"):
        asyncio.run(checked())


async def checked() -> None:
    engine = await open_engine("demo", engine="mlx", self_check=True)
    await engine.close()


def forgetful(model: Any) -> list[Any]:
    """Caches that forget too early."""
    from mlx_lm.models.cache import RotatingKVCache

    return [RotatingKVCache(max_size=16) for _ in model.model.layer_types]


def test_a_gguf_file_needs_no_other_engine(gguf_file: Path) -> None:
    program = """
import asyncio, sys
for name in ("numpy", "torch", "transformers", "mlx"):
    sys.modules[name] = None
from gpt_oss_harmony.engines import open_engine
engine = asyncio.run(open_engine(sys.argv[1]))
print(engine.origin)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, gguf_file], check=True, capture_output=True
    )
    assert done.stdout.decode() == f"{gguf_file}, F16 in llama.cpp with 1 thread\n"


def test_without_the_packages_the_extras_are_named(
    gguf_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("xllamacpp", "mlx", "mlx_lm", "mlx.core"):
        monkeypatch.setitem(sys.modules, name, None)
    for module in ("gguf_engine", "mlx_engine", "mlx_batching", "mlx_sampling"):
        monkeypatch.delitem(sys.modules, f"gpt_oss_harmony.engines.{module}", raising=False)
    assert f"pip install {requirement('llamacpp')}" in failure(gguf_file)
    assert f"pip install {requirement('mlx')}" in failure("demo", engine="mlx")
