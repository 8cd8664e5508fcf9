"""``harmony prepare``: options in, a folder out, one line for what is wrong."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from gpt_oss_harmony.apis.current_date import TODAY
from gpt_oss_harmony.cli import main
from gpt_oss_harmony.cli.prepare import PREPARE
from support.training_conversations import conversation

pq = pytest.importorskip("pyarrow.parquet")

from gpt_oss_harmony.training.files import Shard, processes  # noqa: E402
from gpt_oss_harmony.training.files.processes import OnRead, ShardJob, WorkerError  # noqa: E402

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
    assert main(["prepare", str(source), "--output", str(out), "--workers", "1"]) == 0
    printed, errors = capsys.readouterr()
    assert printed.startswith(
        "3 rows (1 chat, 1 harmony), 1 rejected (33%)\n"
        "  1 × the row has no messages\n"
        "3 examples in 3 sequences\n"
    )
    assert printed.endswith(
        f"{out}/data has the examples, {out}/rejected.jsonl has the rejected rows\n"
    )
    problem = f"1 of 3 rows are rejected; {out}/rejected.jsonl has the reasons"
    assert errors == f"harmony: warning: {problem}\n"
    assert pq.read_table(out / "data").num_rows == 3


def test_the_first_examples_are_shown_and_nothing_is_written(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = "<|start|>assistant⟦<|channel|>final<|message|>ho<|return|>⟧"
    assert main(["prepare", str(source), "--show", "2"]) == 0
    printed, errors = capsys.readouterr()
    first, second = printed.split("example ")[1:]
    assert first.startswith("1, of row 1: ")
    assert f"<|start|>user<|message|>hi<|end|>{answer}" in first
    assert second.startswith("2, of row 2: ")
    assert second.count("⟦") == second.count("⟧") > 0
    assert errors == ""
    assert list(source.parent.iterdir()) == [source]
    assert main(["prepare", str(source), "--show", "9"]) == 0
    assert "row 3 is rejected: the row has no messages" in capsys.readouterr().out


def test_without_an_example_there_is_nothing_to_show(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source.write_text("null\n")
    assert main(["prepare", str(source), "--show", "1"]) == 1
    assert capsys.readouterr().err == f"harmony: error: {source}: no row gives an example\n"


def test_an_address_is_an_output(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = f"file://{source.parent}/out"
    assert main(["prepare", str(source), "--output", out, "--workers", "1"]) == 0
    assert f"{out}/data has the examples" in capsys.readouterr().out
    assert pq.read_table(source.parent / "out" / "data").num_rows == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "rows.jsonl: there are no rows in it; expected a conversation in each row"),
        (
            'null\n[]\n\n""\nnull\n',
            "no row gives an example (2 × the row is null, 1 × messages is empty, "
            "1 × the row is text); the first is "
            "rows.jsonl:1: the row is null; expected an object with messages; ",
        ),
    ],
)
def test_no_examples_are_an_error(
    tmp_path: Path,
    text: str,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text(text)
    assert main(["prepare", "rows.jsonl", "--output", "out", "--quiet"]) == 1
    printed, errors = capsys.readouterr()
    assert printed == ""
    assert problem in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_names_the_command_that_resumes(
    source: Path,
    number: int,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr("gpt_oss_harmony.training.files.prepare", interrupted)
    before = signal.getsignal(number)
    with contextlib.suppress(SystemExit) if code == 143 else contextlib.nullcontext():
        assert main(["prepare", str(source), "--output", "a folder"]) == code
    assert signal.getsignal(number) is before
    resume = f"harmony prepare {source} --output 'a folder'\n"
    kept = "0 shards are done, so the same command starts again"
    assert capsys.readouterr().err == f"harmony: stopped; {kept}: {resume}"


def test_a_stopped_preparation_counts_the_shards_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "rows"
    source.mkdir()
    for name in "abc":
        (source / f"{name}.jsonl").write_text(json.dumps(CHAT) + "\n")
    run = ["prepare", str(source), "--output", str(tmp_path / "out")]
    again = f"harmony prepare {source} --output {tmp_path / 'out'}"

    def interrupted_after(count: int) -> processes.Runner:
        def runner(jobs: Sequence[ShardJob], _: OnRead | None) -> Generator[Shard, None, None]:
            for job in jobs[:count]:
                yield job.run()
            raise KeyboardInterrupt

        return runner

    for count, kept in [
        (0, "0 of 3 shards are done, so the same command starts again"),
        (1, "1 of 3 shards are done and kept. To resume, run"),
    ]:
        runner = interrupted_after(count)
        monkeypatch.setattr("gpt_oss_harmony.training.files.process_runner", lambda _, r=runner: r)
        assert main(run) == 130
        assert capsys.readouterr().err == f"harmony: stopped; {kept}: {again}\n"
    everything = processes.local_runner(1)
    monkeypatch.setattr("gpt_oss_harmony.training.files.process_runner", lambda _: everything)
    assert main(run) == 0
    assert capsys.readouterr().err == "harmony: resuming: 1 of 3 shards are done\n"


def test_many_rejected_rows_can_be_an_error(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for share, code, problem in [
        ("50%", 0, ""),
        ("0.1", 1, "1 of 3 rows are rejected, more than --max-rejected 10%; "),
        ("1 in 3", 2, "'1 in 3' is not a share; write a percentage such as 1%"),
        ("101%", 2, "'101%' is not a share"),
    ]:
        out = str(source.parent / share)
        options = ["--output", out, "--quiet", "--max-rejected", share, "--workers", "1"]
        assert main(["prepare", str(source), *options]) == code
        errors = capsys.readouterr().err
        assert problem in errors if problem else errors == ""


def test_a_report_without_examples_says_everything_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "rows.jsonl", tmp_path / "out"
    source.write_text("null\n")
    assert main(["prepare", str(source), "--output", str(out)]) == 1
    printed, errors = capsys.readouterr()
    reason = "the row is null"
    assert printed == (
        f"1 row, 1 rejected (100%)\n  1 × {reason}\n0 examples\n\n"
        f"rejected: {source}:1: {reason}; expected an object with messages\n"
    )
    problem = "no row gives an example; the reasons are in the report and in"
    assert errors == f"harmony: error: {source}: {problem} {out}/rejected.jsonl\n"


def test_a_channel_that_is_almost_one_is_a_warning(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["prepare", str(source), "--output", str(source.parent / "out"), "--quiet"]
    assert main([*run, "--channels", "final", "mine", "Analisys"]) == 0
    warning = "harmony: warning: --channels Analisys: did you mean analysis?\n"
    assert capsys.readouterr().err.startswith(warning)


def test_an_output_folder_that_cannot_be_used_is_named(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = source.with_name("other")
    other.write_text("")
    for out, problem in [
        (other, f"{other} is a file; give a folder for the output"),
        (source, f"{source} is the input itself; give another folder for the output"),
        (source.parent, f"{source.parent} is not empty; give another folder for the output"),
        (
            source / "out",
            f"{source}/out is inside {source}; give a folder elsewhere for the output",
        ),
    ]:
        assert main(["prepare", str(source), "--output", str(out)]) == 1
        assert capsys.readouterr().err == f"harmony: error: --output {problem}\n"


def test_a_second_signal_ends_the_program_at_once(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []

    def interrupted(*_: object, **__: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGTERM)  # while it cleans up

    monkeypatch.setattr("gpt_oss_harmony.training.files.prepare", interrupted)
    monkeypatch.setattr("os._exit", codes.append)
    assert main(["prepare", str(source), "--output", "out"]) == 130
    assert codes == [143]


def test_a_program_in_the_background_ignores_ctrl_c(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        out = str(source.parent / "out")
        monkeypatch.setattr(
            "gpt_oss_harmony.training.files.process_runner",
            lambda _: signal.raise_signal(signal.SIGINT),
        )
        assert main(["prepare", str(source), "--output", out, "--quiet"]) == 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_killed_worker_is_an_error_with_a_remedy(
    source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise WorkerError("a worker process was killed")

    monkeypatch.setattr("gpt_oss_harmony.training.files.prepare", killed)
    assert main(["prepare", str(source), "--output", "out"]) == 1
    assert capsys.readouterr().err.endswith(
        "a worker process was killed, usually for lack of memory; repeat the command with fewer "
        "--workers or a smaller --max-row-bytes to resume\n"
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="has no process groups")
def test_ctrl_c_does_not_wait_for_a_long_row(tmp_path: Path) -> None:
    answer = {"role": "assistant", "content": "a word " * 3_000_000}  # many seconds of work
    source, out = tmp_path / "rows.jsonl", tmp_path / "out"
    source.write_text(json.dumps({"messages": [answer]}) + "\n")
    command = [
        sys.executable,
        "-m",
        "gpt_oss_harmony",
        "prepare",
        str(source),
        "--output",
        str(out),
    ]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        while not any(out.glob(".harmony/*.rejected.jsonl.*.tmp")) and process.poll() is None:
            time.sleep(0.01)  # until a worker has begun
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert re.fullmatch(
        r"harmony: stopped; \d of 6 shards are done.*: harmony prepare .*\n", errors
    )
    assert not any(out.rglob("*.tmp"))
    assert not any(out.rglob("*.parquet"))


def test_options_reach_the_examples(source: Path) -> None:
    out = source.parent / "out"
    options = ["--turns", "last", "--channels", "final", "--context-length", "300", "--pack"]
    more = ["--loss-weights", "--date", "2025-06-28", "--workers", "1"]
    more += ["--columns", "labels", "attention_mask", "--format", "megatron"]
    more += ["--deduplicate", "exact", "--reject", "empty", "markup", "--max-row-bytes", "2M"]
    more += ["--max-unpacked-ratio", "30", "--max-unpacked-bytes", "5g"]
    assert main(["prepare", str(source), "--output", str(out), *options, *more]) == 0
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
        "reject": ["empty", "markup"],
        "deduplicate": "exact",
        "similarity": 0.8,
        "row_bytes": 2 * 1024**2,
        "unpacked_ratio": 30,
        "unpacked_bytes": 5 * 1024**3,
        "source_field": None,
        "pack": True,
        "one_sequence": False,
        "loss_weights": True,
        "columns": ["labels", "attention_mask"],
        "megatron": True,
    }
    assert (out / "megatron" / "labels.idx").exists()
    (row,) = pq.read_table(out / "data").to_pylist()
    assert len(row["seq_lengths"]) == 2


def test_files_that_are_not_read_are_a_warning(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = source.parent, str(source.parent.with_name("out"))
    (folder / "a\x1b[31m.csv").touch()
    (folder / "c.json").touch()
    warning = (
        "harmony: warning: 2 files are not read: a?[31m.csv, c.json; rows are read from JSON lines "
        "and Parquet\n"
    )
    assert main(["prepare", str(folder), "--show", "1"]) == 0
    assert capsys.readouterr().err == warning
    run = ["prepare", str(folder), "--output", out, "--workers", "1"]
    assert main([*run, "--quiet"]) == 0
    assert capsys.readouterr().err.startswith(warning)
    assert main(run) == 0
    shown = capsys.readouterr()
    assert shown.err.count(warning) == 1
    assert shown.out.count("2 files are not read: a?[31m.csv, c.json\n") == 1
    source.write_text("")
    assert main(["prepare", str(folder), "--output", f"{out}2", "--workers", "1"]) == 1
    assert warning in capsys.readouterr().err


def test_fields_that_are_not_learned_are_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    source = tmp_path / "a\x1b[31m.jsonl"
    source.write_text(json.dumps({"messages": messages, "na\x1b[2Jme": 7}) + "\n{\n")
    out = str(tmp_path / "out")
    assert main(["prepare", str(source), "--output", out, "--workers", "1"]) == 0
    shown = capsys.readouterr()
    assert "harmony: warning: fields that are in no example: na\\x1b[2Jme; the" in shown.err
    assert "rows with fields that are in no example:\n  1 × na?[2Jme\n" in shown.out
    assert "a\\x1b[31m.jsonl:2: not valid JSON" in shown.out
    assert "\x1b" not in shown.out + shown.err
    missing = str(tmp_path / "b\x1b[31m.jsonl")
    assert main(["prepare", missing, "--output", out]) == 2
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize("size", ["0", "x", "1.5M", "-1", "1Q"])
def test_sizes_that_are_none(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["prepare", "a.jsonl", "--output", "out", "--max-row-bytes", size]
    assert main(arguments) == 2
    assert f"{size!r} is not a size" in capsys.readouterr().err or size == "-1"


def test_who_watches_sees_a_bar(
    source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    out = str(source.parent / "out")
    assert main(["prepare", str(source), "--output", out, "--workers", "1"]) == 0
    errors = capsys.readouterr().err
    size = f"{source.stat().st_size / 1000:.2f}k"
    assert "read: 100%" in errors
    assert f"{size}/{size}" in errors


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        (["rows.csv"], 2, "error: rows.csv: no such file; files that end in .csv are not read"),
        (["none.jsonl"], 2, "none.jsonl: no such file"),
        (["-"], 2, "standard input cannot be read again to resume; save it to a file"),
        (["none.jsonl", "--pack"], 2, "--pack needs --context-length"),
        (
            ["none.jsonl", "--format", "megatron", "--columns", "attention_mask"],
            2,
            "--format megatron needs the column labels; add it to --columns",
        ),
        (["none.jsonl", "--workers", "0"], 2, "must be an integer from 1, not 0"),
        (["none.jsonl", "--date", "soon"], 2, "'soon' is not a date; write YYYY-MM-DD, YYYY-"),
    ],
)
def test_errors_are_one_line(
    tmp_path: Path, options: list[str], code: int, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    assert main(["prepare", "--output", out, *options]) == code
    errors = capsys.readouterr().err
    assert problem in errors
    assert errors.count("\n") == 1


def test_an_output_that_cannot_be_written_is_named(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = source / "out"  # inside of a file
    source = source.with_name("other.jsonl")
    source.write_text("{}\n")
    assert main(["prepare", str(source), "--output", str(out)]) == 1
    problem = f"harmony: error: cannot write the output: {out}: Not a directory; give a folder"
    assert capsys.readouterr().err.startswith(problem)


def test_the_date_is_todays_unless_given() -> None:
    parser = argparse.ArgumentParser()
    PREPARE.add_arguments(parser)
    given = ["x", "--output", "y"]
    assert parser.parse_args(given).date == TODAY
    for text, date in [("none", None), ("today", TODAY), ("field:day", "field:day")]:
        assert parser.parse_args([*given, "--date", text]).date == date
