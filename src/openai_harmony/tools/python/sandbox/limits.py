"""How much the code in a sandbox may use."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]

_MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes; the defaults are for a small server.

    >>> Limits(memory=4 << 30).rlimits()["AS"]
    4294967296
    """

    memory: int = 2048 * _MIB
    """Of each process, as address space, and of all together, as pages in use."""
    disk: int = 256 * _MIB
    """Of the folder ``/mnt/data``, which is held in memory."""
    temporary: int = 64 * _MIB
    """Of ``/tmp`` and of ``/dev/shm``, each; held in memory, too."""
    processes: int = 128
    """Processes and threads together."""
    open_files: int = 1024
    """Of each process."""
    cpu_seconds: int = 3600
    """Of each process, over its whole life; then it is killed."""
    threads: int = 4
    """That numerical libraries are told to use, where there are as many processors."""

    def rlimits(self) -> dict[str, int]:
        """Return the limits of a process, under the names of ``resource`` after ``RLIMIT_``."""
        return {
            "AS": self.memory,
            "NPROC": self.processes,
            "NOFILE": self.open_files,
            "FSIZE": max(self.disk, self.temporary),
            "CORE": 1,  # none is written, nor, as with 0, given to a program of the host
            "MEMLOCK": 0,
            "MSGQUEUE": 0,
        }
