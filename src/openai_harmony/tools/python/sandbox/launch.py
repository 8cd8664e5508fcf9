"""How an attendant is started: a command, its environment, and the folder of the notebook."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass

from .limits import Limits

__all__ = ["BOOTSTRAP", "Launch", "sandbox_environment"]

BOOTSTRAP = (
    "import sys; size = int(sys.stdin.buffer.readline()); "
    "exec(compile(sys.stdin.buffer.read(size), 'attendant', 'exec'))"
)
"""What Python is given: it reads its program from standard input, after a line with its size."""


@dataclass(frozen=True)
class Launch:
    """A command that starts an attendant, ready to be run once; `close` when it was."""

    command: tuple[str, ...]
    environment: dict[str, str]
    folder: str
    """The folder of the notebook, as the attendant sees it."""
    open_files: tuple[int, ...] = ()
    """Descriptors that the command inherits."""
    end_command: tuple[str, ...] = ()
    """What ends it where killing the command is not enough."""
    own_folder: tempfile.TemporaryDirectory[str] | None = None
    """The folder of the notebook, where it is one of the server's file system."""
    has_own_user: bool = False
    """Whether nobody else has its user, so that the user's processes can be counted."""

    def close(self) -> None:
        """Close the descriptors."""
        for descriptor in self.open_files:
            os.close(descriptor)


def sandbox_environment(limits: Limits, path: str) -> dict[str, str]:
    """Return the environment of the notebook: nothing of the server's."""
    threads = str(min(limits.threads, os.cpu_count() or 1))
    return {
        "PATH": path,
        "HOME": "/tmp",
        "USER": "notebook",
        "LOGNAME": "notebook",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "MALLOC_ARENA_MAX": "2",  # each arena takes 64 MiB of the address space
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "NUMEXPR_MAX_THREADS": threads,
        "MPLCONFIGDIR": "/tmp/matplotlib",
        "IPYTHONDIR": "/tmp/ipython",
        "JUPYTER_RUNTIME_DIR": "/tmp/jupyter",
    }
