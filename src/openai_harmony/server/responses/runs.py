"""The responses that are under way at this server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..api_error import ApiError

if TYPE_CHECKING:  # a run knows the services, and these the runs
    from .run import ResponseRun

__all__ = ["ResponseRuns"]


_LAST_WORDS = 5.0  # seconds for those who tell clients of the end


class ResponseRuns:
    """Finds responses by their ids as long as they run."""

    def __init__(self) -> None:
        self._runs: dict[str, ResponseRun] = {}
        self._tellers: set[asyncio.Task[None]] = set()

    def add(self, run: ResponseRun) -> None:
        """Take a run in."""
        self._runs[run.plan.id] = run

    def discard(self, run: ResponseRun) -> None:
        """Forget a run that has ended."""
        self._runs.pop(run.plan.id, None)

    def find(self, id: str, owner: str) -> ResponseRun | None:
        """Find a run that its owner may ask for; what is not stored can be read by nobody else."""
        run = self._runs.get(id)
        if run is None or run.plan.owner != owner or not run.plan.is_stored:
            return None
        return run

    def add_teller(self, task: asyncio.Task[None]) -> None:
        """Take in a task that tells a client of runs, and ends after them."""
        self._tellers.add(task)
        task.add_done_callback(self._tellers.discard)

    async def end_all(self, error: ApiError) -> None:
        """Fail what is under way, and wait until it has been kept and told."""
        runs = list(self._runs.values())
        for run in runs:
            run.stop(error)
        await asyncio.gather(*(run.finished() for run in runs))
        if self._tellers:
            await asyncio.wait(self._tellers, timeout=_LAST_WORDS)
