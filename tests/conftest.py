"""What several test files share."""

from __future__ import annotations

import faulthandler
import gc
import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, settings

from support.examples import examples
from support.missing_packages import skip_what_is_not_installed
from support.slow_files import SlowFiles

if TYPE_CHECKING:
    from gpt_oss_harmony.engines import Engine

PATIENCE = 300
"""Seconds for what takes a few at most; what takes quadratic time needs hours."""

_STDERR = pytest.StashKey[int]()


# A slow machine fails no test. In CI the examples are the same each time, so that a change is not
# refused for a rare example that has nothing to do with it; everywhere else they are new.
settings.register_profile("random", deadline=None, max_examples=examples(100))
settings.register_profile("repeatable", deadline=None, max_examples=examples(100), derandomize=True)
# For scripts/mutants.py, to which a failing example of any size will do.
settings.register_profile(
    "unshrunk",
    deadline=None,
    max_examples=examples(100),
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "random"))


def pytest_configure(config: pytest.Config) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"  # workers would wait for each other's threads
    config.stash[_STDERR] = os.dup(2)  # tests run with another one, which is thrown away
    config.pluginmanager.register(SlowFiles())
    skip_what_is_not_installed(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage among some 100,000 modules, classes and tests, which stay to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def no_hang(request: pytest.FixtureRequest) -> Iterator[None]:
    """End the run, with a traceback, where a test hangs; extensions do not stop for a signal."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True, file=request.config.stash[_STDERR])
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The demo model; all tests of a worker share it, and its folder all workers."""
    from support.served import demo_engine

    with demo_engine(tmp_path_factory.getbasetemp().parent) as engine:
        yield engine


@pytest.fixture(scope="session")
def demo_url(demo: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The root of the API of a server with the demo model; all tests of a worker share it."""
    from gpt_oss_harmony.server import Settings
    from support.served import serving

    database = f"sqlite:///{tmp_path_factory.mktemp('served') / 'responses.db'}"
    with serving(demo, Settings(database=database)) as url:
        yield url
