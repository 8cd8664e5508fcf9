"""Rows that repeat earlier rows are rejected with the row that they repeat, whoever finds them."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import random
import shutil
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_oss_harmony.cli import main
from support.examples import examples

np = pytest.importorskip("numpy")
pq = pytest.importorskip("pyarrow.parquet")

from gpt_oss_harmony.installation import requirement  # noqa: E402
from gpt_oss_harmony.training.files import PrepareSettings, Progress, prepare  # noqa: E402
from gpt_oss_harmony.training.files.duplicates import (  # noqa: E402
    ShardDuplicates,
    ShardRows,
    bands_of,
    find_duplicates,
)
from gpt_oss_harmony.training.files.processes import OnRead, Runner, ShardJob  # noqa: E402
from gpt_oss_harmony.training.files.shards import Shard  # noqa: E402

EXACT = PrepareSettings(deduplicate="exact")
NEAR = PrepareSettings(deduplicate="near")
WORDS = ["rain", "sun", "wind", "snow", "hail", "fog", "cloud", "storm", "frost", "mist", "gale"]


def chat(question: str, answer: str, **fields: Any) -> dict[str, Any]:
    messages = [
        {"role": "user", "content": question},
        {"role": "assistant", "content": answer},
    ]
    return {"messages": messages, **fields}


def text(seed: int, words: int = 60) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def changed(source: str, words: int) -> str:
    """Change as many words at the end of a text."""
    kept = source.split()
    return " ".join([*kept[: len(kept) - words], *["other"] * words])


def write(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def found(out: Path) -> dict[int, tuple[int, str]]:
    """Return the line of each duplicate, with the line that it repeats and the reason."""
    path = out / "rejected.jsonl"
    entries = map(json.loads, path.read_text().splitlines() if path.exists() else [])
    return {
        entry["line"]: (entry["duplicate_of"]["line"], entry["reason"])
        for entry in entries
        if "duplicate_of" in entry
    }


def digests(out: Path) -> dict[str, str]:
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


A, B = chat("What is 2 + 2?", "4."), chat("What is 2 + 3?", "5.")

SAME: dict[str, tuple[dict[str, Any], bool]] = {
    "the same row": (A, True),
    "another order of fields": (dict(reversed(list(A.items()))), True),
    "fields that are not learned": ({**A, "id": 7}, True),
    "another form": ({"instruction": "What is 2 + 2?", "output": "4."}, True),
    "an earlier weight of 1": (
        {"messages": [A["messages"][0], {**A["messages"][1], "weight": 1}]},
        True,
    ),
    "another answer": (chat("What is 2 + 2?", "Four."), False),
    "another question": (B, False),
    "another effort": ({**A, "reasoning_effort": "high"}, False),
    "other instructions": ({**A, "system": "Be brief."}, False),
    "a second turn": ({"messages": A["messages"] + B["messages"]}, False),
    "an answer that is not learned": (
        {
            "messages": [
                *A["messages"][:1],
                {**A["messages"][1], "weight": 0},
                *B["messages"],
            ]
        },
        False,
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_what_is_the_same(tmp_path: Path, name: str) -> None:
    other, is_same = SAME[name]
    source = write(tmp_path / "rows.jsonl", [A, other])
    made = prepare(source, tmp_path / "out", EXACT, workers=1)
    assert (made.report.rejected == 1) is is_same
    assert made.report.duplicates == ({"exact": 1} if is_same else {})


def test_dates_do_not_distinguish_rows_and_written_weights_do(tmp_path: Path) -> None:
    dated = PrepareSettings(deduplicate="exact", start_date="field:day")
    rows = [{**A, "day": "2025-01-01"}, {**A, "day": "2025-01-02"}]
    source = write(tmp_path / "dated.jsonl", rows)
    assert prepare(source, tmp_path / "dated", dated, workers=1).report.duplicates.total() == 1
    half = {"messages": [A["messages"][0], {**A["messages"][1], "weight": 0.5}]}
    source = write(tmp_path / "weights.jsonl", [A, half])
    for weights, count in [(False, 1), (True, 0)]:
        chosen = PrepareSettings(deduplicate="exact", loss_weights=weights)
        made = prepare(source, tmp_path / f"{weights}", chosen, workers=1)
        assert made.report.duplicates.total() == count


def test_each_duplicate_names_the_row_that_it_repeats(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    one = write(tmp_path / "in" / "1.jsonl", [A, "no row", B, A])
    two = write(tmp_path / "in" / "2.jsonl", [B, chat("hi", "ho"), A])
    made = prepare(tmp_path / "in", tmp_path / "out", EXACT, workers=1, chunk_bytes=100)
    lines = (tmp_path / "out" / "rejected.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    named = [
        (e["file"], e["line"], e["duplicate_of"]["file"], e["duplicate_of"]["line"])
        for e in entries
        if "duplicate_of" in e
    ]
    assert named == [
        (str(one), 4, str(one), 1),
        (str(two), 1, str(one), 3),
        (str(two), 3, str(one), 1),
    ]
    assert entries[-1]["reason"] == (
        f"the row gives the same examples as an earlier row; it is {one}:1"
    )
    assert entries[-1]["row"] == A
    report = made.report
    assert (report.rows, report.rejected, report.examples) == (7, 4, 3)
    assert report.rejected_share == 1 / 7
    card = (tmp_path / "out" / "README.md").read_text()
    assert "7 rows (3 chat), 4 rejected (57%)" in card
    assert "3 × the row gives the same examples as an earlier row\n" in card
    assert sum(pq.read_metadata(p).num_rows for p in (tmp_path / "out" / "data").iterdir()) == 3


def test_a_row_that_is_rejected_for_another_reason_is_not_repeated(tmp_path: Path) -> None:
    long = chat("hi", text(1, 400))
    chosen = PrepareSettings(deduplicate="exact", reject=frozenset(["markup"]))
    rows = [chat("hi", "<|im_end|>"), chat("hi", "<|im_end|>"), long, long]
    made = prepare(write(tmp_path / "rows.jsonl", rows), tmp_path / "out", chosen, workers=1)
    assert (made.report.rejected, dict(made.report.duplicates)) == (3, {"exact": 1})


def test_near_duplicates_name_a_row_that_is_kept(tmp_path: Path) -> None:
    pytest.importorskip("rensa")
    first, second = text(1, 200), text(2, 200)
    rows = [
        chat("The weather?", first),
        chat("The weather?", second),
        chat("The weather?", changed(first, 5)),  # near 1
        chat("The weather?", first),  # the same as 1
        chat("The weather?", changed(first, 100)),  # another text
        chat("The weather?", changed(first, 103)),  # near 5, and not 1
    ]
    source = write(tmp_path / "rows.jsonl", rows)
    made = prepare(source, tmp_path / "out", NEAR, workers=1, chunk_bytes=1000)
    result = found(tmp_path / "out")
    assert {line: first for line, (first, _) in result.items()} == {3: 1, 4: 1, 6: 5}
    assert "the row is nearly the same as an earlier row; it is" in result[3][1]
    assert "and their similarity is about 0.9" in result[3][1]
    assert "gives the same examples" in result[4][1]
    assert made.report.duplicates == {"exact": 1, "near": 2}
    strict = PrepareSettings(deduplicate="near", similarity=0.99)
    prepare(source, tmp_path / "strict", strict, workers=1)
    assert list(found(tmp_path / "strict")) == [4]


def test_instructions_do_not_make_rows_similar(tmp_path: Path) -> None:
    pytest.importorskip("rensa")
    system = text(3, 500)
    rows = [chat(text(n, 30), text(n + 9, 30), system=system) for n in range(3)]
    made = prepare(write(tmp_path / "rows.jsonl", rows), tmp_path / "out", NEAR, workers=1)
    assert made.report.rejected == 0


def shingles(row: dict[str, Any]) -> set[tuple[str, ...]]:
    """Return runs of five words: the words of these texts are a token each, mostly."""
    words = " ".join(message["content"] for message in row["messages"]).split()
    return {tuple(words[at : at + 5]) for at in range(len(words) - 4)}


@settings(max_examples=examples(12), deadline=None)
@given(seed=st.integers(0, 10**6))
@pytest.mark.slow
def test_near_duplicates_are_those_of_all_pairs(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Estimates may be wrong by some standard errors; beyond that, all pairs decide."""
    pytest.importorskip("rensa")
    chance = random.Random(seed)
    rows = [chat(text(seed + n, 20), text(seed + n + 50, 180)) for n in range(4)]
    for _ in range(20):
        answer = chance.choice(rows)["messages"]
        rows.append(chat(answer[0]["content"], changed(answer[1]["content"], chance.randrange(40))))
    folder = tmp_path_factory.mktemp("near")
    prepare(write(folder / "rows.jsonl", rows), folder / "out", NEAR, workers=1, chunk_bytes=3000)
    repeated = {line - 1: first - 1 for line, (first, _) in found(folder / "out").items()}
    kept = [index for index in range(len(rows)) if index not in repeated]

    def similarity(one: int, other: int) -> float:
        first, second = shingles(rows[one]), shingles(rows[other])
        return len(first & second) / len(first | second)

    for index, first in repeated.items():
        assert first < index
        assert similarity(index, first) > 0.8 - 0.15
        near = [other for other in kept if other < index and similarity(index, other) > 0.65]
        assert near or first in repeated  # an exact duplicate of a near one names that one
    for one, other in itertools.combinations(kept, 2):
        assert similarity(one, other) < 0.8 + 0.15


