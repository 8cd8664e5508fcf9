"""A pytest plugin: it leaves out the cases of ``USERS_LEFT_OUT`` and writes every outcome.

It runs inside the environment of a suite, and so it needs nothing but pytest. The outcomes go to
the file that ``USERS_RECORD`` names: for each case ``outcome`` and ``reason``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

_outcomes: dict[str, dict[str, str]] = {}


def pytest_configure(config: pytest.Config) -> None:
    # vLLM's tests free the memory of an accelerator after each case, and fail where there is none.
    config.addinivalue_line("markers", "skip_global_cleanup: no accelerator is needed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    left_out: dict[str, str] = json.loads(os.environ["USERS_LEFT_OUT"])
    kept = []
    for item in items:
        item.add_marker("skip_global_cleanup")
        reasons = [reason for part, reason in left_out.items() if part in item.nodeid]
        if reasons:
            _outcomes[item.nodeid] = {"outcome": "left out", "reason": reasons[0]}
        else:
            kept.append(item)
    items[:] = kept


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if not report.passed:
        outcome = "skipped" if report.skipped else "failed"
        _outcomes[report.nodeid] = {"outcome": outcome, "reason": _reason(report)}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if hasattr(report, "wasxfail"):
        outcome = "passed"  # the suite expects this failure
    elif report.skipped or report.failed or report.when == "call":
        outcome = report.outcome
    else:
        return
    known = _outcomes.get(report.nodeid)
    if known is None or known["outcome"] == "passed":  # subtests and teardowns report, too
        _outcomes[report.nodeid] = {"outcome": outcome, "reason": _reason(report)}


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if report.passed:
        return ""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr)


def pytest_sessionfinish() -> None:
    Path(os.environ["USERS_RECORD"]).write_text(json.dumps(_outcomes, indent=1), "utf-8")
