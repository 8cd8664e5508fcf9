"""Prepared files for PyTorch: ranks, workers, restarts and mixtures."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
import torch

from gpt_oss_harmony.training.files.loading import MixedRows, PreparedRows


def folder(path: Path, first: int, count: int) -> Path:
    """Write rows with the numbers from `first` on, into several files and row groups."""
    (path / "data").mkdir(parents=True)
    numbers = list(range(first, first + count))
    for index in range(0, count, 25):
        table = pa.table({"input_ids": [[number] for number in numbers[index : index + 25]]})
        pq.write_table(table, path / "data" / f"train-{index:05}.parquet", row_group_size=10)
    return path


def numbers(rows: Any) -> list[int]:
    return [row["input_ids"][0] for row in rows]


@pytest.mark.parametrize("world_size", [1, 2, 3, 8])
def test_ranks_read_equally_many_rows_and_none_twice(tmp_path: Path, world_size: int) -> None:
    source = folder(tmp_path, 0, 100)
    ranks = [PreparedRows(source, rank=rank, world_size=world_size) for rank in range(world_size)]
    epochs = []
    for _ in range(2):
        parts = [numbers(rows) for rows in ranks]
        assert {len(part) for part in parts} == {100 // world_size}
        read = [number for part in parts for number in part]
        assert len(set(read)) == len(read)
        epochs.append(parts)
    assert epochs[0] != epochs[1]


def test_rows_are_in_order_without_shuffling(tmp_path: Path) -> None:
    assert numbers(PreparedRows(folder(tmp_path, 0, 60), shuffle=False)) == list(range(60))


@pytest.mark.parametrize("done", [0, 1, 9, 10, 33, 50])
def test_a_restart_goes_on_at_the_next_row(tmp_path: Path, done: int) -> None:
    source = folder(tmp_path, 0, 100)
    rows = PreparedRows(source, rank=1, world_size=2, is_endless=True)
    whole = numbers(islice(rows, 120))
    again = PreparedRows(source, rank=1, world_size=2, is_endless=True)
    stream = iter(again)
    assert numbers(islice(stream, done)) == whole[:done]
    later = PreparedRows(source, rank=1, world_size=2, is_endless=True)
    later.load_state_dict(again.state_dict())
    assert numbers(islice(later, 120 - done)) == whole[done:]


def test_workers_of_a_loader_share_the_rows_of_a_rank(tmp_path: Path) -> None:
    source = folder(tmp_path, 0, 100)
    read: list[int] = []
    for rank in range(2):
        rows = PreparedRows(source, rank=rank, world_size=2)
        loader = torch.utils.data.DataLoader(rows, batch_size=None, num_workers=2)
        read += numbers(loader)
    assert sorted(read) == list(range(100))


def test_mixtures_draw_by_weight_and_go_on_exactly(tmp_path: Path) -> None:
    small, large = folder(tmp_path / "a", 0, 30), folder(tmp_path / "b", 1000, 200)

    def mixture() -> MixedRows:
        sets = [PreparedRows(path, is_endless=True) for path in (small, large)]
        return MixedRows(sets, [1, 3], seed=7)

    whole = numbers(islice(mixture(), 1000))
    counts = Counter(number >= 1000 for number in whole)
    assert 700 < counts[True] < 800
    begun = mixture()
    assert numbers(islice(iter(begun), 345)) == whole[:345]
    later = mixture()
    later.load_state_dict(begun.state_dict())
    assert numbers(islice(later, 655)) == whole[345:]


def test_what_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no Parquet files"):
        PreparedRows(tmp_path)
    source = folder(tmp_path, 0, 10)
    with pytest.raises(ValueError, match="the rank is 2, but there are 2"):
        PreparedRows(source, rank=2, world_size=2)
    with pytest.raises(ValueError, match="must be endless"):
        MixedRows([PreparedRows(source)], [1])
    with pytest.raises(ValueError, match="needs a weight"):
        MixedRows([PreparedRows(source, is_endless=True)], [0])


def test_rows_at_an_address_are_those_of_the_folder(tmp_path: Path) -> None:
    rows = folder(tmp_path / "rows", 0, 100)
    assert numbers(PreparedRows(f"file://{rows}", seed=5)) == numbers(PreparedRows(rows, seed=5))
    with pytest.raises(ValueError, match="memory://nothing has no Parquet files"):
        PreparedRows("memory://nothing")
