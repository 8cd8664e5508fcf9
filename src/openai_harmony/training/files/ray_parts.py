"""The parts of a preparation on a Ray cluster, by `map_batches` of Ray Data.

Each batch is one part, which a worker reads, makes and writes as a process of this machine would:
source and output have to be on storage that all nodes see at the same path.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from .part import Part
from .preparation import PartJob, Runner

__all__ = ["ray_runner"]


def ray_runner() -> Runner:
    """Make parts on the cluster that Ray is connected to, or on this machine.

    ``prepare(source, out, runner=ray_runner())`` makes the same bytes as without it. Raises
    `ModuleNotFoundError` where Ray is missing.
    """
    try:
        import ray.data
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"this needs {error.name}; pip install 'ray[data]'", name=error.name
        ) from error

    def run(jobs: Sequence[PartJob]) -> Iterator[Part]:
        if not jobs:
            return
        # Rows are plain values, so that Ray does not look into them.
        rows = [{"job": pickle.dumps(job)} for job in jobs]
        made = ray.data.from_items(rows, override_num_blocks=len(rows))
        for row in made.map_batches(_made, batch_size=1).iter_rows():
            yield pickle.loads(row["part"])

    return run


def _made(batch: dict[str, Any]) -> dict[str, Any]:
    jobs = [pickle.loads(job) for job in batch["job"]]
    return {"part": [pickle.dumps(job.run()) for job in jobs]}
