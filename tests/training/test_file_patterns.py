"""A pattern of files is read as the files that it matches, in the order of their names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from gpt_oss_harmony.training.files import find_files, prepare
from gpt_oss_harmony.training.files.addresses import SourceError

ROW = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("rows/b.jsonl", "rows/a.jsonl", "rows/notes.txt", "rows/deep/c.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{json.dumps(ROW)}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("rows/*.jsonl", ["a.jsonl", "b.jsonl"]),
        ("rows/**/*.jsonl", ["a.jsonl", "b.jsonl", "c.jsonl"]),
        ("rows/[b-c].*", ["b.jsonl"]),
        ("rows/*", ["a.jsonl", "b.jsonl"]),
    ],
)
def test_the_matching_files_are_read(folder: Path, pattern: str, names: list[str]) -> None:
    assert [file.path.name for file in find_files(folder / pattern)] == names
    made = prepare(folder / pattern, folder / "out", workers=1)
    assert made.report.rows == len(names)


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(folder: Path) -> None:
    (folder / "rows" / "[b].jsonl").write_text(f"{json.dumps(ROW)}\n")
    assert [file.path.name for file in find_files(folder / "rows/[b].jsonl")] == ["[b].jsonl"]


def test_a_pattern_without_files_is_named(folder: Path) -> None:
    with pytest.raises(SourceError, match=r"rows/\*.csv: no file of this pattern"):
        find_files(folder / "rows/*.csv")
