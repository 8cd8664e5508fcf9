"""Files beside the rows that cannot be read are named: once, in the report."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from gpt_oss_harmony.training.files import find_files, prepare
from gpt_oss_harmony.training.files.addresses import RemotePath, SourceError
from gpt_oss_harmony.training.files.sources import source_files

ROW = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}


def filled(folder: Path, *names: str) -> Path:
    """Put files with a row into a folder."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{json.dumps(ROW)}\n")
    return folder


UNREAD = {
    "other kinds": (
        ["a.jsonl", "c.json", "e.csv", "more.ndjson", "x.jsonl.xz"],
        ["c.json", "e.csv", "x.jsonl.xz"],
    ),
    "in a folder": (["a.jsonl", "deep/a.txt", "deep/b.jsonl"], ["deep/a.txt"]),
    "no ending": (["a.jsonl", "_SUCCESS", "notes"], ["_SUCCESS", "notes"]),
    "capitals": (["a.jsonl", "B.JSONL"], ["B.JSONL"]),
    "hidden": (["a.jsonl", ".gitattributes", ".cache/x.csv", "deep/.b.csv"], []),
    "of the hub": (["a.jsonl", "README.md", "LICENSE", "dataset_infos.json"], []),
    "saved with datasets": (
        ["a.jsonl", "state.json", "dataset_info.json", "cache-1a.arrow", "deep/dataset_dict.json"],
        [],
    ),
    "only rows": (["a.jsonl", "cache-hits.jsonl"], []),
}


@pytest.mark.parametrize("case", UNREAD)
def test_files_that_are_not_read_are_named(tmp_path: Path, case: str) -> None:
    names, unread = UNREAD[case]
    folder = filled(tmp_path / "rows", *names)
    assert source_files(folder).unread == unread
    address = RemotePath(f"file://{folder}")
    assert source_files(address).unread == unread


def test_arrow_files_are_not_read_at_an_address(tmp_path: Path) -> None:
    folder = filled(tmp_path / "rows", "a.jsonl", "data-00000-of-00001.arrow", "state.json")
    assert source_files(folder).unread == []
    address = RemotePath(f"file://{folder}/")
    assert source_files(address).unread == ["data-00000-of-00001.arrow"]


def test_every_file_is_read_or_named_or_beside_the_rows(tmp_path: Path) -> None:
    names = {name for names, _ in UNREAD.values() for name in names}
    folder = filled(tmp_path / "rows", *names)
    found = source_files(folder)
    read = [Path(str(file.path)).relative_to(folder).as_posix() for file in found.read]
    assert {*read} == {name for name in names if name.endswith((".jsonl", ".ndjson"))}
    assert found.unread == sorted({name for _, unread in UNREAD.values() for name in unread})
    assert found.read == find_files(folder)


def test_links_to_folders_are_named(tmp_path: Path) -> None:
    folder = filled(tmp_path / "rows", "a.jsonl")
    (folder / "link").symlink_to(filled(tmp_path / "other", "b.jsonl"), target_is_directory=True)
    assert source_files(folder).unread == ["link"]


def test_folders_that_may_not_be_opened_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = filled(tmp_path / "rows", "a.jsonl", "closed/b.jsonl")
    opened = os.scandir

    def scandir(path: str) -> Any:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", path)
        return opened(path)

    monkeypatch.setattr("os.scandir", scandir)
    assert source_files(folder).unread == ["closed"]


def test_a_folder_named_like_a_file_is_a_folder(tmp_path: Path) -> None:
    folder = filled(tmp_path / "rows", "a.jsonl/part-0.jsonl", "a.jsonl/_SUCCESS")
    assert [file.path.name for file in find_files(folder)] == ["part-0.jsonl"]
    assert source_files(folder).unread == ["a.jsonl/_SUCCESS"]


@pytest.mark.parametrize(
    ("pattern", "unread"),
    [
        ("*", ["b.csv", "deep/c.jsonl", "deep/d.csv"]),
        ("**", ["b.csv", "deep/d.csv"]),
        ("**/*.jsonl", []),
        ("[ab].*", ["b.csv"]),
    ],
)
def test_matching_files_that_are_not_read_are_named(
    tmp_path: Path, pattern: str, unread: list[str]
) -> None:
    folder = filled(tmp_path, "a.jsonl", "b.csv", "README.md", "deep/c.jsonl", "deep/d.csv")
    expected = [str(folder / name) for name in unread]
    assert source_files(folder / pattern).unread == expected


def test_a_folder_without_rows_is_an_error(tmp_path: Path) -> None:
    folder = filled(tmp_path / "rows", "c.json", "e.csv")
    with pytest.raises(SourceError, match="no file in this folder ends in"):
        source_files(folder)


def test_the_report_names_a_few_and_counts_all(tmp_path: Path) -> None:
    folder = filled(tmp_path / "rows", "a.jsonl", *(f"{number:02}.csv" for number in range(30)))
    out = tmp_path / "out"
    report = prepare(folder, out, workers=1).report
    line = "30 files are not read: 00.csv, 01.csv, 02.csv, 03.csv, 04.csv, 05.csv, 06.csv, 07.csv "
    line += "and 22 others\n"
    assert report.text().count(line) == 1
    assert line in (out / "README.md").read_text()
    written = json.loads((out / "report.json").read_text())
    assert written["unread"] == 30
    assert written["unread_names"] == [f"{number:02}.csv" for number in range(8)]
    assert prepare(folder, out, workers=1).report == report


def test_a_report_without_such_files_has_no_line_about_them(tmp_path: Path) -> None:
    folder = filled(tmp_path / "rows", "a.jsonl", "README.md")
    report = prepare(folder, tmp_path / "out", workers=1).report
    assert "not read" not in report.text()
    assert (report.unread, report.unread_names) == (0, [])


def test_the_name_of_a_file_stays_in_its_line(tmp_path: Path) -> None:
    folder = filled(tmp_path / "rows", "a.jsonl", "b\n```\x1b[2J.csv", "c" * 200)
    text = prepare(folder, tmp_path / "out", workers=1).report.text()
    assert f"2 files are not read: b ```?[2J.csv, {'c' * 79}…\n" in text
