"""Completions: prompts as the model reads them, texts and token ids."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from openai.types import Completion

from gpt_oss_harmony.engines import EngineError, FinishReason, Sampling
from gpt_oss_harmony.engines.vllm_engine import VllmEngine
from gpt_oss_harmony.server import Settings
from gpt_oss_harmony.tokens.special_tokens import CALL as CALL_TOKEN
from gpt_oss_harmony.tokens.special_tokens import RETURN
from support.chat_server import CALL, FINAL, THINK, TellingEngine
from support.responses_server import serving
from support.scripted_engine import ENCODING, ScriptedEngine
from support.served import serving as served

PROMPT = "<|start|>user<|message|>hi<|end|><|start|>assistant"
IDS = ENCODING.encode(PROMPT, allowed_special="all")


def encode(text: str) -> list[int]:
    return ENCODING.encode(text, allowed_special="all")


def complete(client: TestClient, **body: Any) -> dict[str, Any]:
    """Ask, and check the answer."""
    answer = client.post("/v1/completions", json={"prompt": PROMPT, **body})
    assert answer.status_code == 200, answer.text
    completion: dict[str, Any] = answer.json()
    Completion.model_validate(completion, strict=True)
    return completion


def chunks(client: TestClient, **body: Any) -> list[dict[str, Any]]:
    answer = client.post("/v1/completions", json={"prompt": PROMPT, **body, "stream": True})
    assert answer.status_code == 200, answer.text
    *events, ending, rest = answer.text.split("\n\n")
    assert (ending, rest) == ("data: [DONE]", "")
    found = [json.loads(event.removeprefix("data: ")) for event in events]
    for chunk in found:
        for choice in chunk.get("choices", ()):
            known = {**choice, "finish_reason": choice["finish_reason"] or "stop"}
            Completion.model_validate({**chunk, "choices": [known]}, strict=True)
    return found


def joined(found: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Join chunks to choices."""
    choices: dict[int, dict[str, Any]] = {}
    for chunk in found:
        for piece in chunk["choices"]:
            choice = choices.setdefault(piece["index"], {"text": "", "finish_reason": None})
            assert choice["finish_reason"] is None
            choice["text"] += piece["text"]
            choice["finish_reason"] = piece["finish_reason"]
            for name, value in (piece["logprobs"] or {}).items():
                choice.setdefault("logprobs", {}).setdefault(name, []).extend(value)
            for name in ("token_ids", "prompt_token_ids"):
                if name in piece:
                    choice.setdefault(name, []).extend(piece[name])
    return choices


@pytest.mark.parametrize("prompt", [PROMPT, [PROMPT], IDS, [IDS]], ids=repr)
def test_prompts_are_texts_or_token_ids(prompt: Any) -> None:
    engine = ScriptedEngine(FINAL, FINAL)
    with serving(engine=engine) as client:
        whole = complete(client, prompt=prompt)
        streamed = joined(chunks(client, prompt=prompt))
    assert engine.prompts == [PROMPT] * 2
    (choice,) = whole["choices"]
    assert choice["text"] == streamed[0]["text"] == "finalHello 🏰 there."
    assert choice["finish_reason"] == streamed[0]["finish_reason"] == "stop"
    assert choice["logprobs"] is None
    assert "token_ids" not in choice
    assert whole["usage"]["prompt_tokens"] == len(IDS)
    assert whole["usage"]["completion_tokens"] == len(encode(FINAL))


def test_special_tokens_are_shown_where_they_are_asked_for() -> None:
    with serving(THINK + CALL, THINK + CALL) as client:
        whole = complete(client, skip_special_tokens=False)["choices"][0]
        streamed = joined(chunks(client, skip_special_tokens=False))[0]
    assert whole["text"] == streamed["text"] == THINK + CALL


def test_token_ids_are_returned_where_they_are_asked_for() -> None:
    with serving(THINK + FINAL, THINK + FINAL) as client:
        whole = complete(client, return_token_ids=True)["choices"][0]
        streamed = joined(chunks(client, return_token_ids=True))[0]
    for choice in (whole, streamed):
        assert choice["prompt_token_ids"] == IDS
        assert choice["token_ids"] == encode(THINK + FINAL)


