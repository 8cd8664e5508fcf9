"""Tokens: a request to what the model reads, what the model wrote to messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony.cli import main
from support.chat_server import CALL, FINAL, HI, NOW, PREAMBLE, THINK
from support.responses_server import serving
from support.scripted_engine import ENCODING, ScriptedEngine

CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What time is it?"},
    {
        "role": "assistant",
        "reasoning": "I ask.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "12:00"},
]


def encode(text: str) -> list[int]:
    return ENCODING.encode(text, allowed_special="all")


def test_a_chat_is_rendered_as_it_is_sampled() -> None:
    engine = ScriptedEngine(FINAL)
    body = {"messages": CONVERSATION, "tools": [NOW], "reasoning_effort": "low"}
    with serving(engine=engine) as client:
        rendered = client.post("/v1/tokens/render", json=body).json()
        client.post("/v1/chat/completions", json=body)
    assert engine.prompts == [rendered["text"]]
    _check(rendered)
    kinds = [(segment["message"], segment["kind"]) for segment in rendered["segments"]]
    assert kinds[-1] == (6, "header")


def test_a_begun_answer_is_rendered_as_it_is_sampled() -> None:
    engine = ScriptedEngine(" answer.<|return|>")
    body = {
        "messages": [*HI, {"role": "assistant", "content": "The"}],
        "continue_final_message": True,
        "add_generation_prompt": False,
    }
    with serving(engine=engine) as client:
        rendered = client.post("/v1/tokens/render", json=body).json()
        usage = client.post("/v1/chat/completions", json=body).json()["usage"]
    assert engine.prompts == [rendered["text"]]
    assert rendered["count"] == usage["prompt_tokens"]
    _check(rendered)
    assert [one["kind"] for one in rendered["segments"][-2:]] == ["header", "body"]


def test_both_apis_are_rendered_alike() -> None:
    with serving() as client:
        chat = client.post("/v1/tokens/render", json={"messages": HI}).json()
        response = client.post("/v1/tokens/render", json={"input": "hi"}).json()
        count = client.post("/v1/responses/input_tokens", json={"input": "hi"}).json()
    assert chat == response
    assert count["input_tokens"] == chat["count"]


@pytest.mark.parametrize("said", [THINK + CALL, PREAMBLE + CALL, FINAL], ids=repr)
def test_what_was_sampled_keeps_its_tokens(said: str) -> None:
    engine = ScriptedEngine(said, FINAL)
    tools = [{"type": "function", "name": "now"}]
    with serving(engine=engine) as client:
        first = client.post("/v1/responses", json={"input": "hi", "tools": tools}).json()
        last = first["output"][-1]
        answer: dict[str, Any] = {"role": "user", "content": "Go on."}
        if last["type"] == "function_call":
            answer = {
                "type": "function_call_output",
                "call_id": last["call_id"],
                "output": "12:00",
            }
        body = {"previous_response_id": first["id"], "input": [answer], "tools": tools}
        rendered = client.post("/v1/tokens/render", json=body).json()
        client.post("/v1/responses", json=body)
    assert engine.prompts[1] == rendered["text"]
    _check(rendered)


def _check(rendered: dict[str, Any]) -> None:
    segments = rendered["segments"]
    assert "".join(segment["text"] for segment in segments) == rendered["text"]
    assert [token for one in segments for token in one["tokens"]] == rendered["tokens"]
    assert all(ENCODING.decode(one["tokens"]) == one["text"] for one in segments)
    assert rendered["count"] == len(rendered["tokens"])


def test_the_command_prints_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "chat.json"
    file.write_text(json.dumps({"messages": HI}))
    style = ["--header-style", "guide", "--date", "2025-06-28"]
    assert main(["render", str(file), "--format", "json", *style]) == 0
    printed = json.loads(capsys.readouterr().out)
    with serving(current_date="2025-06-28") as client:
        rendered = client.post("/v1/tokens/render", json={"messages": HI}).json()
    assert rendered == {**printed, "count": len(printed["tokens"])}
    file.write_text(THINK + FINAL)
    assert main(["parse", str(file), "--format", "json", "--lenient"]) == 0
    printed = json.loads(capsys.readouterr().out)
    with serving() as client:
        parsed = client.post("/v1/tokens/parse", json={"text": THINK + FINAL}).json()
    assert parsed == {**printed, "count": len(encode(THINK + FINAL))}


@pytest.mark.parametrize("as_text", [False, True])
def test_tokens_and_texts_are_parsed(as_text: bool) -> None:
    body = {"text": THINK + CALL} if as_text else {"tokens": encode(THINK + CALL)}
    with serving() as client:
        parsed = client.post("/v1/tokens/parse", json={**body, "strict": True}).json()
    assert [message["channel"] for message in parsed["messages"]] == ["analysis", "commentary"]
    assert parsed["messages"][1]["recipient"] == "functions.now"
    assert parsed["recoveries"] == []
    assert not parsed["incomplete"]


def test_a_whole_prompt_is_parsed_without_a_role() -> None:
    prompt = "<|start|>user<|message|>hi<|end|>"
    with serving() as client:
        parsed = client.post("/v1/tokens/parse", json={"text": prompt, "role": None}).json()
    assert parsed["messages"][0]["role"] == "user"


def test_broken_markup_is_repaired_unless_it_must_not_be() -> None:
    broken = "<|channel|>final Hello.<|return|>"
    with serving() as client:
        parsed = client.post("/v1/tokens/parse", json={"text": broken}).json()
        refused = client.post("/v1/tokens/parse", json={"text": broken, "strict": True})
        cut = client.post("/v1/tokens/parse", json={"text": THINK + "<|channel|>final"}).json()
        named = client.post(
            "/v1/tokens/parse",
            json={"text": CALL.replace("functions.now", "now"), "tools": ["functions.now"]},
        ).json()
    assert [recovery["kind"] for recovery in parsed["recoveries"]] == ["missing-message"]
    assert parsed["messages"][0]["content"][0]["text"] == "Hello."
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "invalid_markup"
    assert "set strict to false" in refused.json()["error"]["message"]
    assert cut["incomplete"]
    assert named["messages"][0]["recipient"] == "functions.now"


REFUSED: dict[str, tuple[str, Any, int, str | None]] = {
    "another model": ("render", {"messages": HI, "model": "gpt"}, 404, "model"),
    "no messages": ("render", {"messages": []}, 400, "messages"),
    "a bad input": ("render", {"input": [{"type": "x"}]}, 400, None),
    "a list": ("render", [], 400, None),
    "nothing": ("parse", {}, 400, None),
    "both": ("parse", {"text": "a", "tokens": [1]}, 400, None),
    "an unknown token": ("parse", {"tokens": [201089], "strict": True}, 400, "tokens"),
    "no token": ("parse", {"tokens": ["a"]}, 400, "tokens[0]"),
    "an unknown role": ("parse", {"text": "", "role": "bot"}, 400, "role"),
}


@pytest.mark.parametrize(("path", "body", "status", "param"), REFUSED.values(), ids=REFUSED)
def test_errors(path: str, body: Any, status: int, param: str | None) -> None:
    with serving() as client:
        answer = client.post(f"/v1/tokens/{path}", json=body)
    assert answer.status_code == status, answer.text
    if param is not None:
        assert answer.json()["error"]["param"] == param
