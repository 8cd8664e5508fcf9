"""``harmony generate`` and ``harmony chat``."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony.cli import main
from gpt_oss_harmony.engines import EngineError
from support.scripted_engine import ENCODING, ScriptedEngine
from support.terminals import Terminal, Watched

THINK = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
ANSWER = f"{THINK}<|channel|>final<|message|>4<|return|>"
CALL = '<|channel|>commentary to=functions.now <|constrain|>json<|message|>{"zone":"UTC"}<|call|>'
NOON = "<|channel|>final<|message|>Noon.<|return|>"
COUNTED = " ".join(map(str, range(2000)))
TOOLS = [{"type": "function", "function": {"name": "now"}}]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedEngine]:
    made = ScriptedEngine()

    async def opened(model: str) -> ScriptedEngine:
        if model == "nothing":
            raise EngineError("there is no model 'nothing'")
        return made

    monkeypatch.setattr("gpt_oss_harmony.engines.open_engine", opened)
    yield made
    assert made.closed == bool(made.prompts)


@pytest.fixture
def chat(tmp_path: Path) -> str:
    path = tmp_path / "chat.json"
    messages = [{"role": "user", "content": "What is 2 + 2?"}]
    path.write_text(json.dumps({"messages": messages, "tools": TOOLS, "tool_choice": "none"}))
    return str(path)


def test_generate_writes_messages(
    engine: ScriptedEngine, chat: str, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.completions = [ANSWER]
    assert main(["generate", "demo", chat, "--temperature", "0", "--seed", "7"]) == 0
    assert capsys.readouterr().out == "[assistant · analysis]\nHm.\n\n[assistant · final]\n4\n"
    (sampling,) = engine.samplings
    assert (sampling.temperature, sampling.seed, sampling.top_p) == (0, 7, 1)
    assert sampling.grammar is None


def test_generate_writes_json_and_ids(
    engine: ScriptedEngine, chat: str, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.completions = [ANSWER, ANSWER, ANSWER]
    tokens = ENCODING.encode(ANSWER, allowed_special="all")
    assert main(["generate", "demo", chat, "--format", "ids"]) == 0
    assert capsys.readouterr().out.split() == list(map(str, tokens))
    assert main(["generate", "demo", chat, "--format", "json", "--grammar"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written["tokens"] == tokens
    assert written["finish_reason"] == "stop"
    assert [message["channel"] for message in written["messages"]] == ["analysis", "final"]
    assert (engine.samplings[1].grammar or "").startswith("start: (reasoning | preamble)* answer\n")
    assert main(["generate", "demo", chat, "--max-tokens", "3"]) == 0
    assert "incomplete: the limit of tokens was reached" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nothing"], "error: there is no model 'nothing'"),
    ],
)
def test_problems_are_one_line(
    engine: ScriptedEngine,
    chat: str,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    problem: str,
) -> None:
    model, *options = arguments
    assert main(["generate", model, chat, *options]) == 1
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1


@pytest.fixture
def tools(tmp_path: Path) -> str:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(TOOLS))
    return str(file)


def talk(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lines: str,
    *options: str,
    code: int = 0,
) -> Any:
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert main(["chat", *options]) == code
    return capsys.readouterr()


def test_chat_keeps_the_conversation(
    engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.completions = [ANSWER, NOON]
    output = talk(monkeypatch, capsys, "2 + 2?\n\nand now?\n/history\n", "--reasoning")
    assert output.out.startswith("Hm.\n4\nNoon.\n[user]\n2 + 2?\n[assistant · analysis]\nHm.\n")
    assert output.err == ""
    first, second = engine.prompts
    assert first.endswith("<|start|>user<|message|>2 + 2?<|end|><|start|>assistant")
    assert second.endswith(
        "<|start|>assistant<|channel|>final<|message|>4<|end|>"
        "<|start|>user<|message|>and now?<|end|><|start|>assistant"
    )


def test_chat_has_commands(
    engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.completions = [ANSWER, NOON]
    lines = "/effort high\nhi\n/new\n/effort much\n/nothing\n/help\nhello\n/quit\nmore\n"
    options = ("--instructions", "Be brief.", "--effort", "low")
    output = talk(monkeypatch, capsys, lines, *options, code=1)
    assert "Reasoning: high" in engine.prompts[0]
    assert "# Instructions\n\nBe brief.\n\n# Tools" in engine.prompts[0]
    assert "hi<|end|>" not in engine.prompts[1]
    assert "Reasoning: high" in engine.prompts[1]
    assert "the effort is one of low, medium, high, not 'much'" in output.err
    assert "there is no command /nothing; /help shows all commands" in output.err
    assert "/effort low|medium|high" in output.out


def test_chat_asks_for_the_results_of_calls(
    engine: ScriptedEngine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tools: str,
) -> None:
    engine.completions = [CALL, NOON]
    output = talk(monkeypatch, capsys, "what time is it?\n12:00\n", "--tools", tools)
    assert output.out == '[call of functions.now]\n{"zone":"UTC"}\nNoon.\n'
    assert "type now = () => any;" in engine.prompts[0]
    assert engine.prompts[1].endswith(
        "<|start|>functions.now to=assistant<|channel|>commentary<|message|>12:00<|end|>"
        "<|start|>assistant"
    )


def test_chat_constrains_calls_unless_it_is_told_not_to(
    engine: ScriptedEngine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tools: str,
) -> None:
    for options in (["other"], ["--tools", tools], ["--tools", tools, "--no-grammar"]):
        engine.completions = [NOON]
        talk(monkeypatch, capsys, "hi\n", *options)
    grammars = [sampling.grammar for sampling in engine.samplings]
    assert [grammar and "functions.now" in grammar for grammar in grammars] == [None, True, None]


def test_the_demo_model_has_a_function_and_miscalculates_nothing(
    engine: ScriptedEngine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tools: str,
) -> None:
    engine.completions = [NOON] * 4
    for options in (
        ["demo"],
        ["demo", "--temperature", "1"],
        ["other"],
        ["demo", "--tools", tools],
    ):
        talk(monkeypatch, capsys, "hi\n", *options)
    assert [sampling.temperature for sampling in engine.samplings] == [0, 1, 1, 0]
    has_weather = ["type get_current_weather = (" in prompt for prompt in engine.prompts]
    assert has_weather == [True, True, False, False]


def test_chat_refuses_two_tools_of_one_name_that_differ(
    engine: ScriptedEngine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    tools = tmp_path / "tools.json"
    pair = [{"name": "now", "description": text} for text in "ab"]
    tools.write_text(json.dumps({"messages": [], "tools": pair}))
    output = talk(monkeypatch, capsys, "hi\n", "--tools", str(tools), code=1)
    problem = "tools[1]: 'now' is declared twice, and not alike; remove one"
    assert output.err == f"harmony: error: {tools}: {problem}\n"


def test_chat_tells_once_what_of_a_tool_is_not_enforced(
    engine: ScriptedEngine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([{"name": "now", "parameters": {"type": "objekt"}}]))
    engine.completions = [NOON, NOON]
    output = talk(monkeypatch, capsys, "hi\nhi\n", "--tools", str(tools))
    assert output.out == "Noon.\nNoon.\n"
    assert output.err.count("harmony: warning: ") == 1
    assert "functions.now" in output.err
    engine.completions = [NOON]
    output = talk(monkeypatch, capsys, "hi\n", "--tools", str(tools), "--no-grammar")
    problem = '"objekt" is not the name of a type; write "object"'
    assert output.err == f"harmony: warning: {tools}: {problem}\n"
    assert '"objekt" is not the name of a type' in output.err


def test_chat_goes_on_after_an_error(
    engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.completions = ["<|channel|>final<|message|>Hel!", NOON]
    output = talk(monkeypatch, capsys, "hi\nhello\n", code=1)
    assert output.out == "Hel\nNoon.\n"
    assert "the script breaks off" in output.err
    assert engine.prompts[1].endswith(  # the model sees what it said
        "<|start|>user<|message|>hi<|end|><|start|>assistant<|channel|>final<|message|>Hel<|end|>"
        "<|start|>user<|message|>hello<|end|><|start|>assistant"
    )


@pytest.mark.parametrize(
    ("begun", "shown", "kept"),
    [
        (
            "<|channel|>analysis<|message|>Hm...",
            "Hm...\nstopped (the question is taken back)\n",
            "medium",
        ),
        (
            "<|channel|>final<|message|>Hm...",
            "Hm...\nstopped\n",
            "<|start|>user<|message|>a<|end|>"
            "<|start|>assistant<|channel|>final<|message|>Hm...<|end|>",
        ),
    ],
)
def test_ctrl_c_stops_an_answer(
    engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, begun: str, shown: str, kept: str
) -> None:
    engine.completions = [begun, NOON]
    screen = Watched("...")
    monkeypatch.setattr("sys.stdin", Terminal("a\nb\n"))
    monkeypatch.setattr("sys.stdout", screen)
    assert main(["chat"]) == 0
    assert screen.getvalue() == f"{shown}Noon.\n"
    assert engine.freed == 2
    before = "<|start|>user<|message|>b<|end|><|start|>assistant"
    assert engine.prompts[1].endswith(before)
    assert ("Hm..." in engine.prompts[1]) == kept.endswith("Hm...<|end|>")
    assert kept in engine.prompts[1]
    assert ("<|message|>a<|end|>" in engine.prompts[1]) == ("<|message|>a<|end|>" in kept)


@pytest.mark.parametrize(
    ("completion", "problem"),
    [
        (f"{THINK}<|channel|>analysis<|message|>Well.<|return|>", "the model gave no answer"),
        (f"<|channel|>analysis<|message|>{COUNTED}", "incomplete: the limit of tokens"),
        ("<|channel|>analysis<|message|>" + "hm " * 200, "stopped: the model repeats itself"),
    ],
)
def test_a_turn_without_an_answer_is_taken_back(
    engine: ScriptedEngine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    completion: str,
    problem: str,
) -> None:
    engine.completions = [completion, NOON]
    output = talk(monkeypatch, capsys, "a\nb\n", code=1)
    assert problem in output.err
    assert "(the question is taken back)\nharmony: error: 1 line of the input failed" in output.err
    assert output.out.endswith("Noon.\n")
    assert "<|message|>a<|end|>" not in engine.prompts[1]


def test_a_full_context_names_the_way_out(
    engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.context_length, engine.completions = 400, [NOON]
    error = talk(monkeypatch, capsys, f"hi\n{COUNTED}\n", code=1).err
    assert "shorten the conversation; /new forgets it (the question is taken back)" in error


def test_again_asks_a_question_that_was_taken_back(
    engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.completions = [NOON, f"{THINK}<|channel|>analysis<|message|>Well.<|return|>", NOON]
    output = talk(monkeypatch, capsys, "a\nb\n/again\n/new\n/again\n", code=1)
    assert output.out == "Noon.\nNoon.\n"
    assert engine.prompts[2] == engine.prompts[1]
    assert output.err.endswith(
        "error: there is no question yet\nharmony: error: 2 lines of the input failed; see above\n"
    )


def test_past_reasoning_is_left_out_while_that_of_the_turn_goes_on(
    engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.completions = [ANSWER, f"{THINK}{CALL}", NOON]
    talk(monkeypatch, capsys, "2 + 2?\nand now?\n12:00\n")
    assert [prompt.count("Hm.") for prompt in engine.prompts] == [0, 0, 1]
    assert engine.prompts[2].endswith(
        f"<|start|>assistant{THINK}{CALL}"
        "<|start|>functions.now to=assistant<|channel|>commentary<|message|>12:00<|end|>"
        "<|start|>assistant"
    )


@pytest.mark.slow
def test_loading_is_shown_on_a_terminal_and_to_no_program(
    monkeypatch: pytest.MonkeyPatch, chat: str, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "300")
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    command = ["generate", "demo", chat, "--max-tokens", "1", "--engine", "transformers"]
    assert main(command) == 0
    (folder,) = (tmp_path / "gpt-oss-harmony").iterdir()
    first, second, *bars, last = screen.getvalue().splitlines()
    assert first == "loading demo ..."
    assert second == f"writing the demo model that comes with the package to {folder}, once"
    assert any("Loading weights: 100%" in bar for bar in bars)
    assert re.fullmatch(
        rf"demo: {folder}, float32 on cpu with 1 thread; 4,096 tokens of context", last
    )
    assert logging.getLogger("gpt_oss_harmony.engines").handlers == []
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    assert main(command) == 0
    assert pipe.getvalue() == ""


def test_a_chat_without_its_model_ends(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "/no/such/folder"]) == 1
    assert "there is no folder '/no/such/folder'" in capsys.readouterr().err
