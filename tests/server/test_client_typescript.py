"""Clients from npm: the AI SDK with five of its providers, against the demo model."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.served import PROGRAM_PATIENCE

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[1] / "clients" / "typescript"
PROVIDERS = ("responses", "chat", "open", "compatible", "anthropic")
SUM = "27 + 45 = 72."
REASONING = "27 + 45: ones 7 + 5 = 12, tens 2 + 4 + 1 = 7. So 72."
SUNNY = "It is sunny in Paris, 20 degrees."
GROCERIES = {"items": ["coffee", "soda", "eggs"]}


@pytest.fixture(scope="module")
def answers(demo_url: str) -> dict[str, Any]:
    """What came of every case with every provider; one run of node for all."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    if not (FOLDER / "node_modules" / ".installed").exists():
        pytest.fail(f"the packages are missing; run: make {FOLDER}/node_modules/.installed")
    done = subprocess.run(
        [node, "--import", "tsx", "client.ts", demo_url, "demo"],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=PROGRAM_PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def answer(answers: dict[str, Any], name: str) -> Any:
    found = answers[name]
    assert not (isinstance(found, dict) and "failed" in found), found["failed"]
    return found


def test_node_modules_come_from_any_registry() -> None:
    locked = (FOLDER / "package-lock.json").read_text()
    assert '"resolved"' not in locked
    wanted = json.loads((FOLDER / "package.json").read_text())["dependencies"]
    assert all(version[0].isdigit() for version in wanted.values())


@pytest.mark.parametrize("provider", PROVIDERS)
class TestProvider:
    def test_text(self, answers: dict[str, Any], provider: str) -> None:
        found = answer(answers, f"{provider}.text")
        assert (found["text"], found["finishReason"]) == (SUM, "stop")
        usage = found["usage"]
        assert usage["inputTokens"] > 50
        assert 20 < usage["outputTokenDetails"]["reasoningTokens"] < usage["outputTokens"]

    def test_history(self, answers: dict[str, Any], provider: str) -> None:
        assert answer(answers, f"{provider}.history") == "Your name is Anna."

    def test_stream(self, answers: dict[str, Any], provider: str) -> None:
        found = answer(answers, f"{provider}.stream")
        assert found["text"] == SUM
        kinds = [kind for kind in found["kinds"] if kind.startswith("text-")]
        assert kinds == ["text-start", "text-delta", "text-end"]
        assert found["usage"]["outputTokens"] > 20

    def test_tools(self, answers: dict[str, Any], provider: str) -> None:
        found = answer(answers, f"{provider}.tools")
        assert found == {
            "text": SUNNY,
            "steps": ["tool-calls", "stop"],
            "inputs": [{"location": "Paris"}],
        }
        assert answer(answers, f"{provider}.streamed_tools") == {"text": SUNNY, "steps": 2}

    def test_a_tool_can_be_required(self, answers: dict[str, Any], provider: str) -> None:
        assert answer(answers, f"{provider}.required_tool") == ["get_current_weather"]

    def test_structured_output(self, answers: dict[str, Any], provider: str) -> None:
        assert answer(answers, f"{provider}.object") == GROCERIES
        assert answer(answers, f"{provider}.output") == GROCERIES

    def test_token_limit(self, answers: dict[str, Any], provider: str) -> None:
        assert answer(answers, f"{provider}.limit") == "length"

    def test_errors_are_read(self, answers: dict[str, Any], provider: str) -> None:
        found = answer(answers, f"{provider}.another_model")
        assert found["status"] == 404
        assert found["message"] == "model: the model 'another' is not served here; use demo"


@pytest.mark.parametrize("provider", ["open", "compatible"])  # OpenAI's shows summaries alone
def test_reasoning_is_shown(answers: dict[str, Any], provider: str) -> None:
    assert answer(answers, f"{provider}.text")["reasoningText"] == REASONING
    assert answer(answers, f"{provider}.stream")["reasoning"] == REASONING


def test_reasoning_comes_before_the_text(answers: dict[str, Any]) -> None:
    kinds = answer(answers, "responses.stream")["kinds"]
    assert kinds.index("reasoning-start") < kinds.index("text-start")