def write_keys(path: Path, exact: Sequence[int], bands: Any = None, sketch: Any = None) -> Path:
    arrays = {
        "row": np.arange(len(exact), dtype=np.int32),
        "exact": np.array([[key, 0] for key in exact], dtype=np.uint64).reshape(-1, 2),
    }
    if bands is not None:
        arrays.update(bands=bands, sketch=sketch)
    with path.open("wb") as file:
        np.savez(file, **arrays)
    return path


@settings(max_examples=examples(60), deadline=None)
@given(
    shards=st.lists(st.lists(st.integers(0, 5), max_size=6), min_size=1, max_size=5),
    sorted_rows=st.integers(1, 9),
)
def test_the_first_row_of_each_key_is_kept(
    tmp_path_factory: pytest.TempPathFactory, shards: list[list[int]], sorted_rows: int
) -> None:
    """However many rows are sorted at once; the expected answer is a loop over all rows."""
    out = tmp_path_factory.mktemp("exact")
    rows = [
        ShardRows(number, write_keys(out / f"{number}.npz", keys), f"file{number}", 10 * number)
        for number, keys in enumerate(shards)
    ]
    digests = find_duplicates(rows, out, sorted_rows=sorted_rows)
    first: dict[int, tuple[str, int]] = {}
    for number, keys in enumerate(shards):
        expected = {}
        for index, key in enumerate(keys):
            place = first.setdefault(key, (f"file{number}", 10 * number + index + 1))
            if place != (f"file{number}", 10 * number + index + 1):
                expected[index] = place
        assert (number in digests) is bool(expected)
        if expected:
            with (out / f"{number:05}.duplicates.jsonl").open("rb") as file:
                read = ShardDuplicates.read("", file).rows
            assert {row: (one.file, one.line) for row, one in read.items()} == expected
    assert not (out / "index").exists()


