"""Coding agents from npm: sessions of several turns with their own tools, and their compaction.

The model is a script; each of its completions must be one that the grammar of its turn allows.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony.server import Settings
from support.agent_sessions import BROKEN, REPAIRED, THOUGHT, check_script, run, use
from support.served import serving
from support.server_tools import RoomyEngine, answer

FOLDER = Path(__file__).parents[1] / "clients" / "agents"
MODEL = "gpt-5.5"  # codex gives this one its tool with a grammar, which others do not get
LOOK = "cat calc.py; seq 1 3000"
PATCH = """*** Begin Patch
*** Update File: calc.py
@@
 def add(a, b):
-    return a - b
+    return a + b
*** End Patch"""


@pytest.fixture
def engine() -> RoomyEngine:
    return RoomyEngine(room=100_000)


@pytest.fixture
def url(engine: RoomyEngine) -> Iterator[str]:
    with serving(engine, Settings(model_names=(MODEL, "gpt-oss"))) as url:
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


def events_of(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Run an agent, and return the events that it writes."""
    lines = run(command, folder, environment).splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


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
        "web_search": "disabled",
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
    events_of([*command, "Repair calc.py."], project, environment)
    assert (project / "calc.py").read_text() == REPAIRED
    events = events_of([*command, "resume", "--last", "Does it add?"], project, environment)
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
    events_of([*command, "--thinking", "high", "Repair calc.py."], project, environment)
    assert (project / "calc.py").read_text() == REPAIRED
    events = events_of([*command, "--continue", "Was it wrong?"], project, environment)
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
    events = events_of([*command, "-p", "Repair calc.py."], project, environment)
    assert (project / "calc.py").read_text() == REPAIRED
    assert (events[-1]["result"], events[-1]["is_error"]) == ("Done.", False)
    events = events_of([*command, "--continue", "-p", "Was it wrong?"], project, environment)
    assert events[-1]["result"] == "It was."
    check_script(engine, completions)
    first, second, third, last = engine.prompts
    assert "return a - b" in second
    assert second.startswith(first + THOUGHT)  # the cache has all that was read and sampled
    assert THOUGHT in third
    assert THOUGHT not in last  # past reasoning


def test_opencode(engine: RoomyEngine, url: str, project: Path, tmp_path: Path) -> None:
    """It speaks Chat Completions by the AI SDK, and sends reasoning back while it calls."""
    opencode = program("opencode")
    path = str(project / "calc.py")
    model = {"reasoning": True, "tool_call": True, "limit": {"context": 100_000, "output": 8000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": url, "apiKey": "none"},
        "models": {"gpt-oss": model},  # those named gpt-5 get another tool than `edit`
    }
    settings = {"provider": {"local": provider}, "model": "local/gpt-oss", "permission": "allow"}
    completions = [
        use("read", filePath=path),
        use("edit", filePath=path, oldString="a - b", newString="a + b"),
        answer("Done."),
        answer("It was."),
    ]
    engine.completions = [*completions]
    environment = {
        "HOME": str(tmp_path),
        **{f"XDG_{kind}_HOME": str(tmp_path) for kind in ("CACHE", "CONFIG", "DATA", "STATE")},
        "OPENCODE_CONFIG_CONTENT": json.dumps(settings),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }
    # A title of the session is a request of its own.
    command = [opencode, "run", "--format", "json", "--title", "Repair"]
    events_of([*command, "Repair calc.py."], project, environment)
    assert (project / "calc.py").read_text() == REPAIRED
    command = [opencode, "run", "--format", "json", "--continue"]
    events = events_of([*command, "Was it wrong?"], project, environment)
    said = [event["part"]["text"] for event in events if event["type"] == "text"]
    assert said == ["It was."]
    check_script(engine, completions)
    first, second, third, last = engine.prompts
    assert "return a - b" in second
    assert second.startswith(first + THOUGHT)
    assert THOUGHT in third
    assert THOUGHT not in last  # past reasoning


def test_cline(engine: RoomyEngine, url: str, project: Path, tmp_path: Path) -> None:
    """It speaks Chat Completions by the AI SDK, and sends reasoning back while it calls."""
    cline = program("cline")
    state = ["--data-dir", str(tmp_path / "cline")]
    chosen = [*state, "--provider", "openai-compatible"]
    path = str(project / "calc.py")
    completions = [
        use("read_files", files=[{"path": path}]),
        use("apply_patch", input=PATCH.replace("calc.py", path)),
        answer("Done."),
    ]
    engine.completions = [*completions]
    environment = {"HOME": str(tmp_path)}
    login = ["--apikey", "none", "--modelid", "gpt-oss", "--baseurl", url]
    run([cline, "auth", *chosen, *login], project, environment)
    command = [cline, "--json", *chosen, "--model", "gpt-oss"]
    events = events_of([*command, "Repair calc.py."], project, environment)
    assert (project / "calc.py").read_text() == REPAIRED
    assert events[-1]["text"] == "Done."
    check_script(engine, completions)
    first, second, _ = engine.prompts
    assert "return a - b" in second
    assert second.startswith(first + THOUGHT)


def test_qwen_code(engine: RoomyEngine, url: str, project: Path, tmp_path: Path) -> None:
    """It speaks Chat Completions by OpenAI's SDK."""
    path = str(project / "calc.py")
    change = {"old_string": "a - b", "new_string": "a + b"}
    completions = [
        use("read_file", file_path=path),
        use("edit", file_path=path, **change),
        answer("Done."),
    ]
    engine.completions = [*completions]
    environment = {
        "HOME": str(tmp_path),
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": url,
        "OPENAI_MODEL": "gpt-oss",
    }
    command = [program("qwen"), "--auth-type", "openai", "--yolo", "--prompt", "Repair calc.py."]
    said = run(command, project, environment)
    assert (project / "calc.py").read_text() == REPAIRED
    assert said.strip() == "Done."
    check_script(engine, completions)
    assert "return a - b" in engine.prompts[1]


def test_continue(engine: RoomyEngine, url: str, project: Path, tmp_path: Path) -> None:
    """Its command speaks Chat Completions; it shows no reasoning, and sends none back."""
    command = [program("cn"), "--print", "--auto", "--config", str(tmp_path / "config.yaml")]
    model: dict[str, Any] = {
        "name": "local",
        "provider": "openai",
        "model": "gpt-oss",
        "apiBase": url,
    }
    model |= {"apiKey": "none", "roles": ["chat"], "capabilities": ["tool_use"]}
    settings = {"name": "local", "version": "1.0.0", "schema": "v1", "models": [model]}
    (tmp_path / "config.yaml").write_text(json.dumps(settings))
    path = str(project / "calc.py")
    change = {"old_string": "a - b", "new_string": "a + b"}
    completions = [
        use("Read", filepath=path),
        use("MultiEdit", file_path=path, edits=[change]),
        answer("Done."),
    ]
    engine.completions = [*completions]
    environment = {"HOME": str(tmp_path), "CONTINUE_TELEMETRY_ENABLED": "0"}
    said = run([*command, "Repair calc.py."], project, environment)
    assert (project / "calc.py").read_text() == REPAIRED
    assert said.strip() == "Done."
    check_script(engine, completions)
    assert "return a - b" in engine.prompts[1]
