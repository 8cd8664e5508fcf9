"""Which files each of the two runs collects."""

from __future__ import annotations

import pytest

from support.slow_files import QUICK, SLOW

pytest_plugins = ["pytester"]

CONFTEST = """
from support.slow_files import SlowFiles

def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes long")
    config.pluginmanager.register(SlowFiles())
"""
FILES = {
    "test_slow": "import pytest\npytestmark = pytest.mark.slow\ndef test_one(): pass",
    "test_listed": (
        "import pytest\npytestmark = [\n    pytest.mark.skipif(False, reason=''),\n"
        "    pytest.mark.slow,\n]\ndef test_two(): pass"
    ),
    "test_both": "import pytest\n@pytest.mark.slow\ndef test_three(): pass\ndef test_four(): pass",
    "test_quick": "def test_five(): pass",
}
BROKEN = "raise RuntimeError('it is imported')\n"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(**FILES)
    return pytester


@pytest.mark.parametrize(("selected", "passed"), [(QUICK, 2), (SLOW, 3), ("", 5)])
def test_each_run_has_its_tests(project: pytest.Pytester, selected: str, passed: int) -> None:
    result = project.runpytest_inprocess("-m", selected)
    result.assert_outcomes(passed=passed, deselected=1 if selected else 0)


@pytest.mark.parametrize(
    ("selected", "left_out"), [(QUICK, ["test_slow", "test_listed"]), (SLOW, ["test_quick"])]
)
def test_files_of_the_other_run_are_not_imported(
    project: pytest.Pytester, selected: str, left_out: list[str]
) -> None:
    project.makepyfile(**{name: BROKEN + FILES[name] for name in left_out})
    result = project.runpytest_inprocess("-m", selected)
    assert result.parseoutcomes().get("errors", 0) == 0


@pytest.mark.parametrize("line", ["import torch", "from transformers import x", "import trl as t"])
def test_a_file_that_imports_pytorch_is_slow(project: pytest.Pytester, line: str) -> None:
    project.makepyfile(torch="", trl="", transformers="x = 1")
    project.makepyfile(test_heavy=f"{line}\ndef test_seven(): pass")
    project.syspathinsert()
    project.runpytest_inprocess("-m", SLOW, "-k", "seven").assert_outcomes(passed=1, deselected=4)
    project.makepyfile(torch=BROKEN, trl=BROKEN, transformers=BROKEN)
    project.runpytest_inprocess("-m", QUICK).assert_outcomes(passed=2, deselected=1)


def test_a_marker_that_the_slow_run_would_not_find_is_an_error(project: pytest.Pytester) -> None:
    project.makepyfile(marks="import pytest\nheavy = pytest.mark.slow")
    project.makepyfile(test_hidden="import marks\n@marks.heavy\ndef test_six(): pass")
    project.syspathinsert()
    result = project.runpytest_inprocess("-m", QUICK)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "test_hidden.py" in str(result.stderr)
