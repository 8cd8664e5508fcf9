"""The examples run, on the demo model."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # as for a program that is run by itself
]


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """Run an example as a program and return what it prints; PyTorch is loaded once for all."""

    def run(name: str) -> str:
        monkeypatch.setattr(sys, "argv", [name])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        "transformers_chat_template",
        "transformers_generate",
        "transformers_pipeline",
    }


@pytest.mark.parametrize("name", ["transformers_pipeline.py", "transformers_chat_template.py"])
def test_transformers_alone_gives_the_answer(name: str, run: Callable[[str], str]) -> None:
    assert "27 + 45 = 72." in run(name)


def test_our_prompts_and_parser_give_messages(run: Callable[[str], str]) -> None:
    messages = [json.loads(line) for line in run("transformers_generate.py").splitlines()]
    assert [message["channel"] for message in messages] == ["analysis", "final"]
    assert messages[-1]["content"][0]["text"] == "27 + 45 = 72."
