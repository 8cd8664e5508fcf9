"""What the soak calls a slope, and one short run of it; its figures depend on the machine."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

pytest.importorskip("matplotlib")
soak: Any = importlib.import_module("benchmarks.soak")

STEADY = {"memory": 300.0, "descriptors": 25, "threads": 14, "rows": 60, "median": 700, "p99": 900}


def samples(name: str, rise: float) -> list[dict[str, float]]:
    """A hundred measurements of which one series rises, in all, by so much behind its warm part."""
    return [
        {**STEADY, "seconds": float(number), name: STEADY[name] + rise * number / 79}
        for number in range(100)
    ]


@pytest.mark.parametrize(
    ("name", "noise", "slope"),
    [
        ("memory", 14, 16),
        ("descriptors", 9, 11),
        ("threads", 4, 6),
        ("rows", 190, 210),
        ("median", 340, 1100),
        ("p99", 400, 1400),
    ],
)
def test_what_rises_by_more_than_noise_is_a_slope(name: str, noise: float, slope: float) -> None:
    assert soak.problems(samples(name, noise), []) == []
    (problem,) = soak.problems(samples(name, slope), [])
    assert problem.startswith(f"{name} rose by ")


def test_failures_are_problems_and_so_are_too_few_measurements() -> None:
    assert soak.problems(samples("memory", 0), ["chat at 3 s"]) == ["chat at 3 s"]
    assert soak.problems([], []) == ["0 measurements are too few for a slope"]


def test_the_picture_has_a_panel_for_each_series(tmp_path: Any) -> None:
    soak.draw({"samples": samples("rows", 9), "faults": [(9, "kill")]}, tmp_path / "soak.svg")
    drawn = (tmp_path / "soak.svg").read_text()
    assert all(f">{name}" in drawn for name in soak.SERIES)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it ends servers by signals")
def test_a_short_run_breaks_things_and_no_request_fails_otherwise(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak, "AFTERMATH", 2)
    monkeypatch.setattr(soak, "AWAY", 1)
    with soak.running_postgres() as server, soak.new_database(server) as url:
        run = soak.Soak(url, tmp_path, seed=0)
        run.run(seconds=16, every=4)
    order = ["kill", "restart", "take database away"]  # a busy machine comes to fewer of them
    found = [name for _, name in run.faults]
    assert found
    assert found == order[: len(found)]
    assert run.failures == []
    kinds = {name for name in run.counts if "," not in name}
    assert kinds >= {"stored", "streamed", "background", "cancelled", "called", "structured"}
