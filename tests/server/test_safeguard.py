"""A policy, a text, a strict verdict with reasoning: on the server, by ``harmony generate``."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony.cli import main
from gpt_oss_harmony.grammar import Matcher
from support.responses_server import serving
from support.scripted_engine import ENCODING, ScriptedEngine

VERDICT = '{"violation":1,"rationale":"A school."}'
THOUGHT = "<|channel|>analysis<|message|>Personal data.<|end|><|start|>assistant"
SAMPLED = f"{THOUGHT}<|channel|>final<|message|>{VERDICT}<|return|>"
OTHERS = ('{"violation":2,"rationale":"A school."}', '{"violation":1}', "Yes.")

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "safeguard.md"


@pytest.fixture(scope="module")
def request_body(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The request of the page itself."""
    code = PAGE.read_text(encoding="utf-8").split("```python\n")[1].partition("```")[0]
    path = tmp_path_factory.mktemp("page") / "page.py"
    path.write_text(code, encoding="utf-8")
    body: dict[str, Any] = runpy.run_path(str(path))["request"]
    return body


def check_grammar(engine: ScriptedEngine) -> None:
    (sampling,) = engine.samplings
    assert sampling.grammar is not None
    for text, is_valid in ((VERDICT, True), *((other, False) for other in OTHERS)):
        tokens = ENCODING.encode(SAMPLED.replace(VERDICT, text), allowed_special="all")
        assert (Matcher(sampling.grammar).accept_all(tokens) == len(tokens)) is is_valid


def check_prompt(engine: ScriptedEngine, body: dict[str, Any]) -> None:
    (prompt,) = engine.prompts
    assert "Reasoning: high" in prompt
    assert (
        f"<|start|>developer<|message|># Instructions\n\n{body['messages'][0]['content']}" in prompt
    )
    assert "## verdict" in prompt


def test_the_server(request_body: dict[str, Any]) -> None:
    engine = ScriptedEngine(SAMPLED)
    with serving(engine=engine) as client:
        answer = client.post("/v1/chat/completions", json=request_body).json()
    message = answer["choices"][0]["message"]
    assert (message["content"], message["reasoning"]) == (VERDICT, "Personal data.")
    check_prompt(engine, request_body)
    check_grammar(engine)


def test_messages(request_body: dict[str, Any]) -> None:
    engine = ScriptedEngine(SAMPLED)
    system, *messages = request_body["messages"]
    schema = request_body["response_format"]["json_schema"]["schema"]
    body = {
        "system": system["content"],
        "messages": messages,
        "thinking": {"type": "adaptive"},
        "output_config": {"format": {"type": "json_schema", "schema": schema}},
    }
    with serving(engine=engine) as client:
        thought, verdict = client.post("/v1/messages", json=body).json()["content"]
    assert (thought["thinking"], verdict["text"]) == ("Personal data.", VERDICT)
    check_grammar(engine)


def test_the_command(
    request_body: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine = ScriptedEngine(SAMPLED)

    async def opened(model: str) -> ScriptedEngine:
        return engine

    monkeypatch.setattr("gpt_oss_harmony.engines.open_engine", opened)
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps(request_body))
    assert main(["generate", "safeguard", str(chat), "--grammar", "--temperature", "0"]) == 0
    assert VERDICT in capsys.readouterr().out
    check_prompt(engine, request_body)
    check_grammar(engine)
