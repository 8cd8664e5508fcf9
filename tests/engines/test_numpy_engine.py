"""gpt-oss in NumPy: the contract of engines, and the same numbers as the model of Transformers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from gpt_oss_harmony import Conversation, Message, Role, load_harmony_encoding
from gpt_oss_harmony.engines import Engine, EngineError, NumpyEngine, Sampling, open_engine
from gpt_oss_harmony.engines.demo_model import demo_config, demo_weights
from gpt_oss_harmony.engines.numpy_engine import NumpyBatching
from gpt_oss_harmony.engines.numpy_model import GptOss
from gpt_oss_harmony.engines.safetensors_file import read_safetensors, write_bfloat16
from support.engine_contract import CHECKS, OPEN_PROMPT, PATIENCE, Check, sample

ENCODING = load_harmony_encoding("HarmonyGptOss")
TOLERANCE = 1e-4  # of log-probabilities
PROMPTS = int(os.environ.get("HARMONY_TEST_TWIN_PROMPTS", "20"))
"""How many prompts of the demo model are compared; 500 take some minutes."""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract(loop: asyncio.AbstractEventLoop, demo: Engine, check: Check) -> None:
    async def run() -> None:
        await check(demo)

    loop.run_until_complete(run())


def test_a_long_prompt_is_read_in_parts_beside_other_requests(
    loop: asyncio.AbstractEventLoop, demo: Engine
) -> None:
    prompt = OPEN_PROMPT * 300  # 1,200 tokens, several steps and windows
    greedy = Sampling(temperature=0, max_tokens=4, logprobs=0)

    async def run() -> tuple[list[Any], list[Any]]:
        alone = await sample(demo, greedy, prompt)
        together = await asyncio.gather(
            sample(demo, greedy, prompt), *(sample(demo, greedy) for _ in range(3))
        )
        return alone, together[0]

    alone, together = loop.run_until_complete(run())
    assert [one.token for one in together] == [one.token for one in alone]
    found, expected = ([one.logprob for one in each] for each in (together, alone))
    assert found == pytest.approx(expected, abs=TOLERANCE)


# Beside Transformers


def question(random: Random) -> str:
    """Something that the demo model knows, or words that it does not."""
    words = ["Peru", "Rome", "tea", "lamp", "river", "seven", "Grüße", "🏰", "don't", "print(1)"]
    return random.choice(
        [
            f"What is {random.randrange(1000)} + {random.randrange(1000)}?",
            f"{random.randrange(100)}+{random.randrange(100)}",
            f"What is the weather in {random.choice(words)}?",
            f"Please add {random.choice(words)} and {random.choice(words)} to my list.",
            random.choice(["Hello!", "Hi", "Good morning", "Thank you", "Bye"]),
            " ".join(random.choices(words, k=random.randrange(1, 200))),
        ]
    )


@pytest.mark.slow
def test_the_demo_model_answers_as_in_transformers(
    loop: asyncio.AbstractEventLoop, demo: Engine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    from gpt_oss_harmony.engines.demo_model import demo_model_folder

    folder = demo_model_folder(tmp_path_factory.getbasetemp().parent)
    # In float32, Transformers itself is up to 1.7e-4 away from its own results in float64.
    options = {"attn_implementation": "eager", "experts_implementation": "eager"}
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, **options)
    random = Random(7)
    for _ in range(PROMPTS):
        asked = Message.from_role_and_content(Role.USER, question(random))
        prompt = ENCODING.render_conversation_for_completion(
            Conversation.from_messages([asked]), Role.ASSISTANT
        )
        sampling = Sampling(temperature=0, max_tokens=80, logprobs=3)
        answer = loop.run_until_complete(sample(demo, sampling, prompt))
        tokens = [*prompt, *(one.token for one in answer)]
        with torch.inference_mode():
            logits = model(torch.tensor([tokens])).logits[0, len(prompt) - 1 : -1]
        logprobs = logits.log_softmax(-1).numpy()
        assert logprobs.argmax(-1).tolist() == [one.token for one in answer]
        for row, one in zip(logprobs, answer, strict=True):
            for token, logprob in ((one.token, one.logprob), *(one.top_logprobs or ())):
                assert row[token] == pytest.approx(logprob, abs=TOLERANCE)


SHAPES: dict[str, dict[str, Any]] = {
    "as gpt-oss": {
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 150_000.0,
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 16,
        }
    },
    "truncated YaRN, tied": {
        "tie_word_embeddings": True,
        "num_experts_per_tok": 1,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10_000.0,
            "factor": 4.0,
            "truncate": True,
            "original_max_position_embeddings": 128,
        },
    },
    "no scaling": {
        "num_key_value_heads": 4,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0},
        "layer_types": ["full_attention", "full_attention", "sliding_attention"],
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_random_models_of_every_shape(shape: str, tmp_path: Path) -> None:
    """Whole, in parts, and several at once."""
    import torch
    from transformers import GptOssConfig, GptOssForCausalLM

    torch.manual_seed(3)
    given = {
        "num_hidden_layers": 3,
        "hidden_size": 48,
        "intermediate_size": 40,
        "num_local_experts": 6,
        "num_experts_per_tok": 3,
        "head_dim": 16,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 500,
        "sliding_window": 6,
        "max_position_embeddings": 512,
        "attn_implementation": "eager",
        "experts_implementation": "eager",
        **SHAPES[shape],
    }
    theirs = GptOssForCausalLM(GptOssConfig(**given))
    with torch.no_grad():
        for name, weight in theirs.named_parameters():
            weight.normal_(0, 1 if "sinks" in name else 0.2)
    theirs.save_pretrained(tmp_path)
    engine = NumpyEngine.load(tmp_path)
    ours: GptOss = engine._batching._model
    random = Random(5)
    texts = [random.choices(range(500), k=length) for length in (1, 7, 90, 300)]
    expected = []
    for text in texts:
        with torch.inference_mode():
            expected.append(theirs(torch.tensor([text])).logits[0].numpy())

    whole = ours.logits(ours.read([(text, ours.new_cache()) for text in texts]))
    last = np.stack([logits[-1] for logits in expected])
    np.testing.assert_allclose(whole, last, atol=TOLERANCE)
    caches = [ours.new_cache() for _ in texts]
    done = [0] * len(texts)
    while any(at < len(text) for at, text in zip(done, texts, strict=True)):
        running = [at for at, text in enumerate(texts) if done[at] < len(text)]
        parts = []
        for at in running:
            part = texts[at][done[at] : done[at] + random.randrange(1, 30)]
            parts.append((part, caches[at]))
            done[at] += len(part)
        found = ours.logits(ours.read(parts))
        for at, logits in zip(running, found, strict=True):
            np.testing.assert_allclose(logits, expected[at][done[at] - 1], atol=TOLERANCE)
    asyncio.run(engine.close())


# Weights and errors


def test_the_rows_are_those_of_the_folder(tmp_path: Path) -> None:
    _, weights, vectors = demo_weights()
    embedding = weights["model.embed_tokens.weight"]
    assert len(embedding) < 16_000
    file = tmp_path / "some.safetensors"
    write_bfloat16(file, {"rows": embedding, "one": embedding[:1, :3]})
    assert file.stat().st_size > 2 * embedding.size
    again = read_safetensors(file.read_bytes())
    assert (again["rows"] == embedding).all()
    assert (again["one"] == embedding[:1, :3]).all()
    assert vectors.max() == len(embedding) - 1


GOOD = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
DAMAGED: dict[str, Any] = {
    "no object": [1],
    "a negative offset": {"a": {**GOOD, "data_offsets": [-16, 16]}},
    "offsets of part of it": {"a": {**GOOD, "data_offsets": [-8, 16], "shape": [2]}},
    "offsets the wrong way": {"a": {**GOOD, "data_offsets": [16, 0]}},
    "an offset after the end": {"a": {**GOOD, "data_offsets": [16, 32]}},
    "a broken offset": {"a": {**GOOD, "data_offsets": [0.0, 16]}},
    "three offsets": {"a": {**GOOD, "data_offsets": [0, 8, 16]}},
    "a negative length": {"a": {**GOOD, "shape": [-1]}},
    "two negative lengths": {"a": {**GOOD, "shape": [-2, -2]}},
    "a small shape": {"a": {**GOOD, "shape": [2]}},
    "a large shape": {"a": {**GOOD, "shape": [2**40, 2**40]}},
    "nothing in a huge shape": {"a": {**GOOD, "shape": [0, 2**70], "data_offsets": [0, 0]}},
    "no shape": {"a": {"dtype": "F32", "data_offsets": [0, 16]}},
}


def safetensors(header: Any) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(16)


@pytest.mark.parametrize("kind", [bytes, memoryview])
def test_damaged_files_of_weights(kind: type[bytes | memoryview]) -> None:
    whole = safetensors({"a": GOOD})
    assert read_safetensors(kind(whole))["a"].tolist() == [[0, 0], [0, 0]]
    contents = {name: safetensors(header) for name, header in DAMAGED.items()}
    contents["a long header"] = b"\xff" * 8 + json.dumps({"a": {**GOOD, "shape": [0]}}).encode()
    contents["a header longer than the file"] = b"\xff" * 8 + b"{}"
    contents["a deep header"] = (10**6).to_bytes(8, "little") + b"[" * 10**6
    contents |= {f"cut at {end}": whole[:end] for end in (0, 4, 8, 40, len(whole) - 1)}
    for name, content in contents.items():
        with pytest.raises(EngineError) as caught:
            read_safetensors(kind(content))
        assert str(caught.value).startswith("a file of weights is damaged: "), name


def failure(model: Any, **options: Any) -> str:
    with pytest.raises(EngineError) as caught:
        asyncio.run(open_engine(model, engine="numpy", **options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_models_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = demo_config()
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "has no weights 'model.embed_tokens.weight'" in failure(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\x40" + bytes(200))
    assert "a file of weights is damaged" in failure(tmp_path)
    header = b'{"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}'
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"x")
    assert "the weights a have the type U8; NumPy reads F32" in failure(tmp_path)
    monkeypatch.setattr("gpt_oss_harmony.engines.numpy_engine.available_memory", lambda: 10)
    assert "needs 0.0 GB of memory in float32, but 0.0 GB are free" in failure(tmp_path)
    quantised = {**config, "quantization_config": {"quant_method": "mxfp4"}}
    (tmp_path / "config.json").write_text(json.dumps(quantised))
    assert "are quantised; use another engine" in failure(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert "cannot be opened with the engine numpy" in failure(tmp_path)
    assert "at most 4,096 tokens, not 5,000" in failure("demo", context_length=5000)
    problem = "does not have all of the options dtype; it has context_length, max_requests"
    assert problem in failure("demo", dtype="float16")


def test_broken_numbers_are_an_error() -> None:
    config, weights, vectors = demo_weights()
    weights["model.norm.weight"] = weights["model.norm.weight"] * np.float32(np.nan)

    async def run() -> None:
        async with NumpyEngine(GptOss(config, weights, vectors), name="broken") as engine:
            await sample(engine, Sampling(max_tokens=2))

    with pytest.raises(EngineError, match="no token is possible: the model's logits are NaN"):
        asyncio.run(run())


def test_a_failing_model_ends_its_requests_and_takes_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        async with NumpyEngine.load() as engine:
            with monkeypatch.context() as patch:
                patch.setattr(GptOss, "logits", lambda *_: 1 / 0)
                with pytest.raises(EngineError, match="the model failed: division by zero"):
                    await sample(engine, Sampling(max_tokens=2))
            assert len(await sample(engine, Sampling(max_tokens=2))) == 2
        with pytest.raises(EngineError, match="closed"):
            await sample(engine, Sampling(max_tokens=2))

    asyncio.run(run())


@pytest.mark.parametrize("method", ["_insert", "_withdraw"])
def test_a_failing_command_ends_the_running_requests(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batching: Any = NumpyBatching

    async def run() -> None:
        async with NumpyEngine.load() as engine:
            greedy = Sampling(max_tokens=1000, stop_tokens=frozenset())
            async with aclosing(engine.generate(OPEN_PROMPT, greedy)) as running:
                await anext(running)
                with monkeypatch.context() as patch:
                    patch.setattr(batching, method, lambda *_: 1 / 0)
                    with contextlib.suppress(EngineError):  # it ends after a token or at once
                        async with aclosing(engine.generate(OPEN_PROMPT, greedy)) as other:
                            await anext(other)
                    with pytest.raises(EngineError, match="the model failed: division by zero"):
                        async for _ in running:
                            pass
            assert len(await sample(engine, Sampling(max_tokens=2))) == 2

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


@pytest.mark.parametrize("broken", ["_close", "_open"])
def test_a_model_that_cannot_begin_again_lets_nobody_wait(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batching: Any = NumpyBatching

    async def run() -> None:
        async with NumpyEngine.load() as engine:
            with monkeypatch.context() as patch:
                patch.setattr(GptOss, "logits", lambda *_: 1 / 0)
                patch.setattr(batching, broken, lambda *_: [][0])
                problem = "the model failed: division by zero|list index out of range"
                with pytest.raises(EngineError, match=problem):
                    await sample(engine, Sampling(max_tokens=2))
                if broken == "_open":
                    while (await engine.health()).ready:
                        await asyncio.sleep(0.01)
                    with pytest.raises(EngineError, match=r"index out of range.*open it again"):
                        await sample(engine, Sampling(max_tokens=2))
            if broken == "_close":
                assert len(await sample(engine, Sampling(max_tokens=2))) == 2

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_the_demo_model_needs_no_other_engine() -> None:
    program = """
import asyncio, sys
for name in ("torch", "transformers", "mlx", "safetensors", "xllamacpp", "huggingface_hub"):
    sys.modules[name] = None
from gpt_oss_harmony.engines import open_engine
print(asyncio.run(open_engine("demo")).origin, flush=True)
import os
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert re.fullmatch("a toy of .*, float32 in NumPy on one core\n", done.stdout.decode())
