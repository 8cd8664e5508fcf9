"""curl, with the command that the guide prints for `transformers serve`."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from typing import Any

import pytest

from gpt_oss_harmony.engines import Engine
from gpt_oss_harmony.server import Settings
from support.open_responses import check, check_response, event_schema
from support.scripted_engine import ScriptedEngine
from support.served import PATIENCE, serving

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")

GUIDE = """\
curl -X POST http://localhost:8000/v1/responses -H "Content-Type: application/json" -d \
'{"messages": [{"role": "system", "content": "hello"}], "temperature": 0.9, "max_tokens": 1000, \
"stream": true, "model": "openai/gpt-oss-20b"}'"""
GUIDE_MODEL = "openai/gpt-oss-20b"


def curl(url: str, command: str) -> str:
    """Run a command as it is printed, but for the address of the server."""
    arguments = shlex.split(command.replace("http://localhost:8000/v1", url))
    done = subprocess.run(
        [*arguments, "--silent", "--show-error", "--no-buffer", "--max-time", str(PATIENCE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def events_of(output: str) -> list[dict[str, Any]]:
    blocks = output.split("\n\n")
    assert blocks[-2:] == ["data: [DONE]", ""]
    return [json.loads(block.split("\n")[1].removeprefix("data: ")) for block in blocks[:-2]]


def test_the_command_of_the_guide(demo: Engine) -> None:
    with serving(demo, Settings(model_names=(GUIDE_MODEL,))) as url:
        events = events_of(curl(url, GUIDE))
    for event in events:
        check(event_schema("openai"), event)
    last = events[-1]["response"]
    assert last["status"] in ("completed", "incomplete")
    assert (last["model"], last["temperature"]) == (GUIDE_MODEL, 0.9)
    assert last["max_output_tokens"] == 1000


def test_what_its_fields_mean() -> None:
    """The messages are the input, and `max_tokens` bounds the answer."""
    engine = ScriptedEngine("<|channel|>final<|message|>Hello, hello, hello!<|return|>")
    engine.context_length = 4000
    command = GUIDE.replace('"max_tokens": 1000', '"max_tokens": 6').replace("true", "false")
    with serving(engine, Settings(model_names=(GUIDE_MODEL,), current_date=None)) as url:
        response = check_response(json.loads(curl(url, command)))
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][-1]["content"][0]["text"] == "Hello, hello"
    (sampling,) = engine.samplings
    assert (sampling.temperature, sampling.max_tokens) == (0.9, 6)
    (prompt,) = engine.prompts
    assert "<|start|>developer<|message|># Instructions\n\nhello" in prompt
