"""What holds in all tests of training data."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gpt_oss_harmony.training.files import TokenReport

_HAS_MATPLOTLIB = find_spec("matplotlib") is not None


@pytest.fixture
def pictures() -> None:
    """Let `prepare` draw the picture of its report; see `_counts_for_pictures`."""


@pytest.fixture(autouse=True)
def _counts_for_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the counts of a data set where `prepare` draws them, which takes 0.3 seconds.

    Outputs that must be equal still have a file that depends on all counts.
    """
    preparation = sys.modules.get("gpt_oss_harmony.training.files.preparation")
    if preparation is None or "pictures" in request.fixturenames or not _HAS_MATPLOTLIB:
        return

    def write_counts(report: TokenReport, path: Path, title: str) -> bool:
        path.write_text(json.dumps([title, report.as_json()]), encoding="utf-8")
        return True

    monkeypatch.setattr(preparation, "write_plot", write_counts)
