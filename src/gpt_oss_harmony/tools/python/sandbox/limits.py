"""Limits of a sandbox: for each process, and for all of its processes together.

The kernel enforces the limits of a process. For all processes together, the server makes a control
group (v2) where it may. In any case it measures their memory and counts their tasks and files now
and then, during calls and between them.

A server may make control groups in a systemd unit with ``Delegate=yes`` and
``DelegateSubgroup=server``: systemd marks the unit's group as delegated, and the server runs in a
group below it. Groups without the mark are left alone, even by root.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from mmap import PAGESIZE
from pathlib import Path

OWN_TASKS = 8
"""Processes and threads of bubblewrap and the agent, at most."""

_MIB = 1 << 20
_UNIX_BUFFER = 212_992  # bytes; Linux's default
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_DELEGATION_MARKS = ("user.delegate", "trusted.delegate")  # extended attributes that systemd sets
_REMOVE_TRIES = 100


@dataclass(frozen=True)
class Limits:
    """Limits of the code in a sandbox; sizes in bytes, with defaults for a small server.

    >>> Limits(memory=4 << 30).rlimits()["AS"]
    4294967296
    """

    memory: int = 2048 * _MIB
    """Address space of each process, and memory in use of all together."""
    disk: int = 256 * _MIB
    """Size of the folder ``/mnt/data``, which is held in memory."""
    temporary: int = 64 * _MIB
    """Size of ``/tmp`` and of ``/dev/shm``, each; also held in memory."""
    files: int = 50_000
    """Files, folders and links in ``/mnt/data``, ``/tmp`` and ``/dev/shm`` together."""
    processes: int = 128
    """Processes and threads together."""
    open_files: int = 1024
    """Open files of each process."""
    cpu_seconds: int = 3600
    """CPU time of each process over its whole life; then it is killed."""
    threads: int = 4
    """Threads that numerical libraries use, at most one for each processor."""

    @property
    def total_memory(self) -> int:
        """The memory of all processes together with that of the folders held in memory."""
        return self.memory + self.disk + 2 * self.temporary

    def rlimits(self) -> dict[str, int]:
        """Return the limits of a process, under the names of ``resource`` after ``RLIMIT_``."""
        return {
            "AS": self.memory,
            "NPROC": self.processes,
            "NOFILE": self.open_files,
            "FSIZE": max(self.disk, self.temporary),
            "CORE": 1,  # no core file; 0 would still pass the core to a program of the host
            "MEMLOCK": 0,
            "MSGQUEUE": 0,
        }


def process_tree(process: int) -> list[int]:
    """Return a process and all its descendants; in a PID namespace these include orphans.

    >>> process_tree(os.getpid())[0] == os.getpid()
    True
    """
    tree = [process]
    for parent in tree:  # which grows
        # Linux lists the children of each thread apart.
        for thread in _proc_names(f"/proc/{parent}/task"):
            tree += map(int, _proc_text(f"/proc/{parent}/task/{thread}/children").split())
    return tree


def breach(process: int, limits: Limits, folders: Iterable[str] | None = None) -> str | None:
    """Return which limit a process and its descendants exceed together, or None.

    Tasks, the files in `folders` and sockets are counted only if `folders` is given: else the
    process is not bubblewrap, whose child is process 1 of the sandbox.
    """
    tree = process_tree(process)
    sockets = 0 if folders is None or len(tree) < 2 else socket_memory(tree[1])
    if used_memory(process, limits.memory - sockets) + sockets > limits.memory:
        return f"its processes took more than {limits.memory >> 20} MiB of memory"
    if folders is None:
        return None
    tasks = sum(len(_proc_names(f"/proc/{member}/task")) for member in tree)
    if tasks > limits.processes + OWN_TASKS:
        return f"its code made more than {limits.processes} processes and threads"
    try:
        files = count_files(tree[1], folders)
    except (OSError, IndexError):  # it has ended
        return None
    return f"its code made more than {limits.files:,} files" if files > limits.files else None


def socket_memory(process: int) -> int:
    """Return the bytes that the sockets in the network namespace of a process may hold.

    A Unix socket counts with the whole of its buffer, whose size code cannot change: what is in it
    is shown nowhere. Others count with their queues.
    """
    unix = max(0, _proc_text(f"/proc/{process}/net/unix").count("\n") - 1)
    held = unix * int(_proc_text("/proc/sys/net/core/wmem_default") or _UNIX_BUFFER)
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        for line in _proc_text(f"/proc/{process}/net/{kind}").splitlines()[1:]:
            held += sum(int(queue, 16) for queue in line.split()[4].split(":"))
    return held


def used_memory(process: int, limit: int) -> int:
    """Return the bytes that a process and its descendants use, with their page tables.

    Shared pages count for each process that shares them. Only if the result exceeds `limit`, they
    are counted once, which takes longer.
    """
    tree = process_tree(process)
    tables = sum(map(_page_tables, tree))
    used = tables + sum(map(_resident, tree))
    return used if used <= limit else tables + sum(map(_proportional, tree))


def count_files(process: int, folders: Iterable[str]) -> int:
    """Return how many files, folders and links a process has in file systems in memory.

    `folders` are where the process has these file systems. Raises `OSError` if the server may not
    look into them.
    """
    count = 0
    for folder in folders:
        status = os.statvfs(f"/proc/{process}/root{folder}")
        count += status.f_files - status.f_ffree
    return count


def _resident(process: int) -> int:
    fields = _proc_text(f"/proc/{process}/statm").split()
    return int(fields[1]) * PAGESIZE if fields else 0


def _page_tables(process: int) -> int:
    _, _, after = _proc_text(f"/proc/{process}/status").partition("VmPTE:")
    return int(after.split(maxsplit=1)[0]) * 1024 if after else 0


def _proportional(process: int) -> int:
    for line in _proc_text(f"/proc/{process}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return _resident(process)  # the process belongs to another user


def _proc_text(file: str) -> str:
    """Read a file of ``/proc``; empty if its process has ended."""
    try:
        return Path(file).read_text("ascii")
    except (OSError, ValueError):
        return ""


def _proc_names(folder: str) -> list[str]:
    """List a folder of ``/proc``; empty if its process has ended."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