@pytest.mark.parametrize(
    ("prompt", "skip", "echo"),
    [
        (PROMPT, True, PROMPT),
        (PROMPT, False, PROMPT),
        (IDS, True, "userhiassistant"),
        (IDS, False, PROMPT),
    ],
    ids=repr,
)
def test_the_prompt_is_echoed(prompt: Any, skip: bool, echo: str) -> None:
    with serving(FINAL, FINAL) as client:
        body = {"prompt": prompt, "echo": True, "skip_special_tokens": skip}
        whole = complete(client, **body)["choices"][0]
        streamed = joined(chunks(client, **body))[0]
    assert whole["text"] == streamed["text"]
    assert whole["text"] == echo + (FINAL if not skip else "finalHello 🏰 there.")


def test_stop_texts_and_the_limit() -> None:
    with serving(*[FINAL] * 3) as client:
        stopped = complete(client, stop=[" there"])["choices"][0]
        streamed = joined(chunks(client, stop=" there"))[0]
        cut = complete(client, max_tokens=4)["choices"][0]
    assert stopped["text"] == streamed["text"] == "finalHello 🏰"
    assert stopped["finish_reason"] == streamed["finish_reason"] == "stop"
    assert (cut["text"], cut["finish_reason"]) == ("finalHello", "length")


def test_a_limit_of_nothing_shows_the_prompt_alone() -> None:
    engine = ScriptedEngine()
    body = {"max_tokens": 0, "echo": True, "return_token_ids": True}
    with serving(engine=engine) as client:
        answer = complete(client, **body)
        streamed = joined(chunks(client, **body))[0]
        silent = complete(client, max_tokens=0)["choices"][0]
        metrics = client.get("/metrics").text
    (choice,) = answer["choices"]
    for shown in (choice, streamed):
        assert shown["text"] == PROMPT
        assert (shown["finish_reason"], shown["token_ids"]) == ("length", [])
    assert silent["text"] == ""
    assert answer["usage"]["completion_tokens"] == 0
    assert engine.prompts == []
    assert 'harmony_completions_total{reason="length"} 3.0' in metrics


def test_several_prompts_with_several_choices() -> None:
    engine = ScriptedEngine(*[FINAL, CALL, FINAL, CALL] * 2)
    body = {"prompt": [PROMPT, "<|start|>"], "n": 2, "seed": 1}
    with serving(engine=engine, max_running=3, max_waiting=0) as client:
        whole = complete(client, **body)
        found = chunks(client, **body, stream_options={"include_usage": True})
    assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2, 3]
    assert sorted(engine.prompts[:4]) == ["<|start|>"] * 2 + [PROMPT] * 2
    seeds = {(prompt, sampling.seed) for prompt, sampling in _asked(engine)}
    assert seeds == {(PROMPT, 1), (PROMPT, 2), ("<|start|>", 1), ("<|start|>", 2)}
    assert whole["usage"]["prompt_tokens"] == len(IDS) + 1
    sampled = 2 * len(encode(FINAL)) + 2 * len(encode(CALL))
    assert whole["usage"]["completion_tokens"] == sampled
    assert found[-1]["usage"] == whole["usage"]
    assert found[-1]["choices"] == []
    assert all(chunk["usage"] is None for chunk in found[:-1])


def _asked(engine: ScriptedEngine) -> list[tuple[str, Sampling]]:
    return list(zip(engine.prompts, engine.samplings, strict=True))


