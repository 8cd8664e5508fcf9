"""Frameworks in an environment of their own: an answer, a stream, a tool, an answer in a form.

The model replies by what it is asked, and each reply must be one that the grammar of its turn
allows. `tests/clients/frameworks.json` lists the frameworks.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony.engines import EngineError, SampledToken, Sampling
from gpt_oss_harmony.grammar import Matcher
from gpt_oss_harmony.server import Settings
from support.agent_sessions import run, use
from support.scripted_engine import ENCODING
from support.served import serving
from support.server_tools import RoomyEngine, answer

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "tests" / "clients"
MODEL = "gpt-oss"
EXPECTED = {
    "answer": "Hello, world.",
    "stream": ["Hello, world.", True],  # in several pieces
    "tool": "It is noon.",
}
FRAMEWORKS: dict[str, Any] = json.loads((CLIENTS / "frameworks.json").read_text())


class ReplyingEngine(RoomyEngine):
    """Replies to the last question: in words, by a call, or in the form that is asked for."""

    async def _generate(
        self, prompt: list[int], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[SampledToken, None]:
        text = reply(ENCODING.decode(prompt))
        tokens = ENCODING.encode(text, allowed_special="all")
        if sampling.grammar is not None:
            taken = Matcher(sampling.grammar).accept_all(tokens)
            if taken < len(tokens):
                rest = ENCODING.decode(tokens[taken:])
                raise EngineError(f"the grammar does not allow {rest!r} in {text!r}")
        self.completions.append(text)
        async for sampled in super()._generate(prompt, sampling, max_tokens):
            yield sampled


def reply(prompt: str) -> str:
    """What a model would say, with the tool or the form that the prompt declares."""
    asked = prompt.rpartition("<|start|>user<|message|>")[2]
    if "hello" in asked:
        return answer("Hello, world.")
    names = re.findall(r"^type (\S+) = \(", prompt, re.MULTILINE)
    if "time" in asked:
        clock = next((name for name in names if name.endswith("now")), None)
        return answer("It is noon.") if "noon" in asked or clock is None else use(clock)
    if names:  # a form can be the arguments of a tool
        return answer("It is Rome.") if "to=assistant" in asked else use(names[-1], city="Rome")
    return answer('{"city": "Rome"}').replace("final", "final <|constrain|>json")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(ReplyingEngine(room=100_000), Settings(model_names=(MODEL,))) as url:
        yield url


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Callable[[str], Any]:
    """Run a framework once; return what it found in each step."""

    @cache
    def of(name: str) -> Any:
        program = command(name)  # before a server is started
        environment = {
            "HOME": str(tmp_path_factory.mktemp(name)),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "OPENAI_API_KEY": "none",
            "OTEL_SDK_DISABLED": "true",
            "PYTHONPATH": "",
            "CREWAI_DISABLE_TELEMETRY": "true",
        }
        url: str = request.getfixturevalue("url")
        said = run([*program, name, url, MODEL], Path(environment["HOME"]), environment)
        return json.loads(said.splitlines()[-1])

    return of


def command(name: str) -> list[str]:
    packages = FRAMEWORKS[name].get("packages")
    if packages is None:
        node, program = shutil.which("node"), "agents/frameworks.mjs"
        interpreter, folder = node or "", CLIENTS / "agents" / "node_modules"
    else:
        folder, program = ROOT / ".venv-frameworks", "programs/frameworks.py"
        environment = re.split(r"[\[=]", packages[0])[0]
        interpreter = str(folder / environment / "bin" / "python")
    if not interpreter or not (folder / ".installed").exists():
        pytest.skip("the frameworks are missing; run: make clients")
    return [interpreter, str(CLIENTS / program)]


@pytest.mark.parametrize(
    ("name", "step"), [(name, step) for name, one in FRAMEWORKS.items() for step in one["steps"]]
)
def test_framework(name: str, step: str, results: Callable[[str], Any]) -> None:
    assert results(name)[step] == EXPECTED.get(step, "Rome")