class ControlGroup:
    """A control group with the processes of one sandbox."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def make(
        cls, processes: Iterable[int], limits: Limits, parent: Path | None = None
    ) -> ControlGroup | None:
        """Put processes into a new group; None if the server may not make groups.

        The files of a sandbox count as its memory.
        """
        parent = parent or delegated_group()
        if parent is None:
            return None
        group = cls(parent / f"notebook-{secrets.token_hex(8)}")
        try:
            group.folder.mkdir()
            for name, value in (
                ("memory.max", limits.total_memory),
                ("memory.oom.group", 0),
                ("pids.max", limits.processes + OWN_TASKS),
            ):
                (group.folder / name).write_text(str(value))
            swap = group.folder / "memory.swap.max"
            # A kernel that does not count swap has no such file.
            if swap.exists():
                swap.write_text("0")
            for process in processes:
                (group.folder / "cgroup.procs").write_text(str(process))
        except OSError:
            with suppress(OSError):
                group.folder.rmdir()
            return None
        return group

    def freeze(self, frozen: bool) -> None:
        """Stop its processes, or let them continue."""
        with suppress(OSError):  # they have ended, or Linux is older than 5.2
            (self.folder / "cgroup.freeze").write_text(str(int(frozen)))

    async def remove(self) -> None:
        """Remove the group once its processes are gone."""
        for _ in range(_REMOVE_TRIES):
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:  # the last of its processes is ending
                await asyncio.sleep(0.01)
            else:
                return


def delegated_group(root: Path = _CONTROL_GROUPS, own: str | None = None) -> Path | None:
    """Return the group in which the server may make groups: the parent of its own, or None."""
    if own is None:
        lines = _proc_text("/proc/self/cgroup").splitlines()
        # Groups of version 1 have lines with other numbers, on systems that mix both.
        own = next((line[3:] for line in lines if line.startswith("0::")), "")
    if not own or own == "/":
        return None
    group = (root / own.lstrip("/")).parent
    if not any(_has_mark(group, name) for name in _DELEGATION_MARKS):
        return None
    try:
        (group / "cgroup.subtree_control").write_text("+memory +pids")
    except OSError:  # it has processes of its own, or lacks these controllers
        return None
    return group


def _has_mark(group: Path, name: str) -> bool:
    try:
        return os.getxattr(group, name) == b"1"
    except OSError:
        return False
