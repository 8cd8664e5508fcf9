"""``harmony prepare``: options in, a folder out, one line for what is wrong."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from openai_harmony.apis.current_date import TODAY
from openai_harmony.cli import main
from openai_harmony.cli.prepare import PREPARE
from support.training_conversations import conversation

pq = pytest.importorskip("pyarrow.parquet")

CHAT = {
    "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}],
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    rows = [CHAT, conversation("suafuaf").to_dict(), {"text": "hi"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_it_reports_what_it_made(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = source.parent / "out"
    assert main(["prepare", str(source), "--out", str(out), "--workers", "1"]) == 0
    printed, errors = capsys.readouterr()
    assert printed.startswith(
        "3 rows (1 chat, 1 harmony), 1 rejected\n"
        "  1 × neither … nor … among the fields …\n"
        "3 examples in 3 sequences\n"
    )
    assert printed.endswith(
        f"{out}/data has the examples, {out}/rejected.jsonl the rejected rows\n"
    )
    assert errors == ""
    assert pq.read_table(out / "data").num_rows == 3


def test_options_reach_the_examples(source: Path) -> None:
    out = source.parent / "out"
    options = ["--turns", "last", "--channels", "final", "--context-length", "300", "--pack"]
    more = ["--loss-weights", "--date", "2025-06-28", "--workers", "1"]
    more += ["--columns", "labels", "attention_mask", "--format", "megatron"]
    assert main(["prepare", str(source), "--out", str(out), *options, *more]) == 0
    settings = json.loads((out / ".harmony" / "manifest.json").read_text())["settings"]
    assert settings == {
        "training": {
            "turns": "last",
            "channels": ["final"],
            "keep_past_reasoning": False,
            "context_length": 300,
            "header_style": "guide",
            "schema_dialect": "typescript",
        },
        "form": None,
        "start_date": "2025-06-28",
        "pack": True,
        "loss_weights": True,
        "columns": ["labels", "attention_mask"],
        "megatron": True,
    }
    assert (out / "megatron" / "labels.idx").exists()
    (row,) = pq.read_table(out / "data").to_pylist()
    assert len(row["seq_lengths"]) == 2


def test_who_watches_sees_a_bar(
    source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert (
        main(["prepare", str(source), "--out", str(source.parent / "out"), "--workers", "1"]) == 0
    )
    errors = capsys.readouterr().err
    size = f"{source.stat().st_size / 1000:.2f}k"
    assert "prepare: 100%" in errors
    assert f"{size}/{size}" in errors


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        (["rows.csv"], 1, "rows.csv: not a file of rows; give JSON lines as .jsonl"),
        (["none.jsonl"], 1, "none.jsonl: no such file"),
        (["none.jsonl", "--pack"], 1, "--pack needs --context-length"),
        (["none.jsonl", "--workers", "0"], 2, "'0' is not a number of 1 or more"),
        (["none.jsonl", "--date", "soon"], 2, "'soon' is no date; write YYYY-MM-DD, YYYY-"),
    ],
)
def test_errors_are_one_line(
    tmp_path: Path, options: list[str], code: int, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    assert main(["prepare", "--out", out, *options]) == code
    errors = capsys.readouterr().err
    assert problem in errors
    assert errors.count("\n") == 1


def test_an_output_that_cannot_be_written_is_named(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = source / "out"  # inside of a file
    source = source.with_name("other.jsonl")
    source.write_text("{}\n")
    assert main(["prepare", str(source), "--out", str(out)]) == 1
    problem = f"harmony: error: cannot write the output: {out}: Not a directory\n"
    assert capsys.readouterr().err == problem


def test_the_date_is_todays_unless_given() -> None:
    parser = argparse.ArgumentParser()
    PREPARE.add_arguments(parser)
    given = ["x", "--out", "y"]
    assert parser.parse_args(given).date == TODAY
    for text, date in [("none", None), ("today", TODAY), ("field:day", "field:day")]:
        assert parser.parse_args([*given, "--date", text]).date == date
