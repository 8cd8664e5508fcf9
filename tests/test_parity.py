"""A sample of the comparison with the reference; ``scripts/parity/run.py`` runs longer ones.

The peers are installed from PyPI into environments of their own on the first run; where that is
not possible the tests are skipped. ``HARMONY_PARITY_CASES`` sets the number of cases.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PARITY = ROOT / "scripts" / "parity"
CASES = int(os.environ.get("HARMONY_PARITY_CASES", "3000"))
SEED = int(os.environ.get("HARMONY_PARITY_SEED", "1"))


@pytest.fixture(scope="module")
def harness() -> dict[str, Any]:
    before = list(sys.path)
    sys.path.insert(0, str(PARITY))
    try:
        return runpy.run_path(str(PARITY / "run.py"))
    finally:
        sys.path[:] = before


@pytest.mark.parity
@pytest.mark.parametrize("peer", ["reference", "fork"])
def test_parity(peer: str, harness: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    python = harness["peer_python"](peer)
    if python is None:
        pytest.skip(f"{harness['PEERS'][peer]} cannot be installed here (no network?)")
    count = CASES if peer == "reference" else CASES // 3
    counts = harness["compare"](peer, python, SEED, count)
    assert counts[harness["UNEXPLAINED"]] == 0, capsys.readouterr().out
    if count >= 1000:
        kinds = {"render", "stream", "parse", "schema", "encode", "decode"}
        compared = {name.split()[0] for name in counts}
        assert compared & kinds == (kinds if peer == "reference" else {"render"})
