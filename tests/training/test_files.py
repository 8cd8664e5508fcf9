"""Files to files: every row is in the output or among the rejected, whoever makes the parts."""

from __future__ import annotations

import contextlib
import hashlib
import html
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony import load_harmony_encoding
from gpt_oss_harmony.apis.current_date import TODAY, current_date
from gpt_oss_harmony.training import IGNORED, TrainingOptions, training_examples
from support.training_conversations import conversation, spoken

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
pq = pytest.importorskip("pyarrow.parquet")

from gpt_oss_harmony.training.files import (  # noqa: E402
    Chunk,
    PrepareSettings,
    Progress,
    TokenReport,
    find_chunks,
    find_files,
    prepare,
    process_runner,
    processes,
)
from gpt_oss_harmony.training.files.addresses import (  # noqa: E402
    OutputError,
    OutputFolderError,
    RemotePath,
    SourceError,
)
from gpt_oss_harmony.training.files.preparation import finished_shards  # noqa: E402
from gpt_oss_harmony.training.files.processes import ShardJob, WorkerError  # noqa: E402
from gpt_oss_harmony.training.files.report import write_plot  # noqa: E402
from gpt_oss_harmony.training.files.shards import Shard  # noqa: E402
from gpt_oss_harmony.training.files.sources import TEMPORARY, read_chunk  # noqa: E402

ENCODING = load_harmony_encoding("HarmonyGptOss")

CONVERSATIONS = ["suf", "suafuaf", "stuacraf", "uf", "sdupcrf"] * 8
ROWS: list[Any] = [conversation(letters).to_dict() for letters in CONVERSATIONS]


def write_jsonl(path: Path, rows: Sequence[Any] = ROWS) -> Path:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def digests(out: Path) -> dict[str, str]:
    """All files of an output but what says which files it was made of."""
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


def examples_and_report(out: Path) -> dict[str, str]:
    """All files of an output in which no name of the source stands."""
    result = digests(out)
    names = ("data", "report.json", "README")
    return {name: result[name] for name in result if name.startswith(names)}


def table(out: Path) -> Any:
    return pa.concat_tables(pq.read_table(path) for path in sorted((out / "data").iterdir()))


def rejected(out: Path) -> list[dict[str, Any]]:
    path = out / "rejected.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    assert bool(lines) == path.exists()  # without rejected rows there is no file
    return [json.loads(line) for line in lines]


def test_rows_become_examples_in_their_order(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "rows.jsonl")
    made = prepare(source, tmp_path / "out", workers=1, chunk_bytes=4000)
    expected = [e for letters in CONVERSATIONS for e in training_examples(conversation(letters))]
    result = table(tmp_path / "out").to_pylist()
    assert len(list((tmp_path / "out" / "data").iterdir())) > 5
    assert [row["input_ids"] for row in result] == [list(e.input_ids) for e in expected]
    assert [row["labels"] for row in result] == [list(e.labels) for e in expected]
    assert [row["assistant_masks"] for row in result] == [e.assistant_masks() for e in expected]
    report = made.report
    assert (report.rows, report.rejected, report.examples) == (40, 0, len(expected))
    assert report.tokens.total() == sum(map(len, expected))
    assert report.trainable.total() == sum(e.trainable_tokens for e in expected)
    assert report.lengths.total() == len(expected)
    assert set(report.trainable) == {"analysis", "commentary", "final"}


@pytest.mark.parametrize("chunk_bytes", [1, 7, 500, 10**6])
def test_chunks_hold_each_row_once(tmp_path: Path, chunk_bytes: int) -> None:
    rows = [{"n": index, "text": "é" * (index % 5)} for index in range(30)]
    source = write_jsonl(tmp_path / "rows.jsonl", rows)
    chunks = find_chunks(find_files(source), chunk_bytes)
    assert [row.raw for chunk in chunks for row in read_chunk(chunk)] == rows


def test_lines_without_an_end_and_with_a_mark_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"n": 1}\r\n\n{"n": 2}')
    (chunk,) = find_chunks(find_files(path))
    assert [(row.number, row.raw) for row in read_chunk(chunk)] == [
        (0, {"n": 1}),
        (1, None),
        (2, {"n": 2}),
    ]


BAD = [
    ("{", "not valid JSON"),
    ('"text"', "expected an object"),
    ('{"messages": []}', "messages is empty; write the messages"),
    ('{"conversations": "[]"}', "conversations is empty"),
    ('{"messages": [{"role": "user", "content": "hi"}]}', "nothing to train on"),
    ('{"text": "hi"}', "the row has no messages; its fields are 'text'; it looks like plain text"),
    ("[" * 100_000, "not valid JSON (nested too deeply)"),
    ("a b", "not valid JSON (Expecting value at character 1); write one object in each line"),
    ('{"messages": [{"role": "user", "content": "hi"}, {"role": "alien"}]}', "messages[1].role"),
]


def test_bad_rows_are_kept_aside_with_the_reason(tmp_path: Path) -> None:
    rows: list[Any] = []
    for text, _ in BAD:
        rows += [text, "", ROWS[0]]
    source = write_jsonl(tmp_path / "rows.jsonl", rows)
    made = prepare(source, tmp_path / "out", workers=1, chunk_bytes=50)
    result = rejected(tmp_path / "out")
    assert [entry["line"] for entry in result] == [1 + 3 * index for index in range(len(BAD))]
    for entry, (_, reason) in zip(result, BAD, strict=True):
        assert reason in entry["reason"]
        assert entry["file"] == str(source)
    assert result[5]["row"] == {"text": "hi"}
    assert (made.report.rows, made.report.rejected) == (2 * len(BAD), len(BAD))
    assert made.report.examples == len(BAD)


