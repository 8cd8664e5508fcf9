"""Coding agents from npm: sessions of several turns with their own tools, and their compaction.

The model is a script; each of its completions must be one that the grammar of its turn allows.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony.grammar import Matcher
from gpt_oss_harmony.server import Settings
from support.scripted_engine import ENCODING
from support.served import PATIENCE, serving
from support.server_tools import RoomyEngine, answer

FOLDER = Path(__file__).parents[1] / "clients" / "agents"
MODEL = "gpt-5.5"  # codex gives this one its tool with a grammar, which others do not get
BROKEN = "def add(a, b):\n    return a - b\n"
LOOK = "cat calc.py; seq 1 3000"
PATCH = """*** Begin Patch
*** Update File: calc.py
@@
 def add(a, b):
-    return a - b
+    return a + b
*** End Patch"""
THOUGHT = "<|channel|>analysis<|message|>I use a tool.<|end|><|start|>assistant"


def use(name: str, **arguments: Any) -> str:
    header = f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>"
    return f"{THOUGHT}{header}{json.dumps(arguments)}<|call|>"


@pytest.fixture
def engine() -> RoomyEngine:
    return RoomyEngine(room=100_000)


@pytest.fixture
def url(engine: RoomyEngine) -> Iterator[str]:
    with serving(engine, Settings(model_names=(MODEL,))) as url:
        yield url


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "calc.py").write_text(BROKEN)
    return folder


def program(name: str) -> str:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    if not (FOLDER / "node_modules" / ".installed").exists():
        pytest.skip("the agents are missing; run: make coding-agents")
    return str(FOLDER / "node_modules" / ".bin" / name)


def run(command: list[str], folder: Path, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Run an agent, and return the events that it writes."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def check_script(engine: RoomyEngine, completions: list[str]) -> None:
    """All was asked for, and the grammars of the turns allow what was sampled."""
    assert engine.completions == []
    assert len(engine.samplings) == len(completions)
    for sampling, completion in zip(engine.samplings, completions, strict=True):
        tokens = ENCODING.encode(completion, allowed_special="all")
        if sampling.grammar is not None:
            assert Matcher(sampling.grammar).accept_all(tokens) == len(tokens), completion


def test_codex(engine: RoomyEngine, url: str, project: Path, tmp_path: Path) -> None:
    codex = program("codex")
    home = tmp_path / "codex"
    home.mkdir()
    settings = {
        "model": MODEL,
        "model_provider": "local",
        "approval_policy": "never",
        "sandbox_mode": "danger-full-access",
        "model_auto_compact_token_limit": 9000,
    }
    provider = {"name": "local", "base_url": url, "wire_api": "responses"}
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    lines += ["[model_providers.local]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in provider.items()]
    (home / "config.toml").write_text("\n".join(lines))
    completions = [
        use("exec_command", cmd=LOOK),
        answer("calc.py subtracts."),  # the summary that codex asks for, with a full context
        f"<|channel|>commentary to=functions.apply_patch code<|message|>{PATCH}<|call|>",
        answer("Done."),
        use("exec_command", cmd="python3 -c 'import calc; print(calc.add(2, 3))'"),
        answer("It says 5."),
    ]
    engine.completions = [*completions]
    command = [codex, "exec", "--skip-git-repo-check", "--json"]
    environment = {"CODEX_HOME": str(home)}
    run([*command, "Repair calc.py."], project, environment)
    assert (project / "calc.py").read_text() == BROKEN.replace("-", "+")
    events = run([*command, "resume", "--last", "Does it add?"], project, environment)
    said = [event["item"] for event in events if event["type"] == "item.completed"]
    assert said[-1]["text"] == "It says 5."
    assert "5" in said[-2]["aggregated_output"]
    check_script(engine, completions)
    assert "CONTEXT CHECKPOINT COMPACTION" in engine.prompts[1]
    assert "2999" in engine.prompts[1]
    assert "2999" not in engine.prompts[2]
    assert "calc.py subtracts." in engine.prompts[2]
    assert f"to=functions.apply_patch code<|message|>{PATCH}<|call|>" in engine.prompts[5]


def test_pi(engine: RoomyEngine, url: str, project: Path, tmp_path: Path) -> None:
    """It speaks Chat Completions."""
    pi = program("pi")
    home = tmp_path / "pi"
    home.mkdir()
    model = {"id": MODEL, "reasoning": True, "contextWindow": 10_000, "maxTokens": 2000}
    provider = {"baseUrl": url, "api": "openai-completions", "apiKey": "none", "models": [model]}
    (home / "models.json").write_text(json.dumps({"providers": {"local": provider}}))
    compaction = {"enabled": True, "reserveTokens": 3500, "keepRecentTokens": 500}
    (home / "settings.json").write_text(json.dumps({"compaction": compaction}))
    completions = [
        use("bash", command=LOOK),
        use("edit", path="calc.py", edits=[{"oldText": "a - b", "newText": "a + b"}]),
        answer("Done."),
        answer("calc.py was repaired."),  # the summary that pi asks for, with a full context
        answer("It was."),
    ]
    engine.completions = [*completions]
    command = [pi, "-p", "--offline", "--mode", "json", "--provider", "local", "--model", MODEL]
    environment = {"PI_CODING_AGENT_DIR": str(home), "HOME": str(home)}
    run([*command, "--thinking", "high", "Repair calc.py."], project, environment)
    assert (project / "calc.py").read_text() == BROKEN.replace("-", "+")
    events = run([*command, "--continue", "Was it wrong?"], project, environment)
    assert events[-1]["messages"][-1]["content"][0]["text"] == "It was."
    check_script(engine, completions)
    assert "Reasoning: high" in engine.prompts[0]
    assert "2999" in engine.prompts[2]
    assert "2999" not in engine.prompts[4]
    assert "calc.py was repaired." in engine.prompts[4]


def test_claude_code(engine: RoomyEngine, url: str, project: Path, tmp_path: Path) -> None:
    """It speaks Anthropic's Messages, and sends reasoning back with the results of its tools."""
    claude = program("claude")
    home = tmp_path / "claude"
    home.mkdir()
    path = str(project / "calc.py")
    completions = [
        use("Read", file_path=path),
        use("Edit", file_path=path, old_string="a - b", new_string="a + b"),
        answer("Done."),
        answer("It was."),
    ]
    engine.completions = [*completions]
    command = [claude, "--output-format", "stream-json", "--verbose", "--allowedTools=Read,Edit"]
    environment = {
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": url.removesuffix("/v1"),
        "ANTHROPIC_AUTH_TOKEN": "none",
        "ANTHROPIC_MODEL": MODEL,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": MODEL,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    }
    events = run([*command, "-p", "Repair calc.py."], project, environment)
    assert (project / "calc.py").read_text() == BROKEN.replace("-", "+")
    assert (events[-1]["result"], events[-1]["is_error"]) == ("Done.", False)
    events = run([*command, "--continue", "-p", "Was it wrong?"], project, environment)
    assert events[-1]["result"] == "It was."
    check_script(engine, completions)
    first, second, third, last = engine.prompts
    assert "return a - b" in second
    assert second.startswith(first + THOUGHT)  # the cache has all that was read and sampled
    assert THOUGHT in third
    assert THOUGHT not in last  # past reasoning
