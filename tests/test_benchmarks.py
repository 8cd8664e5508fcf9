"""The benchmark command: its work can be done, and its page shows what was measured.

No time is compared here.
"""

from __future__ import annotations

import doctest
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs" / "understand"


@pytest.fixture(scope="module", autouse=True)
def _root_on_path() -> Any:
    before = list(sys.path)
    sys.path.insert(0, str(ROOT))
    yield
    sys.path[:] = before


def module(name: str) -> Any:
    return importlib.import_module(f"benchmarks.{name}")


@pytest.mark.parametrize("name", ["breakdown", "grammars", "measure", "table"])
def test_the_examples_in_docstrings(name: str) -> None:
    failed, attempted = doctest.testmod(module(name))
    assert attempted > 0
    assert failed == 0


def test_every_workload_does_its_work() -> None:
    workloads = module("workloads")
    for name, make in (workloads.WORKLOADS | workloads.TEXT_WORKLOADS).items():
        workload = make()
        units = [workload.work(workload.prepare(run)) for run in range(2)]
        assert min(units) > 0, name
        assert workload.unit in module("table").SHOWN_UNITS, name


def test_texts_are_made_of_what_they_are_named_after() -> None:
    workloads = module("workloads")
    encoding = workloads.ENCODING
    for name in workloads.TEXTS:
        tokens = workloads.text_tokens(name, 1000)
        assert 1000 <= len(tokens) < 1300, name
        assert tokens == workloads.text_tokens(name, 1000), name
        assert encoding.encode(encoding.decode_utf8(tokens)) == tokens, name
        split = sum("\ufffd" in encoding.decode([token]) for token in tokens) / len(tokens)
        if name == "split characters":
            assert split == 1
        else:
            assert (split > 0.4) == (name in module("table").SPLIT_TEXTS), name


def test_every_sweep_takes_any_size() -> None:
    sweeps = module("workloads").SWEEPS
    assert sweeps.keys() == module("run").SWEEP_SIZES.keys()
    for name, make in sweeps.items():
        for size in (1, 20):
            workload = make(size)
            assert workload.work(workload.prepare(0)) in (1, module("workloads").AT_ONCE), name


def test_every_floor_is_about_a_row() -> None:
    table = module("table")
    others = {
        table.SPEEDUP,
        table.FIRST_PARSE,
        table.FIRST_RENDER,
        table.MEMORY_LOADED,
        table.MEMORY_RENDERED,
    }
    workloads = module("workloads")
    measured = workloads.WORKLOADS.keys() | workloads.TEXT_WORKLOADS.keys()
    assert table.FLOORS.keys() <= others | measured
    assert workloads.TEXT_WORKLOADS.keys() <= table.FLOORS.keys()


def test_the_worker_answers_runs() -> None:
    measure = module("measure")
    effort = measure.Effort(rounds=2, budget=0, fewest=2)
    with measure.started_workers({"ours": dict(os.environ)}) as workers:
        samples = measure.workload_samples(workers, "batch parse, emoji", None, effort)
    assert samples.unit == "token"
    assert len(samples.runs["ours"]) == 2


@pytest.mark.parametrize("stage", ["load", "parse", "render"])
def test_a_new_process_tells_its_memory(stage: str) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "fresh.py"), stage]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(output) >= 0


def test_rows_compare_with_the_faster_peer() -> None:
    table, measure = module("table"), module("measure")
    runs = {"ours": [1e-9, 2e-9, 9e-9], "reference": [20e-9], "fork": [14e-9]}
    row = table.row("stream, code", measure.Samples("token", runs))
    assert row.medians == pytest.approx({"ours": 2, "reference": 20, "fork": 14})
    assert row.ratio == pytest.approx(7)
    assert not row.is_below
    shown = ["stream, code", "ns/token", "2", "20", "14", "7×", "6×"]
    assert table.cells(row) == shown


def test_a_row_without_peers_has_no_ratio() -> None:
    table, measure = module("table"), module("measure")
    row = table.row("decode", measure.Samples("token", {"ours": [2e-9]}))
    assert table.cells(row)[3:6] == ["–", "–", "–"]
    assert not row.is_below


def test_two_threads_are_compared_with_one() -> None:
    table, measure = module("table"), module("measure")
    rows = [
        table.row(table.IN_TURN, measure.Samples("prompt", {"ours": [0.006]})),
        table.row(table.THREADS, measure.Samples("prompt", {"ours": [0.004]})),
    ]
    gain = table.speedup(rows)
    assert gain.medians["ours"] == pytest.approx(1.5)
    assert table.speedup(rows[:1]) is None


def test_slow_rows_are_marked() -> None:
    table, measure = module("table"), module("measure")
    runs = {"ours": [2e-9], "reference": [10e-9]}
    row = table.row("stream, code", measure.Samples("token", runs))
    assert row.is_below
    assert table.cells(row)[-1] == "6× (below)"


@pytest.mark.slow
def test_threads_of_tiktoken_are_measured() -> None:
    rows = module("threads").thread_rows(1)
    cells = module("threads").cells(rows)
    assert len(cells) == 5
    assert cells[0][2] == "1.00"


@pytest.mark.parametrize("name", ["stream", "parse", "render"])
def test_work_in_two_threads_is_measured(name: str) -> None:
    assert module("threads").seconds(name, threads=2, seed=0) > 0


def test_the_page_shows_the_measurements() -> None:
    data = json.loads((DOCS / "benchmarks.json").read_text(encoding="utf-8"))
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    table = module("table")
    assert table.with_sections(page, data) == page
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert table.with_sections(readme, data, table.README_SECTIONS) == readme
    assert (DOCS / "benchmarks.svg").exists()


def test_the_breakdown_adds_up() -> None:
    data = json.loads((DOCS / "benchmarks.json").read_text(encoding="utf-8"))
    works = {item["work"] for item in data["breakdown"]}
    assert works == {*module("breakdown").PROFILED, module("breakdown").STREAM}
    for work in works:
        shares = [item["share"] for item in data["breakdown"] if item["work"] == work]
        assert sum(shares) == pytest.approx(1), work


def test_each_completion_is_a_turn_under_its_grammar() -> None:
    worker, inputs = module("grammar_worker"), module("grammar_inputs")
    engine = worker.Ours()
    make = engine.compile(engine.write(inputs.tools(0, 12)))
    for tokens in inputs.COMPLETIONS.values():
        assert len(worker.along(make(), tokens)) == len(tokens)


def test_rows_of_grammars_tell_what_is_above_its_limit() -> None:
    grammars = module("grammars")
    compiled = {"12 tools": {"write": [0.004], "compile": [0.008]}}
    ours = {"masks": {"prose": [1e-5] * 99 + [1e-3]}, "compilations": compiled}
    rows = grammars.grammar_rows({"ours": ours})
    cells = [grammars.cells(dict(zip(grammars.HEADINGS, row, strict=True))) for row in rows]
    assert [[work, *numbers] for work, _, *numbers in cells] == [
        ["mask, prose: median", "10", "–", "20"],
        ["mask, prose: p99", "990", "–", "200 (above)"],
        ["write and compile 12 tools", "12", "–", "10 (above)"],
        ["compile 12 tools", "8", "–", "–"],
    ]


def test_rows_of_the_benchmark_of_training_give_examples() -> None:
    from gpt_oss_harmony.training import row_examples

    for row in module("training").rows(0, 3):
        _, made = row_examples(row)
        assert made.examples