def test_rejected_rows_are_counted_by_reason(tmp_path: Path) -> None:
    picture = {"role": "assistant", "content": [{"type": "image_url"}]}
    rows: list[Any] = [{"messages": [picture] * count} for count in (1, 2)]
    rows += ["{", "{]", {"messages": [{"role": "alien"}]}, {"messages": [picture, {"role": "x"}]}]
    made = prepare(write_jsonl(tmp_path / "rows.jsonl", rows), tmp_path / "out", workers=1)
    reasons = {
        "an assistant's content part of the type … cannot be learned": 2,
        "messages[…].role: expected one of user, assistant, system, developer, tool": 2,
        "not valid JSON (Expecting property name enclosed in double quotes at character …)": 2,
    }
    assert made.report.reasons == reasons
    assert "6 rejected (100%)\n  2 × an assistant" in made.report.text()
    assert TokenReport.from_json(made.report.as_json()) == made.report


QUESTION = {"role": "user", "content": "hi"}


def dated(out: Path) -> list[str]:
    rows = (ENCODING.decode(row["input_ids"]) for row in table(out).to_pylist())
    return [row.partition("Current date: ")[2][:10] for row in rows]


def test_the_date_is_that_of_the_server_unless_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"messages": [QUESTION, {"role": "assistant", "content": f"{n}"}]} for n in range(9)]
    source = write_jsonl(tmp_path / "rows.jsonl", rows)
    prepare(source, tmp_path / "out", workers=1)
    (today,) = set(dated(tmp_path / "out"))
    assert today == current_date()
    # A preparation that goes on another day keeps its date.
    tomorrow = lambda choice: "2099-01-01" if choice == TODAY else choice  # noqa: E731
    monkeypatch.setattr("gpt_oss_harmony.training.files.shards.current_date", tomorrow)
    (tmp_path / "out" / ".harmony" / "00000.json").unlink()
    prepare(source, tmp_path / "out", workers=1)
    monkeypatch.undo()
    assert set(dated(tmp_path / "out")) == {today}
    for date, days in [(None, {""}), ("2025-06-01..2025-06-02", {"2025-06-01", "2025-06-02"})]:
        out = tmp_path / f"{date}"
        prepare(source, out, PrepareSettings(start_date=date), workers=1)
        assert set(dated(out)) == days
    with pytest.raises(ValueError, match="is not a date"):
        PrepareSettings(start_date="soon")


def limit_files(size: int) -> None:
    """Let files grow to that size only, as on a disk that is almost full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_full_disk_is_an_error_of_the_output(tmp_path: Path, suffix: str) -> None:
    source = write_jsonl(tmp_path / "rows.jsonl", ROWS * 4)
    if suffix:
        source = packed(source, suffix, source.read_bytes())
    out = tmp_path / "out"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit_files(2000)
    try:
        with pytest.raises(OutputError, match=rf"{out}.*: File too large; free space and repeat"):
            prepare(source, out, workers=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(out.rglob("*.tmp"))
    prepare(source, out, workers=1)
    assert len(table(out)) > 100


@pytest.mark.parametrize("done", [0, 1, 4])
def test_what_a_killed_preparation_left_is_removed(tmp_path: Path, done: int) -> None:
    source, whole, out = write_jsonl(tmp_path / "rows.jsonl"), tmp_path / "whole", tmp_path / "out"
    settings = PrepareSettings(megatron=True)
    prepare(source, whole, settings, workers=1, chunk_bytes=4000)
    shutil.copytree(whole, out)
    shards = sorted((out / ".harmony").glob("?????.json"))
    assert len(shards) > 4
    for shard in shards[done:]:  # what was killed before it wrote this file
        shard.unlink()
    (out / "README.md").unlink()
    for folder in ("", "data", ".harmony", "megatron"):
        (out / folder / "half.1.tmp").write_bytes(b"x")

    def look(_: Progress) -> None:
        assert not any(out.rglob("half.1.tmp"))

    prepare(source, out, settings, workers=1, chunk_bytes=4000, watch=look)
    assert digests(out) == digests(whole)


_ENDLESS = """
import sys, time
from pathlib import Path
from gpt_oss_harmony.training.files.processes import ShardJob, process_runner
from gpt_oss_harmony.training.files.sources import Chunk

class Job(ShardJob):
    def run(self, on_read):
        print(os.getpid(), flush=True)
        time.sleep(600)

import os
if __name__ == "__main__":
    chunk = Chunk("", "jsonl", 0, 0, 0)
    list(process_runner(2)([Job(n, chunk, None, Path()) for n in range(2)], None))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    program = tmp_path / "endless.py"
    program.write_text(_ENDLESS)
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(parent.stdout.readline()) for _ in range(2)]
        parent.kill()
        try:
            # The pipe has an end once nobody holds it open any more: once both workers are gone.
            assert parent.communicate(timeout=60)[0] == ""
        finally:
            for worker in workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)


def test_what_a_worker_raises_is_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = multiprocessing.Pipe()

    @contextlib.contextmanager
    def started(_: int) -> Iterator[list[Any]]:
        yield [ours]

    monkeypatch.setattr(processes, "_worker_processes", started)
    job = ShardJob(0, Chunk("", "jsonl", 0, 0, 2**30), PrepareSettings(), Path())
    theirs.send((OutputError(28, "out: No space left"), "the traceback"))
    with pytest.raises(OutputError, match="No space left") as raised:
        list(process_runner(1)([job], None))
    assert str(raised.value.__cause__) == "the traceback"
    theirs.close()
    with pytest.raises(WorkerError, match="was killed"):
        list(process_runner(1)([job], None))


def test_what_is_too_long_is_counted(tmp_path: Path) -> None:
    settings = PrepareSettings(TrainingOptions(context_length=75))
    source = write_jsonl(tmp_path / "rows.jsonl", ROWS[:3])
    made = prepare(source, tmp_path / "out", settings, workers=1)
    assert made.report.too_long > 0
    problem = "nothing fits in 75 tokens; the shortest part of the row has 76 tokens; raise the"
    assert rejected(tmp_path / "out")[0]["reason"].startswith(problem)


