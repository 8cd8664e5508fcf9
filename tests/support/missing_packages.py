"""Tests that fail because a package is not installed are skipped; one line names the packages.

Whoever changes the core needs pytest and Hypothesis, but neither PyTorch nor PostgreSQL. With
HARMONY_TEST_ALL=1, as in `make test`, a missing package is a failure, also for
`pytest.importorskip`: a test that needs a package of the extra ``dev-all`` alone is a slow one.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from importlib import metadata
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

OURS = ("gpt_oss_harmony", "support")
FOLDERS = (
    "<doctest ",
    *(
        str(Path(__file__).parents[2] / name)
        for name in ("src", "tests", "scripts", "benchmarks", "docs", "examples", "fuzz", "README")
    ),
)
"""What the names of our own files begin with."""

NOT_OURS = frozenset({"megatron", "renderers", "tinker_cookbook", "unsloth", "verl"})
"""Packages that no extra brings."""

NEWER_PYTHON = frozenset({"agents", "peft", "ray", "trl"} if sys.version_info < (3, 11) else ())
"""Packages that the extras bring for a newer Python than this one."""

_IMPORTORSKIP = pytest.importorskip


class MissingPackages(MetaPathFinder):
    """A plugin of pytest, and the last finder in `sys.meta_path`: what it is asked for is missing.

    Only imports by our own files count; other libraries try packages that they can do without.
    """

    def __init__(self, folders: tuple[str, ...] = FOLDERS) -> None:
        self._folders = folders
        self._missing: set[str] = set()  # since the current file or test began
        self._skipped: list[str] = []

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Note the package, and find nothing."""
        package = name.partition(".")[0]
        frame = sys._getframe(1)
        while frame.f_back and "importlib" in frame.f_code.co_filename:
            if "util" in frame.f_code.co_filename:
                return None  # a look whether it is there, which needs nothing
            frame = frame.f_back
        if package not in OURS and frame.f_code.co_filename.startswith(self._folders):
            self._missing.add(package)
        return None

    def importorskip(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Do what `pytest.importorskip` does, and note the package for the line at the end."""
        try:
            return _IMPORTORSKIP(name, *arguments, **options)
        except pytest.skip.Exception:
            package = name.partition(".")[0]
            self._skipped += {package} - {*OURS, *NOT_OURS}
            raise

    def _skip(self, report: pytest.CollectReport | pytest.TestReport, path: Path) -> None:
        if report.failed and self._missing:
            names = ", ".join(sorted(self._missing))
            report.outcome = "skipped"
            report.longrepr = (str(path), 0, f"not installed: {names}")
            self._skipped += self._missing

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Skip a file that cannot be imported."""
        self._missing = set()
        loaded = set(sys.modules)
        report = yield
        self._skip(report, collector.path)
        if report.skipped:
            # pytest leaves modules in `sys.modules` that raised an error while they were imported.
            for name in set(sys.modules) - loaded:
                if name.startswith(OURS):
                    del sys.modules[name]
        return report

    def pytest_runtest_logstart(self) -> None:
        """Forget what earlier tests lacked."""
        self._missing = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Skip a test that fails."""
        report = yield
        self._skip(report, item.path)
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was missing."""
        if self._skipped:
            names = ", ".join(sorted(set(self._skipped)))
            terminalreporter.write_line(
                "Some test files or tests were skipped, because these packages are not installed: "
                f"{names}. {remedy_for(self._skipped)}",
                yellow=True,
            )


def remedy_for(packages: Iterable[str]) -> str:
    """Name the extras that bring the packages with the fewest others."""
    brought = packages_of_extras()
    needed: set[str] = set()
    for package in packages:
        fitting = [extra for extra, names in brought.items() if package in names]
        needed.add(min(fitting, key=lambda extra: len(brought[extra]), default="dev-all"))
    if "dev-all" in needed or any("torch" in brought[extra] for extra in needed):
        return "`make test` and `make test-slow` install them."
    if "dev" in needed:
        return "`make test` installs them."
    largest = [one for one in needed if not any(brought[one] < brought[more] for more in needed)]
    return f'`make quick NEEDS="{" ".join(sorted(largest))}" FILE=...` installs them.'


def packages_of_extras() -> dict[str, set[str]]:
    """Return the names under which the packages of each extra are imported, as far as they tell."""
    pattern = re.compile(r"""([\w.-]+)(?:\[([\w,-]+)\])?.*extra == ["']([\w-]+)["']""")
    brought: dict[str, set[str]] = {}
    included: dict[str, set[str]] = {}
    for line in metadata.requires("gpt-oss-harmony") or []:
        if found := pattern.match(line):
            name, extras, extra = found.groups()
            if name == "gpt-oss-harmony":
                included.setdefault(extra, set()).update(extras.split(","))
            else:
                brought.setdefault(extra, set()).add(name.replace("-", "_").lower())
    for extra in included:
        waiting = [extra]
        while waiting:
            for one in included.get(waiting.pop(), ()):
                brought.setdefault(extra, set()).update(brought.get(one, ()))
                waiting.append(one)
    return brought


def _replace_importorskip(config: pytest.Config, replacement: Callable[..., Any]) -> None:
    before = pytest.importorskip
    vars(pytest)["importorskip"] = replacement
    config.add_cleanup(lambda: vars(pytest).update(importorskip=before))


def _import_all(config: pytest.Config) -> None:
    """Let `pytest.importorskip` skip nothing that the extras bring."""

    def imported(name: str, *arguments: Any, **options: Any) -> Any:
        if name.partition(".")[0] in NOT_OURS | NEWER_PYTHON:
            return _IMPORTORSKIP(name, *arguments, **options)
        return importlib.import_module(name)

    _replace_importorskip(config, imported)


def skip_what_is_not_installed(config: pytest.Config, folders: tuple[str, ...] = FOLDERS) -> None:
    """Register the plugin, unless missing packages are failures."""
    if os.environ.get("HARMONY_TEST_ALL"):
        _import_all(config)
    else:
        plugin = MissingPackages(folders)
        config.pluginmanager.register(plugin)
        sys.meta_path.append(plugin)
        config.add_cleanup(lambda: sys.meta_path.remove(plugin))
        _replace_importorskip(config, plugin.importorskip)
