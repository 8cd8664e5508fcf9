"""The calls of the page without a server: functions from JSON to JSON, with the core alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony.inspector.calls import CALLS, answer, settings
from support.inspector_client import CHAT, HARMONY, HOSTILE, RESPONSE, send

TURN = "<|channel|>final<|message|>4<|return|>"
BODIES: dict[str, list[dict[str, Any]]] = {
    "render": [{"source": source} for source in (CHAT, RESPONSE, HARMONY, {"messages": 1})],
    "append": [{"source": HARMONY, "messages": [{"role": "user", "content": "5?"}]}],
    "compare": [{"source": CHAT}],
    "parse": [{"input": text} for text in (TURN, *HOSTILE)],
    "allowed": [{"source": HARMONY, "completion": TURN}],
    "export": [{"source": CHAT, "format": format} for format in ("json", "python", "vector")],
}
REFUSED = {
    "no JSON": b"{",
    "not UTF-8": b"\xff",
    "an infinite number": b'{"source": 1e999}',
    "a constant that is not in JSON": b'{"source": NaN}',
    "a deep list": b"[" * 100_000,
    "too many values": b"[" * 600_000,
    "too many bytes": b" " * (16 * 1024 * 1024 + 1),
    "another body": b'{"source": 1}',
}

BLOCKED = """
import sys
for name in ("starlette", "llguidance", "tiktoken", "uvicorn", "h11", "jsonschema_rs", "numpy"):
    sys.modules[name] = None
from gpt_oss_harmony.inspector.calls import answer, settings
bodies = {bodies!r}
print(settings()["grammar"], answer("allowed", b'{{"source": {{"input": "hi"}}}}').status)
for name, texts in bodies.items():
    for text in texts:
        if name != "allowed":
            print(*answer(name, text.encode()))
"""


def test_all_calls_are_tried() -> None:
    assert BODIES.keys() == CALLS.keys()


@pytest.mark.parametrize("name", BODIES)
def test_a_call_answers_as_the_server_does(name: str) -> None:
    for body in BODIES[name]:
        status, text = answer(name, json.dumps(body).encode())
        assert (status, json.loads(text)) == send(name, body)


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED)
def test_what_is_no_request_is_an_error_of_the_page(raw: bytes) -> None:
    status, text = answer("render", raw)
    assert status in (400, 413, 422)
    assert set(json.loads(text)["error"]) == {"message", "param"}


def test_settings_name_a_model() -> None:
    model = {"live": True, "needs_key": True, "model": "script"}
    assert settings("script", needs_key=True) == {**settings(), **model}


def test_the_core_is_enough(tmp_path: Path) -> None:
    """The same answers without a server, grammars and tiktoken."""
    bodies = {name: [json.dumps(body) for body in given] for name, given in BODIES.items()}
    program = tmp_path / "program.py"
    program.write_text(BLOCKED.format(bodies=bodies))
    lines = subprocess.run(
        [sys.executable, str(program)], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    expected = [
        " ".join(map(str, answer(name, text.encode())))
        for name, texts in bodies.items()
        for text in texts
        if name != "allowed"
    ]
    assert lines == ["False 501", *expected]
