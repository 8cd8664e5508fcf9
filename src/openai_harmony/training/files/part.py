"""One chunk of rows to one part: a Parquet file, the rows that were rejected, and counts.

Equal chunks and settings give equal bytes, whichever process or machine makes the part.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from ...errors import HarmonyError
from ..example import TrainingExample
from ..examples import read_examples
from ..packing import packed_places
from ..rows import read_row
from .settings import PrepareSettings
from .sources import Chunk, SourceRow, read_chunk
from .token_report import TokenReport
from .whole_file import whole_file

__all__ = ["Part", "prepare_part", "read_part"]


@dataclass(frozen=True)
class Part:
    """What is known of a part that was made: its place, the lines of its chunk, and counts."""

    number: int
    lines: int
    report: TokenReport


def prepare_part(
    number: int, chunk: Chunk, settings: PrepareSettings, data: Path, state: Path
) -> Part:
    """Make the part with that number: its Parquet in `data`, what else there is in `state`.

    The file that says that the part is done is written last, so that a part is there wholly or
    not at all.
    """
    columns = _Columns(settings)
    report = TokenReport()
    lines = 0
    name = f"{number:05}"
    with (
        whole_file(state / f"{name}.rejected.jsonl") as path,
        open(path, "w", encoding="utf-8") as bad,
    ):
        for row in read_chunk(chunk):
            lines = row.number + 1
            if row.raw is None:
                continue  # an empty line
            report.rows += 1
            problem = row.problem or _add(row, settings, columns, report)
            if problem:
                report.rejected += 1
                bad.write(_rejected(chunk, row, problem))
    table = columns.table()
    report.sequences = table.num_rows
    if table.num_rows:  # not every reader takes a file without rows
        with whole_file(data / f"train-{name}.parquet") as path:
            pq.write_table(table, path, compression="zstd")
    with whole_file(state / f"{name}.json") as path:
        path.write_text(json.dumps({"lines": lines, "report": report.as_json()}))
    return Part(number, lines, report)


def read_part(number: int, state: Path) -> Part | None:
    """Read what is known of a part; None where it was not made."""
    try:
        raw = json.loads((state / f"{number:05}.json").read_text())
    except FileNotFoundError:
        return None
    return Part(number, raw["lines"], TokenReport.from_json(raw["report"]))


def _add(
    row: SourceRow, settings: PrepareSettings, columns: _Columns, report: TokenReport
) -> str | None:
    """Add the examples of a row; return what is wrong with it, if anything is."""
    try:
        form, conversation, weights = read_row(
            row.raw, form=settings.form, start_date=settings.start_date
        )
        examples, too_long = read_examples(conversation, settings.training, weights=weights)
    except HarmonyError as error:
        return str(error)
    except RecursionError:
        return "nested too deeply to be read"
    report.too_long += len(too_long)
    if not examples:
        limit = settings.training.context_length
        return f"nothing fits in {limit} tokens" if too_long else "nothing to learn"
    report.forms[form] += 1
    for example in examples:
        columns.add(example)
        report.add_example(example, conversation.messages)
    return None


def _rejected(chunk: Chunk, row: SourceRow, problem: str) -> str:
    entry = {"file": chunk.path, "line": row.number, "reason": problem, "row": row.raw}
    return json.dumps(entry, default=str) + "\n"


class _Columns:
    """The examples of a part, column by column, as plain arrays."""

    def __init__(self, settings: PrepareSettings) -> None:
        self._settings = settings
        self._ids = array("i")
        self._labels = array("i")
        self._weights = array("f")
        self._lengths: list[int] = []

    def add(self, example: TrainingExample) -> None:
        """Add an example."""
        self._ids.fromlist(example.input_ids)
        self._labels.fromlist(example.labels)
        if self._settings.loss_weights:
            self._weights.fromlist(example.loss_weights())
        self._lengths.append(len(example))

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
        return self._packed(values, lengths)

    def _packed(self, values: dict[str, Any], lengths: Any) -> pa.Table:
        """Put the examples in the order of their groups, and cut the columns there."""
        groups = packed_places(self._lengths, self._settings.training.context_length or 0)
        starts = np.cumsum(lengths) - lengths
        order = [at for group in groups for at in group]
        places = _places(starts, lengths, order)
        counts = np.cumsum([0, *map(len, groups)])
        ends = np.concatenate([[0], np.cumsum(lengths[order])])[counts] if order else counts
        columns = {name: _lists(column[places], ends) for name, column in values.items()}
        inner = (places - np.repeat(starts[order], lengths[order])).astype(np.int32)
        columns["position_ids"] = _lists(inner, ends)
        columns["seq_lengths"] = _lists(lengths[order], counts)
        return pa.table(columns)


def _places(starts: Any, lengths: Any, order: Sequence[int]) -> Any:
    """Where the values of the examples stand, in the order given."""
    if not order:
        return np.zeros(0, dtype=np.int64)
    return np.concatenate([np.arange(starts[at], starts[at] + lengths[at]) for at in order])


def _lists(values: Any, offsets: Any) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), pa.array(values))
