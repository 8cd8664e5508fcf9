"""Sessions of programs with a scripted model: what it samples, and a check of what was sampled."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpt_oss_harmony.grammar import Matcher
from support.scripted_engine import ENCODING, ScriptedEngine
from support.served import PROGRAM_PATIENCE

BROKEN = "def add(a, b):\n    return a - b\n"
REPAIRED = BROKEN.replace("-", "+")
THOUGHT = "<|channel|>analysis<|message|>I use a tool.<|end|><|start|>assistant"


def use(name: str, **arguments: Any) -> str:
    """A call of a function as a model samples it, after reasoning."""
    header = f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>"
    return f"{THOUGHT}{header}{json.dumps(arguments)}<|call|>"


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Run a program without a terminal, and return what it writes."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PROGRAM_PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def check_script(engine: ScriptedEngine, completions: Sequence[str]) -> None:
    """All was asked for, and the grammars of the turns allow what was sampled."""
    assert engine.completions == []
    assert len(engine.samplings) == len(completions)
    for sampling, completion in zip(engine.samplings, completions, strict=True):
        tokens = ENCODING.encode(completion, allowed_special="all")
        if sampling.grammar is not None:
            assert Matcher(sampling.grammar).accept_all(tokens) == len(tokens), completion