@settings(max_examples=examples(30), deadline=None)
@given(seed=st.integers(0, 10**6), sorted_rows=st.integers(1, 40))
def test_buckets_do_not_depend_on_how_many_rows_are_sorted(
    tmp_path_factory: pytest.TempPathFactory, seed: int, sorted_rows: int
) -> None:
    """The expected answer compares each row with all earlier ones that are kept."""
    out = tmp_path_factory.mktemp("near")
    make = np.random.default_rng(seed)
    count, bands = 30, bands_of(0.8)[0]
    sketch = make.integers(0, 4, (3, 128), dtype=np.uint8)[make.integers(0, 3, count)]
    sketch = np.where(make.random(sketch.shape) < make.random((count, 1)) / 3, 9, sketch)
    keys = make.integers(0, 3, (count, bands)).astype(np.uint64)
    exact = make.integers(0, 25, count).tolist()
    rows = []
    for number, (start, end) in enumerate([(0, 10), (10, 10), (10, 30)]):
        path = out / f"{number}.npz"
        write_keys(path, exact[start:end], keys[start:end], sketch[start:end].astype(np.uint8))
        rows.append(ShardRows(number, path, "file", start))
    digests = find_duplicates(rows, out, 0.8, sorted_rows=sorted_rows)
    read = {}
    for number in digests:
        with (out / f"{number:05}.duplicates.jsonl").open("rb") as file:
            for row, one in ShardDuplicates.read("", file).rows.items():
                read[rows[number].lines_before + row] = one.line - 1
    expected: dict[int, int] = {}
    for row in range(count):
        if exact.index(exact[row]) < row:
            expected[row] = exact.index(exact[row])
            continue
        alike = {
            other: float((sketch[row] == sketch[other]).mean())
            for other in range(row)
            if other not in expected and (keys[row] == keys[other]).any()
        }
        best = max(alike, key=lambda other: (alike[other], -other), default=None)
        if best is not None and (alike[best] - 1 / 256) / (1 - 1 / 256) >= 0.8:
            expected[row] = best
    assert read == expected