def test_log_probabilities_are_lists() -> None:
    with serving(engine=TellingEngine(FINAL, FINAL, FINAL)) as client:
        whole = complete(client, logprobs=2)["choices"][0]
        streamed = joined(chunks(client, logprobs=2))[0]
        by_id = complete(client, logprobs=0, return_tokens_as_token_ids=True)["choices"][0]
    known = whole["logprobs"]
    assert streamed["logprobs"] == known
    assert known["tokens"] == [
        *("<|channel|>", "final", "<|message|>", "Hello", "bytes:\\x20\\xf0\\x9f"),
        *("bytes:\\x8f", "bytes:\\xb0", " there", ".", "<|return|>"),
    ]
    assert known["text_offset"] == [0, 0, 5, 5, 10, 11, 11, 12, 18, 19]
    assert known["token_logprobs"] == [-0.5] * 10
    assert known["top_logprobs"][1] == {"final": -0.5, "!": -9999.0}
    ids = encode(FINAL)
    assert by_id["logprobs"]["tokens"] == [f"token_id:{token}" for token in ids]
    assert by_id["logprobs"]["top_logprobs"][0] == {f"token_id:{ids[0]}": -0.5}


REFUSED: dict[str, tuple[dict[str, Any], int, str | None]] = {
    "another model": ({"model": "gpt"}, 404, "model"),
    "suffix": ({"suffix": "end"}, 400, "suffix"),
    "best_of": ({"best_of": 3}, 400, "best_of"),
    "echo with logprobs": ({"echo": True, "logprobs": 1}, 400, None),
    "too many": ({"prompt": ["a"] * 100, "n": 2}, 400, "n"),
    "an unknown token": ({"prompt": [1, 201089]}, 400, "prompt"),
    "nothing": ({"prompt": ""}, 400, "prompt"),
    "nothing in a list": ({"prompt": ["a", ""]}, 400, "prompt[1]"),
    "no prompts": ({"prompt": []}, 400, "prompt"),
    "a long prompt": ({"prompt": [1] * 1000}, 400, "prompt"),
    "another constraint": ({"structured_outputs": {"regex": "a"}}, 400, "structured_outputs"),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("body", "status", "param"), REFUSED.values(), ids=REFUSED)
def test_errors_before_the_answer(
    body: dict[str, Any], status: int, param: str | None, stream: bool
) -> None:
    with serving(FINAL) as client:
        answer = client.post("/v1/completions", json={"prompt": "a", "stream": stream, **body})
    assert answer.status_code == status
    assert answer.json()["error"]["param"] == param


def test_an_error_within_a_stream_is_a_chunk() -> None:
    with serving("Hello!") as client:
        *found, last = chunks(client)
    assert found
    assert last["error"]["code"] == "engine_unavailable"


def test_settings_reach_the_engine() -> None:
    engine = ScriptedEngine(*[FINAL] * 3)
    with serving(engine=engine) as client:
        complete(client, structured_outputs={"grammar": 'start: "a"'}, top_k=5)
        complete(client, stop_token_ids=[5])
        complete(client, stop_token_ids=[RETURN], ignore_eos=True)
    assert (engine.samplings[0].grammar, engine.samplings[0].top_k) == ('start: "a"', 5)
    assert [sampling.stop_tokens for sampling in engine.samplings] == [
        {RETURN, CALL_TOKEN},
        {RETURN, CALL_TOKEN, 5},
        {RETURN},
    ]


# The server as an engine


def test_the_server_is_an_engine_for_others() -> None:
    inner = TellingEngine(THINK + FINAL, FINAL, FINAL.replace("<|return|>", "!"))
    sampling = Sampling(seed=3, logprobs=2, temperature=0.5)

    async def run(url: str) -> None:
        root = url.removesuffix("/v1")
        async with await VllmEngine.connect(root) as engine:
            assert (engine.model, engine.context_length) == ("script", 1000)
            plain = [one async for one in engine.generate(IDS)]
            assert [one.token for one in plain] == encode(THINK + FINAL)
            assert plain[-1].finish_reason is FinishReason.STOP
            assert plain[-1].cached_tokens == len(IDS) // 2
            told = [one async for one in engine.generate(IDS, sampling)]
            assert [one.logprob for one in told] == [-0.5] * len(told)
            assert told[0].top_logprobs == ((told[0].token, -0.5), (0, -9999.0))
            with pytest.raises(EngineError):
                async for _ in engine.generate(IDS):
                    pass

    with served(inner, Settings()) as url:
        asyncio.run(run(url))
    assert replace(inner.samplings[1], max_tokens=None) == sampling
    assert inner.samplings[0].max_tokens == 1000 - len(IDS)
