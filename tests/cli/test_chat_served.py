"""``harmony chat URL`` with our own server: reasoning, a call and its result, keys, errors."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from gpt_oss_harmony.cli import main
from gpt_oss_harmony.server import Settings
from support.scripted_engine import ScriptedEngine
from support.served import serving

CALL = (
    "<|channel|>analysis<|message|>I need the time.<|end|><|start|>assistant"
    '<|channel|>commentary to=functions.now <|constrain|>json<|message|>{"zone":"UTC"}<|call|>'
)
NOON = "<|channel|>final<|message|>It is noon.<|return|>"
THANKS = "<|channel|>final<|message|>You are welcome.<|return|>"


def chat(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lines: str,
    *arguments: str,
) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    code = main(["chat", *arguments])
    return code, *capsys.readouterr()


def test_a_conversation_with_a_tool(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps({"name": "now", "parameters": {"type": "object"}}))
    engine = ScriptedEngine(CALL, NOON, THANKS)
    with serving(engine) as url:
        code, out, err = chat(
            monkeypatch,
            capsys,
            "What time is it?\n12:00\nThank you.\n",
            url,
            "--tools",
            str(tools),
            "--reasoning",
        )
    assert code == 0, err
    assert out.split("\n") == [
        "I need the time.",
        "[call of functions.now]",
        '{"zone":"UTC"}',
        "It is noon.",
        "You are welcome.",
        "",
    ]
    first, second, third = engine.prompts
    # The reasoning is kept while the turn goes on, and left out once it was answered.
    assert second.startswith(first + CALL)
    assert "functions.now to=assistant<|channel|>commentary<|message|>12:00<|end|>" in second
    assert "I need the time." not in third
    assert "It is noon." in third


def test_the_server_asks_for_its_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with serving(ScriptedEngine(NOON), Settings(api_keys=("secret",))) as url:
        code, _, err = chat(monkeypatch, capsys, "Hello\n", url)
        assert code == 1
        assert "401" in err
        assert err.count("\n") == 1
        code, out, _ = chat(monkeypatch, capsys, "Hello\n", url, "--api-key", "secret")
        assert (code, out) == (0, "It is noon.\n")


def test_a_prompt_beyond_the_context_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(ScriptedEngine(NOON)) as url:
        code, out, err = chat(monkeypatch, capsys, f"{'word ' * 2000}\nHello\n", url)
    assert code == 1
    assert "maximum context length is 1000 tokens" in err
    assert out == "It is noon.\n"
