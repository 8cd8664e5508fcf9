"""Programs in environments of their own: LiteLLM, smolagents, llm, aider, an SDK from npm.

The model is a script; each of its completions must be one that the grammar of its turn allows.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony.server import Settings
from support.agent_sessions import BROKEN, REPAIRED, THOUGHT, check_script, run, use
from support.served import serving
from support.server_tools import RoomyEngine, answer

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "clients" / "programs"
MODEL = "gpt-oss"
LITELLM = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONPATH": ""}
NO_PATH = {"PYTHONPATH": ""}


@pytest.fixture
def engine() -> RoomyEngine:
    return RoomyEngine(room=100_000)


@pytest.fixture
def url(engine: RoomyEngine) -> Iterator[str]:
    with serving(engine, Settings(model_names=(MODEL,))) as url:
        yield url


def python(environment: str) -> str:
    folder = ROOT / environment
    if not (folder / ".installed").exists():
        pytest.skip("the programs are missing; run: make coding-agents")
    return str(folder / "bin" / "python")


def test_litellm(engine: RoomyEngine, url: str, tmp_path: Path) -> None:
    """Its providers for Anthropic, OpenAI and vLLM, whole and streamed, with a tool."""
    completions = [use("now"), THOUGHT + answer("Noon."), use("now")] * 3
    engine.completions = [*completions]
    command = [python(".venv-clients"), str(FOLDER / "litellm_client.py"), url, MODEL]
    answers = json.loads(run(command, tmp_path, LITELLM).splitlines()[-1])
    call: dict[str, Any] = {"text": "", "reasoning": "I use a tool.", "calls": [["now", "{}"]]}
    call |= {"reason": "tool_calls"}
    said = {"text": "Noon.", "reasoning": "I use a tool.", "calls": [], "reason": "stop"}
    providers = ("anthropic", "openai", "hosted_vllm")
    assert answers == {provider: [call, said, call] for provider in providers}
    check_script(engine, completions)
    for first, second in zip(engine.prompts[::3], engine.prompts[1::3], strict=True):
        assert second.startswith(first + THOUGHT)  # each of them sends reasoning back
        assert "noon<|end|>" in second


def test_smolagents(engine: RoomyEngine, url: str, tmp_path: Path) -> None:
    """One kind of agent calls tools, the other writes code until a stop sequence."""
    completions = [
        use("weather", city="Rome"),
        use("final_answer", answer="It is sunny."),
        THOUGHT + answer('I look.\n<code>\nfinal_answer(weather(city="Rome"))\n</code>'),
    ]
    engine.completions = [*completions]
    command = [python(".venv-clients"), str(FOLDER / "smolagents_client.py"), url, MODEL]
    answers = json.loads(run(command, tmp_path, NO_PATH).splitlines()[-1])
    assert answers == {"ToolCallingAgent": "It is sunny.", "CodeAgent": "sunny in Rome"}
    check_script(engine, completions)


def test_llm(engine: RoomyEngine, url: str, tmp_path: Path) -> None:
    """The command streams, runs a tool, and shows the answer."""
    completions = [use("now"), THOUGHT + answer("It is noon.")]
    engine.completions = [*completions]
    known: dict[str, Any] = {"model_id": MODEL, "model_name": MODEL, "api_base": url}
    known |= {"supports_tools": True, "reasoning": True}
    (tmp_path / "extra-openai-models.yaml").write_text(json.dumps([known]))
    command = [python(".venv-clients"), "-m", "llm", "-m", MODEL, "-o", "reasoning_effort", "high"]
    command += ["--functions", "def now():\n    return 'noon'", "What time is it?"]
    environment = {"LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "none"}
    said = run(command, tmp_path, {**NO_PATH, **environment})
    assert said.strip() == "It is noon."
    check_script(engine, completions)
    assert "Reasoning: high" in engine.prompts[0]
    assert "noon<|end|>" in engine.prompts[1]


@pytest.mark.parametrize("form", ["--stream", "--no-stream"])
def test_aider(engine: RoomyEngine, url: str, tmp_path: Path, form: str) -> None:
    """It edits by blocks in the answer, and shows reasoning, under either of its names, once."""
    block = "<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n>>>>>>> REPLACE"
    completions = [THOUGHT + answer(f"calc.py\n```python\n{block}\n```\n")]
    engine.completions = [*completions]
    (tmp_path / "calc.py").write_text(BROKEN)
    command = [python(".venv-aider"), "-m", "aider", "--model", f"openai/{MODEL}", form]
    command += ["--openai-api-base", url, "--openai-api-key", "none"]
    command += ["--edit-format", "diff", "--no-git", "--yes-always", "--no-pretty"]
    command += ["--no-show-model-warnings", "--no-check-update", "--analytics-disable"]
    command += ["--message", "Repair calc.py.", "calc.py"]
    said = run(command, tmp_path, {**LITELLM, "HOME": str(tmp_path)})
    assert (tmp_path / "calc.py").read_text() == REPAIRED
    assert said.count("I use a tool.") == 1
    check_script(engine, completions)


def test_openais_typescript_sdk_beside_open_responses(tmp_path: Path) -> None:
    """Its helper fails with the names of Open Responses, which other clients get."""
    node, folder = shutil.which("node"), ROOT / "tests" / "clients" / "agents"
    if node is None or not (folder / "node_modules" / ".installed").exists():
        pytest.skip("node or the SDK is missing; run: make coding-agents")
    engine = RoomyEngine(THOUGHT + answer("Hello."))
    settings = Settings(model_names=(MODEL,), event_names="open-responses")
    with serving(engine, settings) as url:
        said = json.loads(run([node, str(folder / "openai.mjs"), url, MODEL], tmp_path, {}))
    assert said == ["I use a tool.", "Hello."]
