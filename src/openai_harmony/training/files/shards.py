"""One chunk of rows to one shard: a Parquet file, the rows that were rejected, and counts.

Equal chunks and settings give equal bytes, whichever process or machine makes the shard.
"""

from __future__ import annotations

import json
from array import array
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from ...errors import HarmonyError
from ..examples import read_examples
from ..options import TrainingOptions
from ..packing import packed_groups
from ..rows import RowForm, read_row
from .report import TokenReport
from .sources import Chunk, atomic_file, read_chunk

__all__ = ["Columns", "PrepareSettings", "Shard", "prepare_shard", "read_shard"]


@dataclass(frozen=True)
class PrepareSettings:
    """Choices for `prepare`; equal settings make equal files.

    - `training`: what is trained on, and how it is rendered.
    - `form`: the form of the rows; None detects each row's.
    - `start_date`: the date in the system message of chats.
    - `pack`: put several examples in one sequence of `training.context_length` tokens.
    - `loss_weights`: write a column with the weights of messages.
    """

    training: TrainingOptions = field(default_factory=TrainingOptions)
    form: RowForm | None = None
    start_date: str | None = None
    pack: bool = False
    loss_weights: bool = False

    def __post_init__(self) -> None:
        if self.pack and self.training.context_length is None:
            raise ValueError("packing needs a context_length: the length of the sequences")

    def as_json(self) -> dict[str, Any]:
        """Return the settings as JSON, to be compared."""
        settings = asdict(self)
        channels = self.training.channels
        settings["training"]["channels"] = None if channels is None else sorted(channels)
        return settings


class Columns:
    """The columns that trainers read, built from rows, as plain arrays.

    Equal rows in equal order, with equal settings, give equal tables.
    """

    def __init__(self, settings: PrepareSettings) -> None:
        self._settings = settings
        self._ids = array("i")
        self._labels = array("i")
        self._weights = array("f")
        self._lengths: list[int] = []

    def add_row(self, raw: object, report: TokenReport) -> str | None:
        """Add and count the examples of a row; return the problem where there are none."""
        settings = self._settings
        try:
            form, conversation, weights = read_row(
                raw, form=settings.form, start_date=settings.start_date
            )
            examples, too_long = read_examples(conversation, settings.training, weights=weights)
        except HarmonyError as error:
            return str(error)
        except RecursionError:
            return "nested too deeply to be read"
        report.too_long += len(too_long)
        if not examples:
            limit = settings.training.context_length
            return f"nothing fits in {limit} tokens" if too_long else "nothing to train on"
        report.forms[form] += 1
        for example in examples:
            self._ids.fromlist(example.input_ids)
            self._labels.fromlist(example.labels)
            if settings.loss_weights:
                self._weights.fromlist(example.loss_weights())
            self._lengths.append(len(example))
            report.add_example(example, conversation.messages)
        return None

    def table(self) -> pa.Table:
        """Make the table: a row for each example, or each packed sequence."""
        ids = np.frombuffer(self._ids, dtype=np.int32)
        labels = np.frombuffer(self._labels, dtype=np.int32)
        values = {
            "input_ids": ids,
            "labels": labels,
            "assistant_masks": (ids == labels).astype(np.int8),
        }
        if self._settings.loss_weights:
            values["loss_weights"] = np.frombuffer(self._weights, dtype=np.float32)
        lengths = np.array(self._lengths, dtype=np.int64)
        if not self._settings.pack:
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            return pa.table({name: _lists(column, offsets) for name, column in values.items()})
        # Put the examples in the order of their groups, and cut the columns there.
        groups = packed_groups(self._lengths, self._settings.training.context_length or 0)
        starts = np.cumsum(lengths) - lengths
        order = np.array([index for group in groups for index in group], dtype=np.int64)
        indices = np.concatenate(
            [np.arange(0), *(np.arange(starts[i], starts[i] + lengths[i]) for i in order)]
        )
        counts = np.cumsum([0, *map(len, groups)])
        ends = np.concatenate([[0], np.cumsum(lengths[order])])[counts]
        columns = {name: _lists(column[indices], ends) for name, column in values.items()}
        positions = (indices - np.repeat(starts[order], lengths[order])).astype(np.int32)
        columns["position_ids"] = _lists(positions, ends)
        columns["seq_lengths"] = _lists(lengths[order], counts)
        return pa.table(columns)


def _lists(values: Any, offsets: Any) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), pa.array(values))


@dataclass(frozen=True)
class Shard:
    """A shard that was made: its number, the lines of its chunk, and counts."""

    number: int
    lines: int
    report: TokenReport


def prepare_shard(
    number: int, chunk: Chunk, settings: PrepareSettings, data: Path, state: Path
) -> Shard:
    """Make the shard with that number: its Parquet in `data`, all its other files in `state`.

    The file that marks the shard as done is written last, so that no shard is half done.
    """
    columns = Columns(settings)
    report = TokenReport()
    lines = 0
    name = f"{number:05}"
    with (
        atomic_file(state / f"{name}.rejected.jsonl") as path,
        open(path, "w", encoding="utf-8") as rejected,
    ):
        for row in read_chunk(chunk):
            lines = row.number + 1
            if row.raw is None:
                continue  # an empty line
            report.rows += 1
            problem = row.problem or columns.add_row(row.raw, report)
            if problem:
                report.rejected += 1
                entry = {"file": chunk.path, "line": row.number, "reason": problem, "row": row.raw}
                rejected.write(json.dumps(entry, default=str) + "\n")
    table = columns.table()
    report.sequences = table.num_rows
    if table.num_rows:  # some readers fail on a file without rows
        with atomic_file(data / f"train-{name}.parquet") as path:
            pq.write_table(table, path, compression="zstd")
    with atomic_file(state / f"{name}.json") as path:
        path.write_text(json.dumps({"lines": lines, "report": report.as_json()}))
    return Shard(number, lines, report)


def read_shard(number: int, state: Path) -> Shard | None:
    """Read the counts of a shard that was made; None where it was not."""
    try:
        raw = json.loads((state / f"{number:05}.json").read_text())
    except FileNotFoundError:
        return None
    return Shard(number, raw["lines"], TokenReport.from_json(raw["report"]))
