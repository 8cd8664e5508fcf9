"""The examples run, on the demo model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        "transformers_chat_template",
        "transformers_generate",
        "transformers_pipeline",
    }


@pytest.mark.parametrize("name", ["transformers_pipeline.py", "transformers_chat_template.py"])
def test_transformers_alone_gives_the_answer(name: str) -> None:
    assert "27 + 45 = 72." in run(name)


def test_our_prompts_and_parser_give_messages() -> None:
    messages = [json.loads(line) for line in run("transformers_generate.py").splitlines()]
    assert [message["channel"] for message in messages] == ["analysis", "final"]
    assert messages[-1]["content"][0]["text"] == "27 + 45 = 72."
