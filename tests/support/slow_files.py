"""Which files have slow tests: the others need not be imported to find that.

To import and collect all files takes half a minute of each process, which `make test` and
`make test-slow` start several of. A file that imports PyTorch, or a package that brings it, is one
of slow tests: `make test` does not install it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

QUICK, SLOW = "not slow", "slow"
"""What the two runs select with the option ``-m``."""

_ALL_SLOW = re.compile(
    r"^(pytestmark = (\[[^]]*)?pytest\.mark\.slow"
    r"|(try:\n    )?(import|from) (mlx|mlx_lm|torch|transformers|trl))\b",
    re.MULTILINE,
)
_SOME_SLOW = re.compile(r"\bpytest\.mark\.slow\b")
_SHARED = re.compile(r"\bsupport\.(\w+)")
_SUPPORT = Path(__file__).parent


@cache
def _has(pattern: re.Pattern[str], path: Path) -> bool:
    """Return whether a file, or a module of `support` that it names, has the pattern."""
    text = path.read_text("utf-8")
    shared = (_SUPPORT / f"{name}.py" for name in _SHARED.findall(text))
    return bool(pattern.search(text)) or any(
        pattern.search(file.read_text("utf-8")) for file in shared if file.exists()
    )


def only_slow(path: Path) -> bool:
    """Return whether all tests of a file are slow: by `pytestmark`, or by what it imports."""
    return _has(_ALL_SLOW, path)


def some_slow(path: Path) -> bool:
    """Return whether a file has slow tests, or names a module of `support` that marks them."""
    return only_slow(path) or _has(_SOME_SLOW, path)


class SlowFiles:
    """A plugin of pytest: each of the two runs leaves out the files that it has no tests in."""

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        """Leave a file out, unless it may have tests of this run."""
        if collection_path.suffix != ".py":
            return None
        is_test = collection_path.name.startswith("test_")
        if not is_test and ">>>" not in collection_path.read_text("utf-8"):
            return True
        selected = config.getoption("markexpr")
        if selected not in (QUICK, SLOW):
            return None
        if selected == QUICK:
            return only_slow(collection_path) or None
        return not some_slow(collection_path) or None

    @pytest.hookimpl(tryfirst=True)  # before those that are not selected are taken out
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark the tests of slow files; fail where the slow run would not look for a slow test."""
        for item in items:
            if only_slow(item.path):
                item.add_marker("slow")
        unseen = {i.path for i in items if i.get_closest_marker("slow") and not some_slow(i.path)}
        if unseen:
            names = ", ".join(sorted(str(path) for path in unseen))
            raise pytest.UsageError(
                f"the marker of slow tests stands neither in the file nor in a module of support "
                f"that it names, so that `make test-slow` would not run them: {names}"
            )
