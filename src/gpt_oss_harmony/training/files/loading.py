"""Prepared files for PyTorch: each rank opens its own part, and goes on exactly where it stopped.

The row groups of all files are put into an order that depends on the seed and the epoch. Each rank,
and each worker of its data loader, reads an equal range of that order; at most one row for each of
them is left out in an epoch. Only the row groups of the range are opened.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import torch
from torch.utils.data import IterableDataset, get_worker_info

from .addresses import RemotePath, source_path

_Row = dict[str, list[int]]

_MOST_WORKERS = 1024
_NOT_BEGUN = -1


class _Group(NamedTuple):
    path: Path | RemotePath
    number: int
    rows: int


class PreparedRows(IterableDataset[_Row]):
    """The rows of an output folder of `prepare`, for one rank of several.

    Iterating begins at the position of `load_state_dict`, and ends with the epoch; the next
    iteration is the next epoch, in another order, also with new workers of a data loader. They
    begin a new epoch even if the last one was left early. `is_endless` goes on with the next epoch.
    `state_dict` is that of the worker in which it is called, as `StatefulDataLoader` of torchdata
    calls it.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        rank: int = 0,
        world_size: int = 1,
        seed: int = 0,
        shuffle: bool = True,
        is_endless: bool = False,
    ) -> None:
        if not 0 <= rank < world_size:
            raise ValueError(f"the rank is {rank}, but there are {world_size} ranks from 0")
        self._groups = [
            _Group(path, number, meta.row_group(number).num_rows)
            for path in _parquet_files(source_path(folder))
            for meta in [_metadata(path)]
            for number in range(meta.num_row_groups)
        ]
        if not self._groups:
            raise ValueError(f"{folder} has no Parquet files; give an output folder of prepare")
        self._folder = folder
        self._rank = rank
        self._world_size = world_size
        self._seed = seed
        self._shuffle = shuffle
        self._is_endless = is_endless
        self._epoch = self._done = 0
        # A data loader starts new workers for each iteration, with copies of this object as it was
        # made. So each worker leaves its next epoch in memory that the copies share.
        self._next_epochs = torch.full((_MOST_WORKERS,), _NOT_BEGUN).share_memory_()  # type: ignore[no-untyped-call]
        self._goes_on = False  # this copy, and not a worker before it, has the position

    def state_dict(self) -> dict[str, int]:
        """Return the epoch, and the number of rows of it that were read."""
        return {"epoch": self._epoch, "done": self._done}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on at a position; the ranks, workers and seed must be the same."""
        self._epoch, self._done = state["epoch"], state["done"]
        if get_worker_info() is None:
            self._next_epochs.fill_(_NOT_BEGUN)
        else:
            self._goes_on = True

    def rows_of_epoch(self) -> int:
        """Count the rows that this rank (and worker) reads in an epoch."""
        return sum(group.rows for group in self._groups) // self._parts()[1]

    def __iter__(self) -> Iterator[_Row]:
        """Read the rows that are left of the epoch."""
        if self._is_endless and not self.rows_of_epoch():
            raise self._too_few()
        worker = get_worker_info()
        if worker is not None and not self._goes_on:
            self._goes_on = True
            if (epoch := int(self._next_epochs[worker.id])) != _NOT_BEGUN:
                self._epoch, self._done = epoch, 0
        self._note_epoch()  # now, not at the first row: all workers begin each epoch
        return self._read()

    def _note_epoch(self) -> None:
        if (worker := get_worker_info()) is not None:
            self._next_epochs[worker.id] = self._epoch + 1

    def _read(self) -> Iterator[_Row]:
        while True:
            count = self.rows_of_epoch()
            first = self._parts()[0] * count
            for row in self._rows(first + self._done, first + count):
                self._done += 1
                yield row
            self._epoch, self._done = self._epoch + 1, 0
            if not self._is_endless:
                return
            self._note_epoch()

    def _too_few(self) -> ValueError:
        rows, parts = sum(group.rows for group in self._groups), self._parts()[1]
        ranks, workers = self._world_size, parts // self._world_size
        readers = f"{ranks} rank{'s'[: ranks > 1]} with {workers} worker{'s'[: workers > 1]} each"
        return ValueError(
            f"{self._folder} has fewer rows ({rows}) than readers ({readers}); use fewer workers, "
            "or leave the set out"
        )

    def _parts(self) -> tuple[int, int]:
        """Return the number of this part, and of all parts."""
        worker = get_worker_info()
        workers, number = (1, 0) if worker is None else (worker.num_workers, worker.id)
        return self._rank * workers + number, self._world_size * workers

    def _rows(self, start: int, end: int) -> Iterator[_Row]:
        """Read the rows from `start` to `end` of this epoch's order."""
        groups = list(self._groups)
        if self._shuffle:
            # By nothing else, so that all ranks and workers agree on the order.
            random.Random(f"{self._seed} {self._epoch}").shuffle(groups)
        ends = list(accumulate(group.rows for group in groups))
        position = start
        while position < end:
            index = bisect_right(ends, position)
            group = groups[index]
            before = ends[index] - group.rows
            order = list(range(group.rows))
            if self._shuffle:
                chance = f"{self._seed} {self._epoch} {group.path.name} {group.number}"
                random.Random(chance).shuffle(order)
            with group.path.open("rb") as file, pq.ParquetFile(file) as parquet:
                table = parquet.read_row_group(group.number)
            for at in order[position - before : end - before]:
                yield {name: table.column(name)[at].as_py() for name in table.column_names}
                position += 1


def _parquet_files(folder: Path | RemotePath) -> list[Path] | list[RemotePath]:
    """Return the files of an output folder, or of its folder `data`, by name."""
    if isinstance(folder, RemotePath):
        data = folder / "data"
        data = data if data.names() else folder
        return [data / name for name in data.names() if name.endswith(".parquet")]
    path = folder / "data" if (folder / "data").is_dir() else folder
    return sorted(path.glob("*.parquet"))


def _metadata(path: Path | RemotePath) -> Any:
    with path.open("rb") as file:
        return pq.read_metadata(file)


class MixedRows(IterableDataset[_Row]):
    """Rows of several sets, drawn by weight; sets of equal seed are drawn in equal order.

    Each set must be endless, so that a small one is repeated and none ends the mixture.
    """

    def __init__(
        self, sets: Sequence[PreparedRows], weights: Sequence[float], *, seed: int = 0
    ) -> None:
        if len(sets) != len(weights) or not sets or min(weights) <= 0:
            raise ValueError("each set needs a weight above 0")
        if not all(rows._is_endless for rows in sets):
            raise ValueError("the sets of a mixture must be endless; pass is_endless=True")
        self._sets = list(sets)
        self._bounds = list(accumulate(weights))
        self._seed = seed
        self._drawn = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the positions of the mixture and of its sets."""
        return {"drawn": self._drawn, "sets": [rows.state_dict() for rows in self._sets]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on at a position."""
        self._drawn = state["drawn"]
        for rows, position in zip(self._sets, state["sets"], strict=True):
            rows.load_state_dict(position)

    def __iter__(self) -> Iterator[_Row]:
        """Draw rows without end."""
        return self._draw([iter(rows) for rows in self._sets])

    def _draw(self, streams: Sequence[Iterator[_Row]]) -> Iterator[_Row]:
        while True:
            # The draw depends on its number only, so that no state of a generator is needed.
            at = random.Random(f"{self._seed} {self._drawn}").random() * self._bounds[-1]
            self._drawn += 1
            yield next(streams[bisect_right(self._bounds, at)])
