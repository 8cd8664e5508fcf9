"""Whatever is restarted, filled or frozen, every response ends, and nothing is lost.

``make faults SCHEDULES=200 SEED=0`` runs many schedules; the test's name has the seed of each.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from support.faults import Schedule

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="only root mounts a small disk"
    ),
]

pytest_plugins = ("support.postgres_server",)

FIRST = int(os.environ.get("HARMONY_TEST_FAULTS_SEED", "0"))
COUNT = int(os.environ.get("HARMONY_TEST_FAULTS", "2"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_every_response_ends_and_nothing_is_lost(
    seed: int, tmp_path: Path, postgres_server: str
) -> None:
    schedule = Schedule(seed, tmp_path, postgres_server)
    assert schedule.run() == [], f"seed {seed}:\n{schedule}"
