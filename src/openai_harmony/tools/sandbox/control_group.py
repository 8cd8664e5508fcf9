"""Limits for all processes of a sandbox together, where the server may make control groups (v2).

That is so where the group above the server's, or its own, is writable and has the controllers
`memory` and `pids` for its children: in a systemd unit with ``Delegate=yes`` and
``DelegateSubgroup=server``, for instance. Elsewhere there is none, and `memory_watch` has to do.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from .limits import Limits

__all__ = ["ControlGroup"]

_ROOT = Path("/sys/fs/cgroup")
_REMOVE_TRIES = 100


class ControlGroup:
    """A group with processes in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def make(
        cls, processes: Iterable[int], limits: Limits, parent: Path | None = None
    ) -> ControlGroup | None:
        """Put processes into a new group; None where there can be none.

        The files of a sandbox count as its memory.
        """
        parent = parent or _parent()
        if parent is None:
            return None
        group = cls(parent / f"notebook-{secrets.token_hex(8)}")
        total = limits.memory + limits.disk + 2 * limits.temporary
        try:
            group.folder.mkdir()
            for name, value in (
                ("memory.max", total),
                ("memory.oom.group", 0),
                ("pids.max", limits.processes + 8),  # and those of bubblewrap and the attendant
            ):
                (group.folder / name).write_text(str(value))
            swap = group.folder / "memory.swap.max"
            if swap.exists():
                swap.write_text("0")
            for process in processes:
                (group.folder / "cgroup.procs").write_text(str(process))
        except OSError:
            return None
        return group

    async def remove(self) -> None:
        """Take the group away, once its processes are gone."""
        for _ in range(_REMOVE_TRIES):
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:  # the last of its processes is ending
                await asyncio.sleep(0.01)
            else:
                return


def _parent() -> Path | None:
    """Return the group in which groups may be made."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    own = next((line[3:] for line in lines if line.startswith("0::")), None)
    if own is None:
        return None
    group = _ROOT / own.lstrip("/")
    candidates = (group.parent, group) if group != _ROOT else (group,)
    return next((folder for folder in candidates if _is_delegated(folder)), None)


def _is_delegated(folder: Path) -> bool:
    try:
        controllers = (folder / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False
    return {"memory", "pids"} <= set(controllers) and os.access(folder / "cgroup.procs", os.W_OK)
