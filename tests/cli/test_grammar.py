"""``harmony grammar`` and ``harmony check``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony.cli import main

CHAT = {
    "messages": [{"role": "user", "content": "What is the weather?"}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}},
                    "required": ["city"],
                },
            },
        }
    ],
}
CALL = '<|channel|>commentary to=functions.get_weather<|message|>{"city":"SF"}<|call|>'
SAY = "<|channel|>final<|message|>Sunny.<|return|>"


@pytest.fixture
def chat(tmp_path: Path) -> Any:
    def write(**fields: Any) -> str:
        path = tmp_path / "chat.json"
        path.write_text(json.dumps({**CHAT, **fields}))
        return str(path)

    return write


def test_the_grammar_is_printed(chat: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grammar", chat()]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("start: (reasoning | preamble)* (answer | call_0)\n")
    assert '" to=functions.get_weather"' in printed
    assert main(["grammar", chat(), "--tool-choice", "get_weather", "--no-reasoning"]) == 0
    assert capsys.readouterr().out.startswith("start: preamble* call_0\n")
    assert main(["grammar", chat(tool_choice="none"), "--reasoning-tokens", "7"]) == 0
    assert "thought[max_tokens=7]: TEXT" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("fields", "completion", "options", "code", "said"),
    [
        ({}, CALL, [], 0, "a whole turn of 15 tokens"),
        ({}, SAY, [], 0, "a whole turn of 6 tokens"),
        ({}, "200005 17196 200008 12194 200002", [], 0, "a whole turn of 5 tokens"),
        ({"tool_choice": "required"}, CALL, [], 0, "a whole turn"),
        (
            {"tool_choice": "required"},
            SAY,
            [],
            1,
            "token 1 ('final') leaves the grammar after '<|channel|>'; allowed there: ",
        ),
        ({"tool_choice": "required"}, SAY, ["--tool-choice", "auto"], 0, "a whole turn"),
        ({}, CALL, ["--tool-choice", "none"], 1, "leaves the grammar"),
        ({}, "hi", [], 1, "token 0 ('hi') leaves the grammar at the beginning; allowed there: "),
        (
            {},
            SAY + SAY,
            [],
            1,
            "after '<|channel|>final<|message|>Sunny.<|return|>'; the turn ended",
        ),
        ({}, SAY.replace("return", "call"), [], 1, "'; allowed there: '<|return|>', '!', "),
        ({}, CALL[:-8], [], 1, "the completion ends before the turn does, after"),
        ({}, "12 " + "9" * 19, [], 2, "expected token ids"),
        ({"response_format": {"type": "jsn"}}, SAY, [], 2, "response_format.type: expected"),
        ({}, SAY, ["--tool-choice", "nothing"], 2, "--tool-choice: 'nothing' is not declared"),
        ({"response_format": {"type": "json_object"}}, SAY, [], 1, "token 3 ('Sunny') leaves"),
        ({"response_format": {"type": "json_object"}}, "{FINAL}{}<|return|>", [], 1, "token 0"),
    ],
)
def test_completions_are_checked(
    chat: Any,
    capsys: pytest.CaptureFixture[str],
    fields: dict[str, Any],
    completion: str,
    options: list[str],
    code: int,
    said: str,
) -> None:
    assert main(["check", chat(**fields), "--completion", completion, *options]) == code
    output = capsys.readouterr()
    assert said in (output.err if code else output.out)


def test_a_completion_may_stand_in_a_file(
    chat: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "completion.txt"
    file.write_text(SAY + "\n")
    assert main(["check", chat(), "--completion-file", str(file)]) == 0
    assert main(["check", chat(), "--completion-file", str(tmp_path / "none")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "none.json"), "--completion", SAY]) == 2
    assert main(["check", chat()]) == 2