def many_rows(count: int = 60) -> list[dict[str, Any]]:
    return [chat(text(n % 5, 20), changed(text(n % 5, 60), n % 12 // 2)) for n in range(count)]


@pytest.fixture(params=["exact", "near"])
def chosen(request: pytest.FixtureRequest) -> PrepareSettings:
    if request.param == "near":
        pytest.importorskip("rensa")
    return PrepareSettings(deduplicate=request.param)


def stopping(after: int) -> Runner:
    """Make so many shards, over all calls, and then stop like a killed process."""
    left = itertools.count(after, -1)

    def run(jobs: Sequence[ShardJob], _: OnRead | None) -> Generator[Shard, None, None]:
        for job in jobs:
            if next(left) <= 0:
                raise KeyboardInterrupt
            yield job.run()

    return run


@pytest.mark.slow
@pytest.mark.parametrize("to", [lambda path: path / "out", lambda _: "memory://duplicates"])
def test_it_goes_on_from_wherever_it_was_interrupted(
    tmp_path: Path, chosen: PrepareSettings, to: Callable[[Path], Any]
) -> None:
    fsspec = pytest.importorskip("fsspec")
    source = write(tmp_path / "rows.jsonl", many_rows())
    whole = tmp_path / "whole"
    steps: list[Progress] = []
    prepare(source, whole, chosen, workers=1, chunk_bytes=4000, watch=steps.append)
    assert {step.step for step in steps} == {"read", "deduplicate"}
    shards = steps[-1].shards
    assert shards > 3
    for after in (1, shards - 1, shards, shards + 1, 2 * shards - 1):
        out = to(tmp_path / f"{after}")
        if isinstance(out, str):
            out += f"/{chosen.deduplicate}{after}"
        with contextlib.suppress(KeyboardInterrupt):
            prepare(source, out, chosen, runner=stopping(after), chunk_bytes=4000)
        prepare(source, out, chosen, workers=1, chunk_bytes=4000)
        if isinstance(out, str):
            files, path = fsspec.core.url_to_fs(out)
            out = tmp_path / f"read{after}"
            files.get(path, str(out), recursive=True)
        assert digests(out) == digests(whole)
    before = digests(whole)
    for name in ("00000.json", f"{shards - 1:05}.json"):
        (whole / ".harmony" / name).unlink()
    prepare(source, whole, chosen, workers=1, chunk_bytes=4000)
    assert digests(whole) == before


@pytest.mark.slow
def test_any_number_of_workers_finds_the_same(tmp_path: Path, chosen: PrepareSettings) -> None:
    source = write(tmp_path / "rows.jsonl", many_rows())
    for workers in (1, 2):
        out = tmp_path / f"{workers}"
        prepare(source, out, chosen, workers=workers, chunk_bytes=4000)
    assert digests(tmp_path / "1") == digests(tmp_path / "2")
    assert not list((tmp_path / "1" / ".harmony").glob("*.npz"))


def test_compressed_rows_and_shards_without_other_rows(
    tmp_path: Path, chosen: PrepareSettings
) -> None:
    import gzip

    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(f"{json.dumps(A)}\n".encode() * 200))
    made = prepare(path, tmp_path / "out", chosen, workers=1, chunk_bytes=2000)
    assert (made.report.examples, made.report.duplicates.total()) == (1, 199)
    assert [p.name for p in (tmp_path / "out" / "data").iterdir()] == ["train-00000.parquet"]
    shutil.rmtree(tmp_path / "out" / ".harmony" / "unpacked", ignore_errors=True)


def test_nothing_to_compare(tmp_path: Path, chosen: PrepareSettings) -> None:
    source = write(tmp_path / "rows.jsonl", ["no row"])
    assert prepare(source, tmp_path / "out", chosen, workers=1).report.rejected == 1


def test_the_command_does_not_count_duplicates_as_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(tmp_path / "rows.jsonl", [A, A, A, B, "no row"])
    run = ["prepare", str(source), "--workers", "1", "--deduplicate", "exact"]
    assert main([*run, "--output", str(tmp_path / "out"), "--max-rejected", "20%"]) == 0
    printed = capsys.readouterr().out
    assert "2 × the row gives the same examples as an earlier row" in printed
    assert main([*run, "--output", str(tmp_path / "out"), "--max-rejected", "10%"]) == 1
    problem = "1 of 5 rows are rejected, without the duplicates, more than --max-rejected 10%"
    assert problem in capsys.readouterr().err
    for more, error in [
        (["--similarity", "80%"], "--similarity needs --deduplicate near"),
        (["--similarity", "1%"], "too low; write 10% or more"),
        (["--deduplicate", "all"], "--deduplicate cannot be 'all'"),
    ]:
        assert main([*run, "--output", str(tmp_path / "other"), *more]) == 2
        assert error in capsys.readouterr().err


def test_near_duplicates_need_a_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rensa", None)
    source = write(tmp_path / "rows.jsonl", [A])
    run = ["prepare", str(source), "--output", str(tmp_path / "out"), "--deduplicate", "near"]
    assert main(run) == 1
    assert f"near duplicates need rensa; pip install {requirement('dedup')}" in (
        capsys.readouterr().err
    )
    with pytest.raises(ValueError, match=r"from 0.1 to 1, not 2"):
        PrepareSettings(similarity=2)
