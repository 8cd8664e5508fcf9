"""What several test files share."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Iterator

import pytest

PATIENCE = 300
"""Seconds for what takes a few at most; what takes quadratic time needs hours."""

_STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_STDERR] = os.dup(2)  # tests run with another one, which is thrown away


@pytest.fixture
def no_hang(request: pytest.FixtureRequest) -> Iterator[None]:
    """End the run, with a traceback, where a test hangs; extensions do not stop for a signal."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True, file=request.config.stash[_STDERR])
    yield
    faulthandler.cancel_dump_traceback_later()
