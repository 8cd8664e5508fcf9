"""Tests of missing packages are skipped for people, and fail where everything must run."""

from __future__ import annotations

import pytest

from support.missing_packages import remedy_for

pytest_plugins = ["pytester"]

CONFTEST = """
from support.missing_packages import skip_what_is_not_installed

def pytest_configure(config):
    skip_what_is_not_installed(config, (str(config.rootpath),))
"""
FILES = {
    "test_at_the_start": "import nowhere.at_all\ndef test_one(): pass\ndef test_two(): pass",
    "test_within": "def test_it(): import nowhere",
    "test_in_a_fixture": """
        import pytest
        @pytest.fixture
        def needed(): import nowhere
        def test_it(needed): pass
    """,
    "test_after_an_error_message": """
        def test_it():
            try:
                import nowhere
            except ImportError:
                message = "install nowhere"
            assert message == "42"
    """,
}
THAT_SKIP = {
    "test_that_skips_itself": """
        import pytest
        def test_it(): pytest.importorskip("nowhere")
    """,
    "test_that_is_skipped_as_a_file": """
        import pytest
        pytest.importorskip("nowhere.at_all", reason="not here")
        def test_it(): pass
    """,
}
OTHERS = {
    "test_that_fails": "def test_it(): assert 0",
    "test_that_looks_first": """
        def test_it():
            from importlib.util import find_spec
            assert find_spec("nowhere")
    """,
    "test_after_one_that_lacked": """
        def test_one(): import nowhere
        def test_two(): assert 0
    """,
    "test_that_does_without": """
        def test_it():
            try:
                import nowhere
            except ImportError:
                pass
    """,
}


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("HARMONY_TEST_ALL", raising=False)
    pytester.makeconftest(CONFTEST)
    return pytester


@pytest.mark.parametrize("name", FILES)
def test_it_is_skipped_and_the_package_is_named(project: pytest.Pytester, name: str) -> None:
    project.makepyfile(**{name: FILES[name]})
    result = project.runpytest_inprocess("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines_random(
        ["SKIPPED*not installed: nowhere", "*`make test`*install them*"]
    )


@pytest.mark.parametrize(
    ("packages", "remedy"),
    [
        (("fastapi", "llguidance", "numpy"), '`make quick NEEDS="serve" FILE=...` installs them.'),
        (("mcp", "sqlalchemy"), '`make quick NEEDS="serve tools" FILE=...` installs them.'),
        (("openai",), "`make test` installs them."),
        (("torch",), "`make test` and `make test-slow` install them."),
        (("nowhere",), "`make test` and `make test-slow` install them."),
    ],
)
def test_the_smallest_extras_are_named(packages: tuple[str, ...], remedy: str) -> None:
    assert remedy_for(packages) == remedy


@pytest.mark.parametrize("name", [*FILES, *THAT_SKIP])
def test_it_fails_where_everything_must_run(
    project: pytest.Pytester, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARMONY_TEST_ALL", "1")
    project.makepyfile(**{name: {**FILES, **THAT_SKIP}[name]})
    outcomes = project.runpytest_inprocess().parseoutcomes()
    assert outcomes.keys() <= {"failed", "errors", "error"}, outcomes


@pytest.mark.parametrize("name", THAT_SKIP)
def test_one_that_skips_itself_is_skipped(project: pytest.Pytester, name: str) -> None:
    project.makepyfile(**{name: THAT_SKIP[name]})
    result = project.runpytest_inprocess()
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*not installed: nowhere. `make test`*install them*"])


@pytest.mark.parametrize(
    ("name", "outcomes"),
    [
        ("test_that_fails", {"failed": 1}),
        ("test_that_looks_first", {"failed": 1}),
        ("test_after_one_that_lacked", {"skipped": 1, "failed": 1}),
        ("test_that_does_without", {"passed": 1}),
    ],
)
def test_nothing_else_is_skipped(
    project: pytest.Pytester, name: str, outcomes: dict[str, int]
) -> None:
    project.makepyfile(**{name: OTHERS[name]})
    project.runpytest_inprocess().assert_outcomes(**outcomes)
