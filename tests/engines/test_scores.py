"""Log-probabilities of texts: those of the engines beside the model itself, and in the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony.engines import ContextLengthError, Engine, SampledToken, SamplingError
from gpt_oss_harmony.engines.vllm_engine import VllmEngine
from support.responses_server import serving
from support.scripted_engine import ENCODING, ScriptedEngine

TEXT = "<|start|>user<|message|>What is 27 + 45?<|end|><|start|>assistant<|channel|>final"
TOKENS = ENCODING.encode(TEXT, allowed_special="all")


@pytest.mark.slow
def test_engines_score_as_the_model_does(
    demo: Engine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    from gpt_oss_harmony.engines import TransformersEngine
    from gpt_oss_harmony.engines.demo_model import demo_model_folder

    folder = demo_model_folder(Path(tmp_path_factory.getbasetemp().parent))
    model: Any = AutoModelForCausalLM.from_pretrained(folder, experts_implementation="eager")
    model.eval()
    with torch.no_grad():
        logits = model(torch.tensor([TOKENS])).logits[0].float()
    expected = logits.log_softmax(-1)[:-1].gather(1, torch.tensor(TOKENS[1:])[:, None]).squeeze(1)
    best = logits.argmax(-1)[:-1].tolist()

    async def check(engine: Engine, tolerance: float) -> None:
        first, *rest = await engine.score(TOKENS, 2)
        assert first == SampledToken(TOKENS[0])
        assert [scored.token for scored in rest] == TOKENS[1:]
        logprobs = [scored.logprob for scored in rest]
        assert logprobs == pytest.approx(expected.tolist(), abs=tolerance)
        found = [scored.top_logprobs[0][0] for scored in rest if scored.top_logprobs]
        assert found == best

    async def transformers() -> None:
        async with TransformersEngine.load(folder) as engine:
            await check(engine, 0.02)

    asyncio.run(check(demo, 1e-4))
    asyncio.run(transformers())


def test_the_limits_are_those_of_prompts(demo: Engine) -> None:
    with pytest.raises(SamplingError, match="300000"):
        asyncio.run(demo.score([1, 300_000]))
    with pytest.raises(ContextLengthError):
        asyncio.run(demo.score([1] * (demo.context_length + 1)))


class FakeClient:
    """Answers as vLLM 0.33 does to a request with `prompt_logprobs`."""

    url = "http://vllm"

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    async def ask(self, method: str, path: str, body: Any) -> AsyncGenerator[Any, None]:
        assert (method, path) == ("POST", "/v1/completions")
        self.bodies.append(body)
        listed = [
            None,
            {"5": {"logprob": -2.0, "rank": 3}, "9": {"logprob": -0.5, "rank": 1}},
            {"7": {"logprob": -0.1, "rank": 1}},
        ]
        yield {"choices": [{"text": "", "prompt_logprobs": listed}]}


def test_vllm_scores_with_the_prompt() -> None:
    client = FakeClient()
    engine = VllmEngine(client, "m", 100)  # type: ignore[arg-type]
    assert asyncio.run(engine.score([3, 5, 7], 1)) == [
        SampledToken(3),
        SampledToken(5, -2.0, ((9, -0.5),)),
        SampledToken(7, -0.1, ((7, -0.1),)),
    ]
    assert client.bodies[0]["prompt_logprobs"] == 1
    assert "stream" not in client.bodies[0]


# In the API


class ScoringEngine(ScriptedEngine):
    """Gives each token a log-probability by its place."""

    async def score(self, tokens: Sequence[int], logprobs: int = 0) -> list[SampledToken]:
        first, *rest = tokens
        scored = [
            SampledToken(token, -float(at), ((token, -float(at)),)[:logprobs])
            for at, token in enumerate(rest, start=1)
        ]
        return [SampledToken(first), *scored]


@pytest.mark.parametrize("prompt", ["Hi there", ENCODING.encode("Hi there")])
def test_echo_with_logprobs(prompt: Any) -> None:
    body = {"prompt": prompt, "echo": True, "logprobs": 1, "max_tokens": 1}
    with serving(engine=ScoringEngine("you", "you")) as client:
        (choice,) = client.post("/v1/completions", json=body).json()["choices"]
        streamed = client.post("/v1/completions", json={**body, "stream": True}).text
    assert choice["text"] == "Hi thereyou"
    logprobs = choice["logprobs"]
    assert logprobs["tokens"] == ["Hi", " there", "you"]
    assert logprobs["token_logprobs"][:2] == [None, -1.0]
    assert logprobs["top_logprobs"][:2] == [None, {" there": -1.0}]
    assert logprobs["text_offset"] == [0, 2, 8]
    assert '"token_logprobs":[null,-1.0,' in streamed


def test_a_prompt_is_scored_without_a_completion() -> None:
    engine = ScoringEngine()
    body = {"prompt": "Hi there", "echo": True, "logprobs": 1, "max_tokens": 0}
    with serving(engine=engine) as client:
        (choice,) = client.post("/v1/completions", json=body).json()["choices"]
        streamed = client.post("/v1/completions", json={**body, "stream": True}).text
    assert choice["text"] == "Hi there"
    assert choice["logprobs"]["tokens"] == ["Hi", " there"]
    assert choice["logprobs"]["token_logprobs"] == [None, -1.0]
    assert '"token_logprobs":[null,-1.0]' in streamed
    assert engine.prompts == []


def test_an_engine_that_cannot_says_so() -> None:
    body = {"prompt": "Hi", "echo": True, "logprobs": 1}
    with serving("you") as client:
        answer = client.post("/v1/completions", json=body)
    assert answer.status_code == 400
    assert "script returns no log-probabilities of prompts; use vLLM" in answer.text


def test_the_routes_that_harnesses_use() -> None:
    with serving() as client:
        asked = {"prompt": TEXT, "add_special_tokens": False, "return_token_strs": True}
        encoded = client.post("/tokenize", json=asked).json()
        decoded = client.post("/detokenize", json={"tokens": encoded["tokens"]}).json()
        wrong = client.post("/detokenize", json={"tokens": [-1]})
        info = client.get("/tokenizer_info").json()
    assert encoded["tokens"] == TOKENS
    assert (encoded["count"], encoded["max_model_len"]) == (len(TOKENS), 1000)
    assert "".join(encoded["token_strs"]) == TEXT
    assert decoded == {"prompt": TEXT}
    assert wrong.status_code == 400
    assert info["eos_token"] == "<|return|>"
