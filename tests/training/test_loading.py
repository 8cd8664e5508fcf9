"""Prepared files for PyTorch: ranks, workers, restarts and mixtures."""

from __future__ import annotations

import re
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


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_each_epoch_of_new_workers_has_another_order(tmp_path: Path, context: str) -> None:
    source = folder(tmp_path, 0, 101)
    whole = PreparedRows(source, world_size=2), PreparedRows(source, rank=1, world_size=2)
    expected = [[numbers(rows) for rows in whole] for _ in range(3)]
    loader = torch.utils.data.DataLoader(
        PreparedRows(source), batch_size=None, num_workers=2, multiprocessing_context=context
    )
    for parts in expected:  # two workers read what two ranks read, in turn
        assert numbers(loader) == [row for pair in zip(*parts, strict=True) for row in pair]


def test_epochs_of_new_workers_begin_at_a_position(tmp_path: Path) -> None:
    source = folder(tmp_path, 0, 60)
    rows = PreparedRows(source)
    loader = torch.utils.data.DataLoader(rows, batch_size=None, num_workers=1)
    for epoch, done in ((0, 0), (2, 50), (0, 10)):
        rows.load_state_dict({"epoch": epoch, "done": done})
        for later in range(2):
            single = PreparedRows(source)
            single.load_state_dict({"epoch": epoch + later, "done": 0 if later else done})
            assert numbers(loader) == numbers(single)
    for epoch in (2, 3):  # an epoch that is left early is over
        single.load_state_dict({"epoch": epoch, "done": 0})
        assert numbers(islice(loader, 5)) == numbers(islice(single, 5))


def test_workers_that_stay_go_on_with_the_next_epoch(tmp_path: Path) -> None:
    rows = PreparedRows(folder(tmp_path, 0, 60))
    single = PreparedRows(tmp_path)
    loader = torch.utils.data.DataLoader(
        rows, batch_size=None, num_workers=1, persistent_workers=True
    )
    assert [numbers(loader) for _ in range(3)] == [numbers(single) for _ in range(3)]


def load_a_position(worker: int) -> None:
    """Load it in the worker, as StatefulDataLoader does."""
    info: Any = torch.utils.data.get_worker_info()
    info.dataset.load_state_dict({"epoch": 5, "done": 20})


def test_a_position_loaded_in_a_worker_counts(tmp_path: Path) -> None:
    source = folder(tmp_path, 0, 60)
    rows, single = PreparedRows(source), PreparedRows(source)
    loader: Any = torch.utils.data.DataLoader(
        rows, batch_size=None, num_workers=1, worker_init_fn=load_a_position
    )
    single.load_state_dict({"epoch": 5, "done": 20})
    assert numbers(loader) == numbers(single)
    loader = torch.utils.data.DataLoader(rows, batch_size=None, num_workers=1)
    assert numbers(loader) == numbers(single)


def test_mixtures_of_new_workers_go_on(tmp_path: Path) -> None:
    sets = [
        PreparedRows(folder(tmp_path / name, first, 30), is_endless=True)
        for name, first in (("a", 0), ("b", 1000))
    ]
    mixture = MixedRows(sets, [1, 1])
    loader = torch.utils.data.DataLoader(mixture, batch_size=None, num_workers=2)
    assert len({tuple(numbers(islice(loader, 20))) for _ in range(3)}) == 3


def test_sets_with_fewer_rows_than_readers_are_named(tmp_path: Path) -> None:
    small, large = folder(tmp_path / "a", 0, 3), folder(tmp_path / "b", 0, 100)
    sets = [PreparedRows(path, world_size=4, is_endless=True) for path in (large, small)]
    problem = re.escape(f"{small} has fewer rows (3) than readers (4 ranks with 1 worker each)")
    for rows in (sets[1], MixedRows(sets, [1, 1])):
        with pytest.raises(ValueError, match=problem):
            iter(rows)
    mixture = MixedRows([PreparedRows(small, world_size=2, is_endless=True)], [1])
    loader = torch.utils.data.DataLoader(mixture, batch_size=None, num_workers=2)
    with pytest.raises(ValueError, match=r"readers \(2 ranks with 2 workers each\)"):
        next(iter(loader))
    # An epoch that ends is empty.
    assert numbers(PreparedRows(small, world_size=4)) == []


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