def test_a_first_try_that_ended_before_its_manifest_is_begun_again(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "rows.jsonl", ROWS[:3])
    for folder in ("data", ".harmony"):
        (tmp_path / "out" / folder).mkdir(parents=True)
    (tmp_path / "out" / ".harmony" / f"manifest.json.7{TEMPORARY}").write_text("{")
    assert prepare(source, tmp_path / "out", workers=1).report.examples > 0
    (tmp_path / "other" / "data").mkdir(parents=True)
    (tmp_path / "other" / "data" / "mine.txt").write_text("mine")
    with pytest.raises(OutputFolderError, match="is not empty"):
        prepare(source, tmp_path / "other", workers=1)


def test_equal_files_have_their_reasons_in_one_order(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "rows.jsonl", ["{", {"messages": []}, *ROWS[:1]])
    for _ in range(2):
        prepare(source, tmp_path / "out", workers=1)
        found = (tmp_path / "out" / "reasons.jsonl").read_bytes()
        reasons = [json.loads(line)["reason"] for line in found.splitlines()]
        assert len(reasons) == 2
        assert reasons == sorted(reasons)


@pytest.mark.slow
def test_any_number_of_workers_makes_the_same_bytes(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "rows.jsonl", [*ROWS, "{"])
    for workers in (1, 2):
        seen: list[Progress] = []
        out = tmp_path / str(workers)
        prepare(source, out, workers=workers, chunk_bytes=20_000, watch=seen.append)
        size = source.stat().st_size
        shards = len(list((out / "data").iterdir()))
        assert seen[0] == Progress("read", 0, size, 0, shards)
        assert seen[-1] == Progress("read", size, size, shards, shards)
        assert 0 < seen[1].done < 10_000  # after the first row of the first shard
        assert [progress.done for progress in seen] == sorted(progress.done for progress in seen)
    assert digests(tmp_path / "1") == digests(tmp_path / "2")


def test_it_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "rows.jsonl")
    complete, out = tmp_path / "whole", tmp_path / "out"
    prepare(source, complete, workers=1, chunk_bytes=4000)

    def stop(progress: Progress) -> None:
        if progress.done > 12_000:  # within the fourth shard
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(source, out, workers=1, chunk_bytes=4000, watch=stop)
    before = {path: path.stat().st_mtime_ns for path in (out / "data").iterdir()}
    assert len(before) == 3
    prepare(source, out, workers=1, chunk_bytes=4000)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert digests(out) == digests(complete)


def test_other_rows_or_options_do_not_mix(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "rows.jsonl")
    out = tmp_path / "out"
    prepare(source, out, workers=1)
    prepare(source, out, workers=1)
    with pytest.raises(SourceError, match="examples of other rows or with other options"):
        prepare(source, out, PrepareSettings(TrainingOptions(turns="last")), workers=1)
    changed = PrepareSettings(TrainingOptions(turns="last", context_length=99), pack=True)
    with pytest.raises(
        SourceError, match=r'\(turns was "all", is "last", context_length was null,'
    ):
        prepare(source, out, changed, workers=1)
    write_jsonl(source, ROWS[:3])
    with pytest.raises(SourceError, match=r"other options \(\S*rows.jsonl changed\); give"):
        prepare(source, out, workers=1)
    with pytest.raises(SourceError, match="is not empty"):
        prepare(source, tmp_path, workers=1)


def test_packing(tmp_path: Path) -> None:
    settings = PrepareSettings(TrainingOptions(context_length=400), pack=True, loss_weights=True)
    source = write_jsonl(tmp_path / "rows.jsonl")
    made = prepare(source, tmp_path / "out", settings, workers=1)
    examples = [e for letters in CONVERSATIONS for e in training_examples(conversation(letters))]
    result = table(tmp_path / "out").to_pylist()
    assert made.report.sequences == len(result) < len(examples) == made.report.examples
    pieces: list[tuple[list[int], list[int]]] = []
    for row in result:
        assert len(row["input_ids"]) == sum(row["seq_lengths"]) <= 400
        positions = [index for length in row["seq_lengths"] for index in range(length)]
        assert row["position_ids"] == positions
        weights = [0.0 if label == IGNORED else 1.0 for label in row["labels"]]
        assert row["loss_weights"] == weights
        start = 0
        for length in row["seq_lengths"]:
            end = start + length
            pieces.append((row["input_ids"][start:end], row["labels"][start:end]))
            start = end
    assert sorted(pieces) == sorted((e.input_ids, e.labels) for e in examples)


def test_packing_needs_a_length() -> None:
    with pytest.raises(ValueError, match="context_length"):
        PrepareSettings(pack=True)


@pytest.mark.usefixtures("pictures")
def test_nothing_at_all(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "rows.jsonl", [])
    made = prepare(source, tmp_path / "out", workers=1)
    assert (made.report.rows, made.report.examples) == (0, 0)
    for pack in (False, True):
        settings = PrepareSettings(TrainingOptions(context_length=9), pack=pack)
        source = write_jsonl(tmp_path / "rows.jsonl", ["{"])
        prepare(source, tmp_path / f"{pack}", settings, workers=1)
        assert list((tmp_path / f"{pack}" / "data").iterdir()) == []


def test_sources_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"x.jsonl: no such file"):
        find_files(tmp_path / "x.jsonl")
    with pytest.raises(SourceError, match=r"no file in this folder ends in \.jsonl"):
        find_files(tmp_path)
    for name, remedy in [("x.csv", 'write {"messages": '), ("x.json", r"write each row .*jq -c")]:
        (tmp_path / name).write_text("x")
        with pytest.raises(SourceError, match=rf"ends in \.jsonl, .* of a data set; {remedy}"):
            find_files(tmp_path / name)


