"""The processes of the sandbox other than the agent: signals to them, and which of them run.

Between two runs all of them are stopped by SIGSTOP, which no process can catch. Only SIGCONT
continues them, and no stopped process can send it. But Linux sends it by itself, for instance to a
process group that an ending process leaves behind, or when a terminal is closed. The system call
filter refuses what it can; `running_on` finds the rest, also where there is no filter.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

_EXITING = 0x4  # PF_EXITING: the process runs no code any more, but the kernel still frees memory


class Processes:
    """The other processes of the sandbox; without a sandbox, only the kernel's process group.

    `of_server` is the PID namespace of the server: signals to all processes are safe only in
    another one.
    """

    def __init__(self, of_server: str | None) -> None:
        self.kernel = 0
        """The process id of the notebook's kernel, which leads a process group."""
        self.are_stopped = False
        """True from a SIGSTOP to all until the next signal to all."""
        self._alone = of_server is not None and _pid_namespace() not in (None, of_server)

    def signal_cell(self, number: int) -> None:
        """Send a signal to the kernel and to the processes that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.kernel, number)

    def signal_all(self, number: int) -> None:
        """Send a signal to every other process of the sandbox, also to orphans."""
        self.are_stopped = number == signal.SIGSTOP
        if not self._alone:
            self.signal_cell(number)
            return
        with suppress(ProcessLookupError):
            os.kill(-1, number)

    def exist(self) -> bool:
        """Return whether there is any."""
        try:
            os.kill(-1 if self._alone else self.kernel, 0)
        except ProcessLookupError:
            return False
        return True

    def running_on(self) -> list[int]:
        """Return those that run although all were stopped; none if the sandbox is not alone."""
        if not (self._alone and self.are_stopped):
            return []
        others = {int(name) for name in os.listdir("/proc") if name.isdigit()} - {1, os.getpid()}
        return sorted(filter(_runs, others))


def _runs(process: int) -> bool:
    """Return whether a process runs: it is not stopped, about to stop, or ending."""
    folder = Path("/proc") / str(process)
    try:
        # First what is pending: a process without a pending stop is already stopped, or runs.
        status = (folder / "status").read_text("ascii", "replace")
        tasks = [(task / "stat").read_text("ascii", "replace") for task in folder.glob("task/*")]
    except (FileNotFoundError, ProcessLookupError):  # it, or one of its threads, has just ended
        return False
    if any(_has_pending(status, name, signal.SIGSTOP) for name in ("SigPnd", "ShdPnd")):
        return False
    fields = [text.rpartition(")")[2].split() for text in tasks]
    if any(states[0] in "Tt" for states in fields):  # then its other threads stop, too
        return False
    return any(states[0] not in "ZX" and not int(states[6]) & _EXITING for states in fields)


def _has_pending(status: str, name: str, number: int) -> bool:
    mask = status.partition(f"\n{name}:")[2].split(maxsplit=1)
    return bool(mask) and bool(int(mask[0], 16) >> (number - 1) & 1)


def _pid_namespace() -> str | None:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None
