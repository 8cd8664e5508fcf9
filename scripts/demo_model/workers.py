"""Processes that train together: each learns from its own rows, and all take the same steps."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, multiprocessing

__all__ = ["Worker", "run_workers"]

_ROOM = 4_000_000
"""Numbers that a worker can show to the others at once."""

_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
    "MALLOC_TRIM_THRESHOLD_": "10000000000",
    "MALLOC_TOP_PAD_": "268435456",
}
"""For the C library: keep memory for the next step, which is faster than asking for it anew."""


class Worker:
    """One of the processes: its number, and what it exchanges with the others."""

    def __init__(self, number: int, shown: Tensor, all_ready: Any) -> None:
        self.number = number
        self.count = len(shown)
        self._shown = shown
        self._all_ready = all_ready

    def exchange(self, mine: Tensor) -> Tensor:
        """Stack what every worker shows; all show tensors of the same shape."""
        self._shown[self.number, : mine.numel()] = mine.flatten()
        self._all_ready.wait()
        everyone = self._shown[:, : mine.numel()].clone()
        self._all_ready.wait()  # before anyone writes again
        return everyone.view(self.count, *mine.shape)


def run_workers(count: int, work: Callable[..., None], *arguments: object) -> None:
    """Call `work` with a worker and `arguments` in `count` processes, on one thread each."""
    os.environ.update(_MEMORY)
    context = multiprocessing.get_context("spawn")
    shown = torch.zeros(count, _ROOM).share_memory_()  # type: ignore[no-untyped-call]
    given = (shown, context.Barrier(count), work, arguments)
    multiprocessing.spawn(_run, given, nprocs=count)  # type: ignore[attr-defined, no-untyped-call]


def _run(
    number: int, shown: Tensor, ready: Any, work: Callable[..., None], arguments: tuple[object, ...]
) -> None:
    torch.set_num_threads(1)
    work(Worker(number, shown, ready), *arguments)
