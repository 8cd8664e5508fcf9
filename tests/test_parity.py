"""A sample of the comparison with the reference; ``scripts/parity/run.py`` runs longer ones.

The peers are installed from PyPI into folders of their own on the first run; where that is not
possible the tests are skipped. ``HARMONY_PARITY_CASES`` sets the number of cases.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.examples import examples

SCRIPT = Path(__file__).parent.parent / "scripts" / "parity" / "run.py"
CASES = int(os.environ.get("HARMONY_PARITY_CASES", examples(3000)))
SEED = int(os.environ.get("HARMONY_PARITY_SEED", "1"))


@pytest.mark.parametrize(
    ("peer", "cases", "kinds"),
    [
        ("reference", CASES, {"render", "stream", "parse", "schema", "encode", "decode"}),
        ("fork", CASES * 10 // 3, {"render"}),  # it answers a tenth of them
    ],
)
def test_parity(peer: str, cases: int, kinds: set[str]) -> None:
    options = [f"--cases={cases}", f"--seed={SEED}", f"--peer={peer}", "--jobs=1"]
    command = [sys.executable, str(SCRIPT), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot be installed here" in done.stdout:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 mismatches" in done.stdout
    if cases >= 1000:
        compared = set(re.findall(r"^ +\d+ (\w+)", done.stdout, re.MULTILINE))
        assert compared - {"divergence"} >= kinds
