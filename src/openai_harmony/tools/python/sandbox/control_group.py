"""Limits for all processes of a sandbox together, where the server may make control groups (v2).

That is so in a systemd unit with ``Delegate=yes`` and ``DelegateSubgroup=server``: systemd marks
the unit's group as given away, and the server is in a group below it. Groups that were not given
away are left alone, also by root; there, `memory_watch` has to do.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from .limits import Limits

__all__ = ["ControlGroup", "delegated_group"]

_ROOT = Path("/sys/fs/cgroup")
_MARKS = ("user.delegate", "trusted.delegate")  # which systemd sets
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
        parent = parent or delegated_group()
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
            with suppress(OSError):
                group.folder.rmdir()
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


def delegated_group(root: Path = _ROOT, own: str | None = None) -> Path | None:
    """Return the group in which groups may be made: that above the server's own, or none."""
    own = _own_group() if own is None else own
    if not own or own == "/":
        return None
    group = (root / own.lstrip("/")).parent
    if not any(_has_mark(group, name) for name in _MARKS):
        return None
    try:
        (group / "cgroup.subtree_control").write_text("+memory +pids")
    except OSError:  # it has processes of its own, or lacks these controllers
        return None
    return group


def _own_group() -> str | None:
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    return next((line[3:] for line in lines if line.startswith("0::")), None)


def _has_mark(group: Path, name: str) -> bool:
    try:
        return os.getxattr(group, name) == b"1"
    except OSError:
        return False
