"""Rows that are in Ray already, by `map_batches`: the columns that files have, without files."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]

from ..rows.embedded_json import without_nulls
from .columns import Columns
from .settings import PrepareSettings
from .token_report import TokenReport

if TYPE_CHECKING:
    from ray.data import Dataset

__all__ = ["ray_examples"]


def ray_examples(
    rows: Dataset, settings: PrepareSettings | None = None, *, batch_size: int | None = 1024
) -> Dataset:
    """Make examples of a Ray data set, with the columns that `prepare` writes.

    A row that gives none is not dropped: it has `rejected`, which is JSON of the ``reason`` and the
    ``row``, and null elsewhere; examples have null there. `settings.pack` packs within a batch of
    `batch_size` rows (None: a block). Fields that are null are taken as missing, as in Parquet.
    """
    make = functools.partial(_examples, settings=settings or PrepareSettings())
    return rows.map_batches(make, batch_size=batch_size, batch_format="pyarrow")


def _examples(batch: pa.Table, settings: PrepareSettings) -> pa.Table:
    """Make the examples of a batch, and after them what was rejected."""
    columns = Columns(settings)
    report = TokenReport()
    rejected: list[str] = []
    for raw in batch.to_pylist():
        row = without_nulls(raw)
        reason = columns.add_row(row, report)
        if reason:
            rejected.append(json.dumps({"reason": reason, "row": row}, default=str))
    made = columns.table()
    none = pa.nulls(made.num_rows, pa.string())
    apart = pa.table({"rejected": pa.array(rejected, pa.string())})
    return pa.concat_tables(
        [made.append_column("rejected", none), apart], promote_options="default"
    )