ROW = b'{"messages": []}\n'


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.jsonl", ROW.decode().encode("utf-16"), "the text is UTF-16, not UTF-8; convert it: "),
        ("a.jsonl", ROW.decode().encode("utf-16-le"), "the text is UTF-16"),
        ("a.jsonl", ROW.decode().encode("utf-16-be"), "the text is UTF-16"),
        ("a.jsonl", b"\x1f\x8b\x08\0", "compressed; change the end of its name to .jsonl.gz"),
        ("a.jsonl", b"\x28\xb5\x2f\xfd", "compressed; end its name in .jsonl.zst"),
        ("a.jsonl", b"PAR1\x15", "a Parquet file; change the end of its name to .parquet"),
        ("a.jsonl", b"[\r\n" + ROW, "the file is one JSON array; write each row on a line"),
        ("a.jsonl", b"\xef\xbb\xbf[\n" + ROW, "the file is one JSON array"),
        ("a.jsonl", b'{\n  "messages": []\n}\n', "a JSON object takes several lines"),
        ("a.jsonl", ROW, None),
        ("a.jsonl", b"\xef\xbb\xbf" + ROW, None),
        ("a.jsonl", b'[{"role": "user", "content": ""}]', None),
        ("a.jsonl", b"", None),
        ("a.parquet", b"", "not a complete Parquet file"),
        ("a.parquet", b"PAR1" * 9, "not a complete Parquet file"),
        ("a.arrow", b"hello world", "not a complete Arrow file"),
    ],
)
def test_a_file_that_is_not_what_its_name_says(
    tmp_path: Path, name: str, content: bytes, problem: str | None
) -> None:
    (tmp_path / name).write_bytes(content)
    if problem is None:
        find_chunks(find_files(tmp_path / name))
    else:
        with pytest.raises(SourceError, match=f"{name}: .*{problem}"):
            find_chunks(find_files(tmp_path / name))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_a_table_needs_a_column_of_conversations(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    for column, problem in [
        ("messages", ""),
        ("conversations", ""),
        ("prompt", ""),
        ("query", "the row has no messages; its fields are 'query', 'completion'; write it as"),
    ]:
        rows = pa.table({column: [[]], "completion": ["ho"]})
        if suffix == ".parquet":
            pq.write_table(rows, path)
        else:
            with pa.ipc.new_stream(path, rows.schema) as stream:
                stream.write_table(rows)
        with pytest.raises(SourceError, match=problem) if problem else contextlib.nullcontext():
            find_chunks(find_files(path))


def test_a_try_without_examples_can_be_repeated_with_other_options(tmp_path: Path) -> None:
    source, out = write_jsonl(tmp_path / "rows.jsonl", ROWS[:2]), tmp_path / "out"
    none = PrepareSettings(TrainingOptions(channels=frozenset(["none"])))
    made = prepare(source, out, none, workers=1)
    assert (made.report.examples, made.report.rejected) == (0, 2)
    assert made.rejected[0].line == 1
    assert prepare(source, out, workers=1).report.examples == 3
    assert rejected(out) == []


CHAT = [
    {
        "messages": [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": None,
                "thinking": "hm",
                "tool_calls": [{"function": {"name": "f", "arguments": {"city": "Rom"}}}],
            },
            {"role": "tool", "content": "{}"},
            {"role": "assistant", "content": "ho"},
        ],
        "tools": None,
    },
    {
        "messages": [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "tool_calls": [{"function": {"name": "g", "arguments": {"unit": "K"}}}],
            },
            {"role": "tool", "content": "{}"},
        ],
        "tools": json.dumps(
            [{"type": "function", "function": {"name": "g", "parameters": {"type": "object"}}}]
        ),
    },
] * 3


