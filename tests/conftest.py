"""What several test files share."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, settings

from support.examples import examples
from support.missing_packages import skip_what_is_not_installed
from support.slow_files import SlowFiles

if TYPE_CHECKING:
    from gpt_oss_harmony.engines import Engine

# Of each row, the first waits most of its time, and the others compute.
# fmt: off
LONGEST = (
    "test_fault_schedules", "test_transformers_engine", "test_playground",
    "test_page_playground", "test_trainers", "test_site_search",
    "test_python_limits", "test_engines", "test_docs",
    "test_two_servers", "test_noise", "test_trl",
    "test_page_size", "test_files", "test_demo_model",
    "test_sandbox_walls", "test_self_check", "test_hostile_tokens",
    "test_page_share", "test_page_live", "test_openapi_document",
    "test_serve", "test_mcp_requests", "test_browser_web",
    "test_python_tool", "test_engine_failures", "test_hostile_tools",
)
# fmt: on
"""Files that take longest, which begin first, so that none is left alone at the end."""

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
    # The tokenizer that everyone has; with quicktok as the value, all tests run with that.
    os.environ.setdefault("HARMONY_TOKENIZER", "tiktoken")
    os.environ["OMP_NUM_THREADS"] = "1"  # workers would wait for each other's threads
    config.pluginmanager.register(SlowFiles())
    skip_what_is_not_installed(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage among 600,000 objects of modules and tests, which stay to the end.

    What tests leave behind, such as their reports, is looked at seldom: it grows to 250,000 objects
    in a process, which take 0.2 seconds each time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 10, 10)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, where several processes share the files.

    Of tests that have one name, xdist would run the first alone.
    """
    names = Counter(item.nodeid for item in items)
    if len(names) < len(items):
        (name, number), *_ = names.most_common(1)
        raise pytest.UsageError(f"{number} tests have the name {name}; give their rows ids")
    if not hasattr(config, "workerinput"):
        return
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


def pytest_make_parametrize_id(val: object) -> str | None:
    """Write hyphens for spaces in the ids of rows: a word after ``-k`` has no spaces.

    Other characters are escaped as pytest does it: its cache is UTF-8, which has no surrogates.
    """
    if not isinstance(val, str) or not val.strip():
        return None
    return "-".join(val.split()).encode("unicode_escape").decode("ascii")


@pytest.fixture(scope="session", autouse=True)
def _nothing_made_again() -> Iterator[None]:
    """Keep for all tests what each of them would make again, with the same result."""
    with pytest.MonkeyPatch.context() as patch:
        httpcore = sys.modules.get("httpcore2")
        if httpcore is not None:
            # Each client of the SDKs and of httpx2 reads the certificates of the system: 20 ms.
            cached = functools.cache(httpcore.default_ssl_context)
            patch.setattr(httpcore, "default_ssl_context", cached)
        demo_model = sys.modules.get("gpt_oss_harmony.engines.demo_model")
        if demo_model is not None:
            # The codes of 201,088 tokens, which each engine of the demo model reads: 0.5 seconds.
            patch.setattr(demo_model, "word_codes", functools.cache(demo_model.word_codes))
        yield


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """One loop for the tests of a file, for what outlives each of them."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.fixture(scope="session")
def demo() -> Iterator[Engine]:
    """The demo model, by NumPy; all tests of a worker share it."""
    from gpt_oss_harmony.engines import NumpyEngine

    engine = NumpyEngine.load()
    yield engine
    asyncio.run(engine.close())


@pytest.fixture(scope="session")
def demo_url(demo: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The root of the API of a server with the demo model; all tests of a worker share it."""
    from gpt_oss_harmony.server import Settings
    from support.served import serving

    database = f"sqlite:///{tmp_path_factory.mktemp('served') / 'responses.db'}"
    with serving(demo, Settings(database=database)) as url:
        yield url
