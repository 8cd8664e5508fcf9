"""What the fuzzers of ``make fuzz`` look for: broken promises.

``tests/data/hostile/TARGET.json`` keeps what they found: a list of cases as they print them,
``{"promise": TARGET, "why": ..., "input": ...}``.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples

ROOT = Path(__file__).parent.parent
DATA = Path(__file__).parent / "data" / "hostile"

sys.path.insert(0, str(ROOT))
inputs: Any = importlib.import_module("fuzz.inputs")
promises: Any = importlib.import_module("fuzz.promises")
sys.path.remove(str(ROOT))

CASES = [
    pytest.param(case["promise"], case["input"], id=f"{path.stem}-{at}")
    for path in sorted(DATA.glob("*.json"))
    if path.name != "words.json"
    for at, case in enumerate(json.loads(path.read_text()))
]


@pytest.mark.parametrize(("promise", "case"), CASES)
def test_promises_hold_for_what_was_found(promise: str, case: Any) -> None:
    promises.PROMISES[promise](case)


@pytest.mark.parametrize("promise", promises.PROMISES)
@settings(max_examples=examples(150))
@given(data=st.binary(max_size=200))
def test_promises_hold(promise: str, data: bytes) -> None:
    promises.PROMISES[promise](promises.READERS[promise](inputs.Choices(data)))