@pytest.mark.usefixtures("pictures")
def test_every_kind_of_file_gives_the_same(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    sources = [write_jsonl(tmp_path / "rows.jsonl", CHAT), tmp_path / "rows.parquet"]
    pq.write_table(pa.Table.from_pylist(CHAT), sources[1], row_group_size=2)
    for name in ("saved", "folder"):
        sources.append(tmp_path / name)
    datasets.Dataset.from_list(CHAT).save_to_disk(tmp_path / "saved")
    (tmp_path / "folder").mkdir()
    for number in (0, 1):
        part = CHAT[3 * number : 3 * number + 3]
        pq.write_table(pa.Table.from_pylist(part), tmp_path / "folder" / f"{number}.parquet")
    rows = []
    for index, source in enumerate(sources):
        prepare(source, tmp_path / f"out{index}", workers=1)
        assert rejected(tmp_path / f"out{index}") == []
        rows.append(table(tmp_path / f"out{index}").to_pylist())
    assert rows[0] == rows[1] == rows[2] == rows[3]
    assert '{"city": "Rom"}' in ENCODING.decode(rows[0][0]["input_ids"])


def packed(path: Path, suffix: str, *texts: bytes) -> Path:
    """Compress texts, each by itself, into one file, as tools that append do."""
    codec = pa.Codec({".gz": "gzip", ".zst": "zstd"}[suffix])
    target = path.with_name(path.name + suffix)
    target.write_bytes(b"".join(codec.compress(text, asbytes=True) for text in texts))
    return target


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_lines_give_the_same(tmp_path: Path, suffix: str) -> None:
    plain = write_jsonl(tmp_path / "rows.jsonl", [*ROWS, "{"])
    text = plain.read_bytes()
    source = packed(plain, suffix, text[:5000], text[5000:])
    prepare(plain, tmp_path / "plain", workers=1, chunk_bytes=4000)
    seen: list[Progress] = []

    def stop(progress: Progress) -> None:
        seen.append(progress)
        if progress.step == "read" and progress.done > 12_000:  # within the fourth shard
            raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        prepare(source, out, workers=1, chunk_bytes=4000, watch=stop)
    size = source.stat().st_size
    assert seen[:2] == [Progress("unpack", size, size), Progress("read", 0, len(text), 0, 9)]
    assert {Progress("read", 4000 * n, len(text), n, 9) for n in (1, 2, 3)} <= {*seen}
    copies = out / ".harmony" / "unpacked"
    (copy,) = copies.glob("*.jsonl")
    before = {path: path.stat().st_mtime_ns for path in (copy, *(out / "data").iterdir())}

    def look(progress: Progress) -> None:
        seen.append(progress)
        assert {path: path.stat().st_mtime_ns for path in before} == before

    made = prepare(source, out, workers=1, chunk_bytes=4000, watch=look)
    assert (len(before), seen[-1]) == (4, Progress("read", len(text), len(text), 9, 9))
    assert list(copies.glob("*.jsonl")) == []
    assert made.report.rows == len(ROWS) + 1
    assert [entry["file"] for entry in rejected(out)] == [str(source)]
    expected = examples_and_report(tmp_path / "plain")
    assert examples_and_report(out) == expected
    # What is complete is known to be, without a copy; what got lost is made of a new one.
    prepare(source, out, workers=1, chunk_bytes=4000, watch=lambda *_: pytest.fail("made again"))
    (out / ".harmony" / "00002.json").unlink()
    prepare(source, out, workers=1, chunk_bytes=4000)
    assert examples_and_report(out) == expected


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_compressed_file_that_is_broken_says_so(tmp_path: Path, suffix: str) -> None:
    source = packed(write_jsonl(tmp_path / "rows.jsonl"), suffix, json.dumps(ROWS[0]).encode())
    complete = source.read_bytes()
    for number, text in enumerate((complete[:-9], b"{}")):
        source.write_bytes(text)
        with pytest.raises(SourceError, match=rf"rows.jsonl{suffix}: cannot be unpacked"):
            prepare(source, tmp_path / f"{number}", workers=1)
        assert list((tmp_path / f"{number}" / ".harmony" / "unpacked").iterdir()) == []


def test_a_folder_may_have_compressed_files_beside_others(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    text = json.dumps(ROWS[0]).encode()
    packed(folder / "a.jsonl", ".gz", text)
    write_jsonl(folder / "b.jsonl", ROWS[:2])
    packed(folder / "c.ndjson", ".zst", text)
    (folder / "d.gz").write_bytes(b"")
    assert [file.path.name for file in find_files(folder)] == [
        "a.jsonl.gz",
        "b.jsonl",
        "c.ndjson.zst",
    ]
    assert prepare(folder, tmp_path / "out", workers=1).report.rows == 4
    with pytest.raises(ValueError, match="is compressed; pass the folder"):
        find_chunks(find_files(folder))


def test_datasets_reads_what_was_made(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    source = write_jsonl(tmp_path / "rows.jsonl", [*ROWS, "{"])
    out = tmp_path / "out"
    prepare(source, out, workers=1, chunk_bytes=4000)
    result = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))["train"]
    assert result.column_names == ["input_ids", "labels", "assistant_masks"]
    assert result[:]["input_ids"] == table(out)["input_ids"].to_pylist()


@pytest.mark.usefixtures("pictures")
def test_the_report_is_text_and_a_picture(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "rows.jsonl")
    made = prepare(source, tmp_path / "out", workers=1)
    text = made.report.text()
    assert text in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "40 rows (40 harmony), 0 rejected\n" in text
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == made.report.as_json()


def test_tokens_that_several_examples_of_a_row_have_are_counted(tmp_path: Path) -> None:
    letters = ["suafuafuaf", "suf", "sufuf"]  # turns with reasoning, and without
    rows = [conversation(one).to_dict() for one in letters]
    report = prepare(write_jsonl(tmp_path / "a.jsonl", rows), tmp_path / "out", workers=1).report
    once = 0
    for one in letters:
        made = training_examples(conversation(one))
        parts = {part.message: part.end - part.start for e in made[::-1] for part in e.messages}
        once += sum(parts.values())
    assert report.repeated == report.tokens.total() - once > 0
    assert f"({report.tokens.total() / once:.1f} times the work)" in report.text()


def test_a_report_of_one_has_no_plural_and_few_lengths_are_shown_finely() -> None:
    report = TokenReport(1, 1, 1, 1, 1, lengths=Counter({90: 1}))
    text = report.text()
    assert text.startswith("1 row, 1 rejected (100%)\n1 example in 1 sequence\n1 message l")
    assert text.endswith("median 90, longest 90 tokens")
    for lengths, buckets in [
        ({}, []),
        ({1: 1}, [(1, 1)]),
        ({90: 1, 91: 2, 100: 1}, [(90, 1), (91, 2), (100, 1)]),
        (dict.fromkeys(range(129, 257), 1), [(bound, 16) for bound in range(144, 257, 16)]),
        ({1: 1, 2: 1, 4: 1, 1000: 2}, [(1, 1), (2, 1), (4, 1), (1024, 2)]),
    ]:
        report = TokenReport(lengths=Counter(lengths))
        assert report.length_buckets() == buckets
    assert TokenReport(lengths=Counter({1: 1, 2: 1, 9: 2})).median_length() == 2


_ROW_LABEL = re.compile(r'text-anchor: end" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)<')


def test_labels_of_the_picture_do_not_overlap(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    pytest.importorskip("matplotlib")
    report = TokenReport()
    names = ["final", "分析" * 20, "$x_1$ <b>", "a very long name " * 9]
    names += [f"channel {number}" for number in range(40)]
    report.tokens.update({name: 10**9 - number for number, name in enumerate(names)})
    report.lengths.update({1 << power: 10**6 for power in range(24)})
    assert write_plot(report, tmp_path / "report.svg", "a$b.jsonl")
    assert not recwarn.list
    picture = (tmp_path / "report.svg").read_text(encoding="utf-8")
    assert ">a$b.jsonl: 0 rows, 0 examples<" in picture
    labels = _ROW_LABEL.findall(picture)
    texts = [html.unescape(text) for _, _, text in labels]
    assert {"final", "$x_1$ <b>", "a very long name a very lon…", "24 others"} <= {*texts}
    assert sum("分析" in text for text in texts) == 1
    columns: dict[str, list[float]] = {}
    for x, y, _ in labels:
        columns.setdefault(x, []).append(float(y))
    distances = [b - a for ys in columns.values() for a, b in pairwise(sorted(ys))]
    assert len(distances) > 40
    assert min(distances) > 12  # of letters of 10 px


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray uses what it itself, and what Python, deprecated
def test_ray_makes_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed")
    pytest.importorskip("ray.data", reason="ray is installed without its data library")
    from gpt_oss_harmony.training.files.ray import ray_runner

    source = write_jsonl(tmp_path / "rows.jsonl", [*ROWS, "{"])
    prepare(source, tmp_path / "local", workers=1, chunk_bytes=20_000)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        prepare(source, tmp_path / "ray", runner=ray_runner(), chunk_bytes=20_000)
        for pack in (False, True):
            check_rows_that_are_in_ray(tmp_path / f"{pack}", pack)
    finally:
        ray.shutdown()
    assert digests(tmp_path / "ray") == digests(tmp_path / "local")


def check_rows_that_are_in_ray(folder: Path, pack: bool) -> None:
    """Compare the examples of a Ray data set, as a file, with what `prepare` wrote."""
    import ray.data

    from gpt_oss_harmony.training.files.ray import ray_examples

    settings = PrepareSettings(TrainingOptions(context_length=400), pack=pack, loss_weights=True)
    bad = {"messages": [{"role": "user", "content": "hi"}], "tools": None}
    rows = [*CHAT, bad]
    folder.mkdir()
    prepare(write_jsonl(folder / "rows.jsonl", rows), folder / "out", settings, workers=1)
    (local,) = (folder / "out" / "data").iterdir()
    made = ray_examples(ray.data.from_items(rows, override_num_blocks=1), settings)
    complete = pa.concat_tables(ray.get(made.to_arrow_refs()))
    is_example = pc.is_null(complete["rejected"])
    examples = complete.filter(is_example).drop_columns("rejected").replace_schema_metadata()
    pq.write_table(examples.combine_chunks(), folder / "ray.parquet", compression="zstd")
    assert (folder / "ray.parquet").read_bytes() == local.read_bytes()
    (entry,) = map(json.loads, complete.filter(pc.invert(is_example))["rejected"].to_pylist())
    assert entry["reason"].startswith("nothing to train on: the conversation has no assistant")
    assert entry["row"] == {"messages": bad["messages"]}


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    long = conversation("suf")
    long.messages[1] = spoken(" a" * 10_000, "analysis")
    peaks: list[int] = []
    for count in (4, 4, 16):  # the first makes what stays
        source = write_jsonl(tmp_path / "rows.jsonl", [long.to_dict()] * count)
        out = tmp_path / f"{len(peaks)}"
        tracemalloc.start()
        prepare(source, out, workers=1, chunk_bytes=40_000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(list((out / "data").iterdir())) == count // 2
    assert peaks[2] < 1.2 * peaks[1]


def test_folders_that_need_a_choice(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "rows.jsonl")
    with pytest.raises(SourceError, match="is inside"):
        prepare(tmp_path, tmp_path / "out", workers=1)
    (tmp_path / "dataset_dict.json").write_text("{}")
    with pytest.raises(SourceError, match="several splits"):
        find_files(source.parent)


# Limits


def long_rows(path: Path) -> Path:
    """Three rows; the one in the middle has 50,000 bytes of text."""
    rows = [ROWS[0], {"messages": [], "pad": "x" * 50_000}, ROWS[1]]
    if path.suffix == ".jsonl":
        return write_jsonl(path, rows)
    pq.write_table(pa.Table.from_pylist([{"pad": None, **row} for row in rows]), path)
    return path


@pytest.mark.parametrize("chunk_bytes", [1000, 10**6])
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_rows_above_the_limit_are_rejected_unread(
    tmp_path: Path, name: str, chunk_bytes: int
) -> None:
    source = long_rows(tmp_path / name)
    settings = PrepareSettings(row_bytes=20_000)
    made = prepare(source, tmp_path / "out", settings, workers=1, chunk_bytes=chunk_bytes)
    (entry,) = rejected(tmp_path / "out")
    assert entry["line"] == 2
    assert "bytes, more than 20,000; make it shorter, or raise --max-row-bytes" in entry["reason"]
    assert (made.report.rows, made.report.rejected) == (3, 1)
    assert len((tmp_path / "out" / "rejected.jsonl").read_text()) < 2000


def test_a_row_of_the_limit_is_read(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "rows.jsonl", [ROWS[0]])
    size = source.stat().st_size - 1  # without the line break
    for limit, count in ((size, 1), (size - 1, 0)):
        (chunk,) = find_chunks(find_files(source))
        (row,) = read_chunk(chunk, limit)
        assert (row.problem is None) == bool(count)


def test_a_file_that_unpacks_to_too_much_is_an_error(tmp_path: Path) -> None:
    plain = tmp_path / "rows.jsonl"
    source = packed(plain, ".gz", b" " * 20_000_000)
    out = tmp_path / "out"
    with pytest.raises(SourceError, match=r"unpack to more than .*raise --max-unpacked-ratio"):
        prepare(source, out, workers=1)
    assert list((out / ".harmony" / "unpacked").iterdir()) == []
    settings = PrepareSettings(unpacked_ratio=10**6, unpacked_bytes=5_000_000)
    with pytest.raises(SourceError, match=r"more than 5,000,000; .*raise --max-unpacked-bytes"):
        prepare(source, out, settings, workers=1)


def test_all_reasons_are_in_a_file_with_a_row_each(tmp_path: Path) -> None:
    rows: list[Any] = [{f"field {chr(97 + index)}": 1, "text": "x"} for index in range(3)]
    rows += [{"messages": [{"role": "user", "content": None}] * count} for count in (1, 2)]
    rows += [ROWS[0], "{", None, '{"a": "\x01"}']
    prepare(write_jsonl(tmp_path / "rows.jsonl", rows), tmp_path / "out", workers=1)
    lines = (tmp_path / "out" / "reasons.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    assert sum(entry["count"] for entry in entries) == len(rejected(tmp_path / "out"))
    assert {"count", "reason", "first"} == entries[0].keys()
    assert {"file", "line", "reason"} == entries[0]["first"].keys()
    reasons = [entry["reason"] for entry in entries]
    assert "not valid JSON (Invalid control character at character …)" in reasons


@pytest.mark.usefixtures("pictures")
def test_counts_by_source(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    write_jsonl(folder / "a.jsonl", ROWS[:3])
    write_jsonl(folder / "b.jsonl", [{**row, "set": "web"} for row in ROWS[3:5]])
    by_file = prepare(folder, tmp_path / "one", workers=1).report
    assert by_file.source_rows == {"a.jsonl": 3, "b.jsonl": 2}
    assert by_file.source_tokens.total() == by_file.tokens.total()
    assert by_file.source_trainable.total() == by_file.trainable.total()
    assert by_file.unused == {"set": 2}
    lines = (tmp_path / "one" / "README.md").read_text().splitlines()
    (head,) = (line for line in lines if line.startswith("source "))
    assert head.split() == ["source", "rows", "tokens", "trainable", "too", "long"]
    assert by_file.source_lengths["a.jsonl"] + by_file.source_lengths["b.jsonl"] == by_file.lengths
    assert TokenReport.from_json(by_file.as_json()) == by_file
    picture = html.unescape((tmp_path / "one" / "report.svg").read_text())
    assert "share of the examples of a source" in picture
    assert all(f">{name}</text>" in picture for name in by_file.source_rows)
    settings = PrepareSettings(source_field="set")
    by_field = prepare(folder, tmp_path / "two", settings, workers=1).report
    assert by_field.source_rows == {"a.jsonl": 3, "web": 2}
    assert not by_field.unused


def test_datasets_loads_the_rows_of_this_folder_and_not_of_another(tmp_path: Path) -> None:
    """Its cache is shared, and folders are often called `data`."""
    datasets = pytest.importorskip("datasets")
    cache = str(tmp_path / "cache")
    for count in (1, 2, 3):
        name = "again" if count == 3 else f"{count}"
        (tmp_path / name).mkdir()
        rows = [*ROWS[:count], "{"]  # with a rejected row there are more files
        source = write_jsonl(tmp_path / name / "rows.jsonl", rows)
        out = tmp_path / ("1" if count == 3 else name) / "data"
        shutil.rmtree(out, ignore_errors=True)
        prepare(source, out, PrepareSettings(megatron=True), workers=1)
        loaded = datasets.load_dataset(str(out), split="train", cache_dir=cache)
        assert list(loaded["input_ids"]) == table(out)["input_ids"].to_pylist()


def test_lengths_by_source_are_drawn(tmp_path: Path) -> None:
    report = TokenReport(
        rows=40,
        examples=40,
        tokens=Counter({"final": 9}),
        lengths=Counter({3: 12, 60: 4, 100: 8, 1000: 16}),
        source_rows=Counter({"_a$": 20, "日本": 20}),
        source_tokens=Counter({"_a$": 9000, "日本": 8000}),
        source_lengths={"_a$": Counter({3: 12, 100: 8}), "日本": Counter({60: 4, 1000: 16})},
    )
    lines = report.text().splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("lengths"))
    assert lines[at : at + 3] == [
        "lengths               median         longest  ≤ 4 … ≤ 1,024 tokens",
        "_a$                        3             100  █ ▆ ",
        "日本                   1,000           1,000   ▂ █",
    ]
    assert write_plot(report, tmp_path / "report.svg", "rows")
    picture = html.unescape((tmp_path / "report.svg").read_text())
    assert ">_a$</text>" in picture
    assert ">日本</text>" in picture


def test_chunks_are_larger_if_sequences_are_long() -> None:
    def chunk_bytes(length: int, *, pack: bool) -> int:
        return PrepareSettings(TrainingOptions(context_length=length), pack=pack).chunk_bytes()

    assert chunk_bytes(131_072, pack=False) == chunk_bytes(8192, pack=True) == 4 * 1024 * 1024
    assert chunk_bytes(131_072, pack=True) == 64 * 1024 * 1024


# Addresses


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet", "rows.jsonl.gz"])
@pytest.mark.parametrize("is_folder", [False, True])
def test_addresses_give_the_same_as_files(tmp_path: Path, name: str, is_folder: bool) -> None:
    fsspec = pytest.importorskip("fsspec")
    local = write_jsonl(tmp_path / "rows.jsonl", ROWS)
    if name.endswith(".parquet"):
        local = tmp_path / name
        pq.write_table(pa.Table.from_pylist(ROWS), local, row_group_size=3)
    elif name.endswith(".gz"):
        local = packed(local, ".gz", local.read_bytes())
    address = f"memory://set-{name}"
    with fsspec.open(f"{address}/{name}", "wb") as file:
        file.write(local.read_bytes())
    source = address if is_folder else f"{address}/{name}"
    prepare(local, tmp_path / "one", workers=1, chunk_bytes=2000)
    prepare(source, tmp_path / "two", workers=1, chunk_bytes=2000)
    assert table(tmp_path / "one") == table(tmp_path / "two")
    prepare(source, tmp_path / "two", workers=1, chunk_bytes=2000)  # it is complete
    with fsspec.open(f"{address}/{name}", "wb") as file:
        file.write(local.read_bytes() + b" ")
    with pytest.raises(SourceError, match="other rows or with other options"):
        prepare(source, tmp_path / "two", workers=1, chunk_bytes=2000)


@pytest.mark.slow
def test_processes_read_an_address(tmp_path: Path) -> None:
    local = write_jsonl(tmp_path / "rows.jsonl", ROWS * 3)
    prepare(local, tmp_path / "one", workers=1, chunk_bytes=2000)
    prepare(f"file://{local}", tmp_path / "two", workers=2, chunk_bytes=2000)
    assert table(tmp_path / "one") == table(tmp_path / "two")


def test_files_of_a_store_read_by_ranges(tmp_path: Path) -> None:
    """S3 and others have fsspec's own buffered files, which lack some methods of files."""
    fsspec = pytest.importorskip("fsspec")
    spec: Any = pytest.importorskip("fsspec.spec")

    local = write_jsonl(tmp_path / "rows.jsonl", ROWS)
    content = local.read_bytes()

    class Ranges(spec.AbstractBufferedFile):  # type: ignore[misc]
        def _fetch_range(self, start: int, end: int) -> bytes:
            return content[start:end]

    class Store(spec.AbstractFileSystem):  # type: ignore[misc]
        protocol = "ranges"

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            return {"name": path, "size": len(content), "type": "file"}

        def _open(self, path: str, mode: str = "rb", **options: Any) -> Ranges:
            return Ranges(self, path, mode, **{**options, "block_size": 100})

    fsspec.register_implementation("ranges", Store, clobber=True)
    prepare(local, tmp_path / "one", workers=1, chunk_bytes=2000)
    prepare("ranges://rows.jsonl", tmp_path / "two", workers=1, chunk_bytes=2000)
    assert table(tmp_path / "one") == table(tmp_path / "two")


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("memory://nowhere/rows.jsonl", "nothing is at this address"),
        ("what://rows.jsonl", "Protocol not known: what"),
        ("memory://empty", "there is none at this address|nothing is at"),
    ],
)
def test_addresses_that_cannot_be_read(tmp_path: Path, address: str, problem: str) -> None:
    with pytest.raises(SourceError, match=problem):
        prepare(address, tmp_path / "out", workers=1)


def downloaded(address: str, to: Path) -> Path:
    fsspec = pytest.importorskip("fsspec")
    files, path = fsspec.core.url_to_fs(address)
    files.get(path, str(to), recursive=True)
    return to


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["memory", "file"])
def test_an_output_at_an_address_is_that_of_a_folder(tmp_path: Path, scheme: str) -> None:
    """Memory is a store without folders, in this process; files are seen by two processes."""
    source = write_jsonl(tmp_path / "rows.jsonl", [*ROWS, {"messages": 1}])
    address = {"memory": "memory://made/out", "file": f"file://{tmp_path}/made/out"}[scheme]
    workers = 1 if scheme == "memory" else 2
    prepare(source, tmp_path / "one", workers=1, chunk_bytes=2000)
    made = prepare(source, address, workers=workers, chunk_bytes=2000)
    assert str(made.out) == address
    assert digests(downloaded(address, tmp_path / "two")) == digests(tmp_path / "one")
    assert finished_shards(made.out) == finished_shards(tmp_path / "one")
    with pytest.raises(SourceError, match=f"{address} has examples of other rows or with other"):
        prepare(source, address, PrepareSettings(loss_weights=True), chunk_bytes=2000)


def test_an_output_at_an_address_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    source, address = write_jsonl(tmp_path / "rows.jsonl"), "memory://interrupted"
    jobs_of: list[int] = []

    def three(jobs: Sequence[ShardJob], _: object) -> Generator[Shard, None, None]:
        jobs_of.append(len(jobs))
        for job in jobs[:3]:
            yield job.run()
        if len(jobs) > 3:
            raise KeyboardInterrupt

    prepare(source, tmp_path / "one", workers=1, chunk_bytes=2000)
    with pytest.raises(KeyboardInterrupt):
        prepare(source, address, runner=three, chunk_bytes=2000)
    while jobs_of[-1] > 3:
        with contextlib.suppress(KeyboardInterrupt):
            prepare(source, address, runner=three, chunk_bytes=2000)
    assert jobs_of == [*range(jobs_of[0], 0, -3)]
    assert digests(downloaded(address, tmp_path / "two")) == digests(tmp_path / "one")


def test_reports_of_an_earlier_try_do_not_stay_at_an_address(tmp_path: Path) -> None:
    source, address = write_jsonl(tmp_path / "rows.jsonl"), "memory://again"
    prepare(source, address, PrepareSettings(TrainingOptions(context_length=1)), workers=1)
    assert "rejected.jsonl" in RemotePath(address).names()
    prepare(source, address, workers=1)
    assert RemotePath(address).names() == [
        ".harmony",
        "README.md",
        "data",
        "report.json",
        "report.svg",
    ]


@pytest.mark.parametrize(
    ("address", "settings", "problem"),
    [
        ("memory://foreign", PrepareSettings(), "memory://foreign is not empty; give another"),
        ("memory://disk", PrepareSettings(megatron=True), "Megatron reads its files on a disk"),
        ("what://out", PrepareSettings(), "Protocol not known: what"),
        ("file:///proc/nowhere", PrepareSettings(), "file:///proc/nowhere/.*No such file"),
    ],
)
def test_addresses_that_cannot_be_written(
    tmp_path: Path, address: str, settings: PrepareSettings, problem: str
) -> None:
    (RemotePath("memory://foreign") / "notes.txt").upload(write_jsonl(tmp_path / "rows.jsonl"))
    with pytest.raises((SourceError, OutputError), match=problem):
        prepare(tmp_path / "rows.jsonl", address, settings, workers=1)
