"""Preparation with Ray: shards on a cluster, and rows that are in Ray already, by `map_batches`."""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

from ..rows import without_nulls
from .processes import OnRead, Runner, ShardJob
from .report import TokenReport
from .shards import Columns, PrepareSettings, Shard

if TYPE_CHECKING:
    from ray.data import Dataset


def ray_runner() -> Runner:
    """Make shards on the cluster that Ray is connected to, or on this machine.

    ``prepare(source, out, runner=ray_runner())`` makes the same bytes as without it. All nodes must
    have the source and the output at the same path or address. Progress is reported after each
    shard. Raises `ModuleNotFoundError` if Ray is missing.
    """
    try:
        import ray.data
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"this needs {error.name}; pip install 'ray[data]'", name=error.name
        ) from error

    def run(jobs: Sequence[ShardJob], _: OnRead | None) -> Generator[Shard, None, None]:
        if not jobs:
            return
        # Rows are plain bytes, so that Ray does not look into them; each batch is one shard.
        rows = [{"job": pickle.dumps(job)} for job in jobs]
        pickled = ray.data.from_items(rows, override_num_blocks=len(rows))
        for row in pickled.map_batches(_run_jobs, batch_size=1).iter_rows():
            yield pickle.loads(row["shard"])

    return run


def _run_jobs(batch: dict[str, Any]) -> dict[str, Any]:
    jobs = [pickle.loads(job) for job in batch["job"]]
    return {"shard": [pickle.dumps(job.run()) for job in jobs]}


def ray_examples(
    rows: Dataset, settings: PrepareSettings | None = None, *, batch_size: int | None = 1024
) -> Dataset:
    """Make examples of a Ray data set, with the columns that `prepare` writes.

    A row without examples is not dropped: its column `rejected` is JSON of the ``reason`` and the
    ``row``, and the others are null. Examples have null in `rejected`. `settings.pack` packs within
    a batch of `batch_size` rows (None: a block). Null fields are read as missing, as in Parquet.
    """
    settings = settings or PrepareSettings()
    if settings.deduplicate is not None:
        raise ValueError("a batch has only some of the rows; find duplicates with prepare()")
    make = functools.partial(_batch_examples, settings=settings.dated())
    return rows.map_batches(make, batch_size=batch_size, batch_format="pyarrow")


def _batch_examples(batch: pa.Table, settings: PrepareSettings) -> pa.Table:
    """Make the examples of a batch, followed by its rejected rows."""
    columns = Columns(settings)
    report = TokenReport()
    rejected: list[str] = []
    for raw in batch.to_pylist():
        row = without_nulls(raw)
        reason = columns.add_row(row, report)
        if reason:
            rejected.append(json.dumps({"reason": reason, "row": row}, default=str))
    table = columns.take_table()
    no_reasons = pa.nulls(table.num_rows, pa.string())
    rejected_table = pa.table({"rejected": pa.array(rejected, pa.string())})
    return pa.concat_tables(
        [table.append_column("rejected", no_reasons), rejected_table], promote_options="default"
    )
